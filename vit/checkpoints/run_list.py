"""All runs below a folder, each in a few words, read without torch; a damaged run is a row with its problem"""

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vit.checkpoints.run import RunDirectory
from vit.errors import DAMAGE, VitError, first_line
from vit.layout import CELLS, CrossvalLayout, MlflowLayout, StudyLayout
from vit.tasks.task import SINGLE_LABEL, Task

State = Literal["finished", "training", "stopped", "damaged"]
_STUDIES = {layout(Path()).description_path.name for layout in (StudyLayout, CrossvalLayout)}
_STORE = MlflowLayout(Path())


@dataclass(frozen=True)
class RunSummary:
    """A run in a few words."""

    path: Path  # run folder
    state: State  # "training" where a process holds its lock, "stopped" where it has no result and no process
    started: str  # when it was started, as "2026-11-23 13:05", by the name of its folder
    data: str  # name of the data set
    network: str  # name of the network
    images: int | None = None  # number of training images; None without a result
    # (value, low, high) on the test images with the 95 % interval; of several labels for an image, the exact match
    accuracy: tuple[float, float, float] | None = None
    seconds: float | None = None  # duration of the training; None without a result
    problem: str = ""  # why the run is damaged, or why its accuracy is too good
    task: Task = SINGLE_LABEL  # whether an image has one class, or any number of labels

    @property
    def metric(self) -> str:
        """What `accuracy` is; "" where there is none."""
        return "" if self.accuracy is None else self.task.accuracy_name

    def has_words(self, words: str) -> bool:
        """Whether each word occurs in path, state, day, data or network, in any case of letters."""
        text = f"{self.path} {self.state} {self.started} {self.data} {self.network}".casefold()
        return all(word in text for word in words.casefold().split())


def metric_text(runs: Iterable[RunSummary]) -> str:
    """What the accuracies of runs are, for the head of their column."""
    return " or ".join(sorted({run.metric for run in runs if run.metric})) or "accuracy"


def list_runs(folder: Path) -> Iterator[RunSummary]:
    """The runs below a folder by path, without cells of studies and cross-validations and copies among artifacts."""
    for place, below, files in os.walk(folder):
        below.sort()
        if (run := RunDirectory(Path(place))).is_run:
            below.clear()  # a run holds no other runs
            yield summarized(run)
        elif not _STUDIES.isdisjoint(files):
            below[:] = [name for name in below if name != CELLS]
        elif _STORE.database_path.name in files:
            below[:] = [name for name in below if name != _STORE.artifacts_dir.name]


def first_study(folder: Path) -> Path | None:
    """The first study or cross-validation in a folder, or the folder itself; None: there is none."""
    for place, below, files in os.walk(folder):
        below.sort()
        if not _STUDIES.isdisjoint(files):
            return Path(place)
        if RunDirectory(Path(place)).is_run:
            below.clear()
    return None


def summarized(run: RunDirectory) -> RunSummary:
    """One run in a few words. Before there is a result, the folders OUT/DATA/NETWORK/TIME tell."""
    try:
        moment = time.strptime(run.path.name[:15], "%Y%m%d-%H%M%S")
    except ValueError:
        moment = time.localtime(run.config_path.stat().st_mtime)
    started = time.strftime("%Y-%m-%d %H:%M", moment)
    data, network = run.path.parent.parent.name, run.path.parent.name
    try:
        result = run.read_result()
        if result is None:
            return RunSummary(run.path, "training" if run.is_held() else "stopped", started, data, network)
        accuracy = result.metrics.get(result.accuracy_metric)
        return RunSummary(
            run.path, "finished", started, result.data, result.spec.name, result.num_images.get("train"),
            None if accuracy is None else (accuracy["value"], accuracy["low"], accuracy["high"]),
            result.seconds, "; ".join(result.seen_before or ()), result.task,
        )  # fmt: skip
    except (VitError, *DAMAGE) as error:
        return RunSummary(run.path, "damaged", started, data, network, problem=first_line(error))
