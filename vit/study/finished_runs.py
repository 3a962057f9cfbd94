"""Finished runs and their test images, as `vit compare` reads them"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.core.samples import Labels
from vit.errors import DataError, UsageError
from vit.inference.scores.image_groups import gathered
from vit.inference.scores.scored_images import ScoredRow, read_scored
from vit.plain_files import parse_yaml, read_text
from vit.study.common_images import LearnedImages, changed_places, check_same_groups, listed_images
from vit.study.findings import JsonValue
from vit.study.statistics.variance_components import Bools, Floats


@dataclass(frozen=True)
class FinishedRun:
    """A finished run and the predictions of its test images."""

    path: Path
    name: str  # shortest name that tells the compared runs apart
    network: str
    data: str
    seed: int
    fingerprint: str  # hash of the list of test images
    rows: list[ScoredRow]  # one row for each test image, in the order of the split
    groups: Labels | None = None  # (T,) number of each test image's group; None where images have none
    seen_before: Sequence[str] = ()  # sentences about test images that the run knew already, as in `RunResult`
    # images that the run has learned from; None: not known, or those of all compared runs
    learned: LearnedImages | None = None
    recipe: Mapping[str, JsonValue] = field(default_factory=dict)  # as plain values; empty where it cannot be read

    @property
    def correct(self) -> Bools:
        return np.array([row.label == row.predicted for row in self.rows], dtype=bool)

    @property
    def wrong(self) -> Floats:
        """(T,) whether each test image is wrong, as `image_groups.gathered` returns it."""
        return gathered(~self.correct, self.groups)

    @property
    def draw(self) -> JsonValue:
        """The seed that has drawn the training images from all of them; None where the run uses all."""
        data = self.recipe.get("data")
        if not isinstance(data, dict) or not data.get("train_images"):
            return None
        return self.seed if data.get("subset_seed") is None else data["subset_seed"]

    def learned_like(self, other: "FinishedRun") -> bool:
        """Whether both have learned from the same images, as far as that is known; a seed may draw its own subset."""
        if self.learned is None or other.learned is None or self.learned is other.learned:
            return True
        return self.learned.is_same(other.learned, self.draw == other.draw)


def read_runs(folders: Sequence[str | os.PathLike[str]]) -> list[FinishedRun]:
    """Runs that were tested on the same images, with the shortest names that tell them apart.

    UsageError where there are fewer than two folders, one is given twice, or one is not a finished run with test
    images. DataError where files of a run are damaged, or the runs have different test images.
    """
    if len(folders) < 2:
        raise UsageError("one run cannot be compared", "give two or more run folders")
    seen: dict[Path, str] = {}
    for folder in [os.fspath(one) for one in folders]:
        path = Path(folder).expanduser().resolve()
        if path in seen:
            also = f", as {seen[path]}" if seen[path] != folder else ""
            raise UsageError(f"{folder} is given twice{also}", "give it once")
        seen[path] = folder
    opened = [_open(Path(folder).expanduser()) for folder in folders]
    runs = [_read(*one) for one in opened]
    for names in (
        [run.network for run in runs],
        [f"{run.network}/{run.path.resolve().name}" for run in runs],
        [str(run.path) for run in runs],
    ):
        if len(set(names)) == len(runs):
            break
    for other in runs[1:]:
        _check_same_names(runs[0], other)
    listed = listed_images(opened)
    for other, images in zip(runs[1:], listed[1:], strict=True):
        if places := changed_places(listed[0], images):
            raise DataError(
                f"{runs[0].path} and {other.path} have different test images: {len(places):,} of {len(other.rows):,} "
                f"have the same names and other contents, the first one {other.rows[places[0]].path}",
                "train one of them again, or measure both with 'vit evaluate RUN DATA'",
            )
    check_same_groups([run.path for run in runs], [images.groups for images in listed])
    return [
        replace(run, name=name, groups=images.groups, learned=images.learned)
        for run, name, images in zip(runs, names, listed, strict=True)
    ]


def _open(path: Path) -> tuple[RunDirectory, RunResult]:
    run = RunDirectory.open(path)
    result = run.finished_result()
    if result.multilabel is not None:
        raise UsageError(
            f"{path} gives an image several labels, and vit compare counts images with the right class (McNemar)",
            "compare the intervals of vit evaluate, for example of mAP",
        )
    if "test" not in result.fingerprints:
        raise UsageError(f"{path} has no test images", "train with --data.test above 0")
    return run, result


def _read(run: RunDirectory, result: RunResult) -> FinishedRun:
    """A run without what its splits.csv lists."""
    scored = run.scored_path("test")
    if not scored.is_file():
        raise DataError(f"{run.path} has no {scored.relative_to(run.path)}", "restore the file, or train again")
    rows = read_scored(scored, result.num_images["test"])
    try:
        recipe = parse_yaml(read_text(run.config_path))
    except (OSError, ValueError):
        recipe = {}
    recipe = recipe if isinstance(recipe, dict) else {}
    network, fingerprint = result.spec.name, result.fingerprints["test"]
    known = result.seen_before or ()
    return FinishedRun(
        run.path, network, network, result.data, result.seed, fingerprint, rows, seen_before=known, recipe=recipe
    )


def _check_same_names(first: FinishedRun, other: FinishedRun) -> None:
    """Raise DataError unless the test images of both runs have the same names and labels in the same order."""
    if first.fingerprint != other.fingerprint:
        raise DataError(
            f"{first.path} and {other.path} have different test images: {len(first.rows):,} of "
            f"{first.data} ({first.fingerprint}), {len(other.rows):,} of {other.data} ({other.fingerprint})",
            "compare runs with the same data, data.split_seed, data.validation, data.test and data.groups, "
            "or measure both with 'vit evaluate RUN DATA'",
        )
    for mine, theirs in zip(first.rows, other.rows, strict=True):
        if mine[:2] != theirs[:2]:
            raise DataError(
                f"the predictions of {first.path} and {other.path} differ in their test images: "
                f"{mine.path} ({mine.label}) beside {theirs.path} ({theirs.label})",
                "one of them was changed; restore it",
            )
