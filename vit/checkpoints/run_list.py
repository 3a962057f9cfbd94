"""All runs below a folder, each in a few words, read without torch; a damaged run is a row with its problem"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.errors import VitError, first_line
from vit.layout import CELLS, CONFIG

State = Literal["finished", "training", "stopped", "damaged"]


@dataclass(frozen=True)
class RunSummary:
    """A run in a few words.

    Attributes:
        path: run folder.
        state: "training" where a process holds its lock, "stopped" where it has no result and no process.
        started: when it was started, as "2026-11-23 13:05", by the name of its folder.
        data: name of the data set.
        network: name of the network.
        images: number of training images; None without a result.
        accuracy: (value, low, high) on the test images with the 95 % interval; None where there is none.
        seconds: duration of the training; None without a result.
        problem: why the run is damaged; "".
    """

    path: Path
    state: State
    started: str
    data: str
    network: str
    images: int | None = None
    accuracy: tuple[float, float, float] | None = None
    seconds: float | None = None
    problem: str = ""

    def has_words(self, words: str) -> bool:
        """Whether each word occurs in path, state, day, data or network, in any case of letters."""
        text = f"{self.path} {self.state} {self.started} {self.data} {self.network}".casefold()
        return all(word in text for word in words.casefold().split())


def list_runs(folder: Path) -> Iterator[RunSummary]:
    """The runs below a folder in the order of their paths. Cells of studies and cross-validations are left out."""
    for found, below, files in os.walk(folder):
        below.sort()
        if CONFIG in files:
            below.clear()  # a run holds no other runs
            yield summarized(RunDirectory(Path(found)))
        elif CELLS in below:
            below.remove(CELLS)


def summarized(run: RunDirectory) -> RunSummary:
    """One run in a few words. Before there is a result, the folders OUT/DATA/NETWORK/TIME tell."""
    started, data, network = _started(run), run.path.parent.parent.name, run.path.parent.name
    try:
        result = run.read_result()
        state: State = "finished" if result is not None else "training" if run.is_held() else "stopped"
    except (VitError, OSError, ValueError) as error:
        return RunSummary(run.path, "damaged", started, data, network, problem=first_line(error))
    if result is None:
        return RunSummary(run.path, state, started, data, network)
    return RunSummary(
        run.path,
        state,
        started,
        result.data,
        result.spec.name,
        result.num_images.get("train"),
        _accuracy(result),
        result.seconds,
    )


def _accuracy(result: RunResult) -> tuple[float, float, float] | None:
    """Accuracy, or exact match of several labels; None of a pretraining, or without test images."""
    found = result.metrics.get("acc1" if result.multilabel is None else "exact_match")
    return None if found is None else (found["value"], found["low"], found["high"])


def _started(run: RunDirectory) -> str:
    try:
        moment = time.strptime(run.path.name[:15], "%Y%m%d-%H%M%S")
    except ValueError:
        moment = time.localtime(run.config_path.stat().st_mtime)
    return time.strftime("%Y-%m-%d %H:%M", moment)
