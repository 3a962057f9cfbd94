"""Finished runs side by side on their common test images: accuracies, paired tests, options, disagreements"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.core.samples import Labels
from vit.errors import DataError, UsageError
from vit.inference.scores.image_groups import count_text, effective_number, gathered, number_of
from vit.inference.scores.intervals import Metric
from vit.inference.scores.scored_images import ScoredRow, read_scored
from vit.plain_files import parse_yaml, read_text
from vit.study.common_images import LearnedImages, changed_places, check_same_groups, listed_images
from vit.study.findings import ALPHA, Difference, Interval, JsonValue
from vit.study.statistics.paired import McNemar, difference, hochberg, mcnemar, paired_gap, pairs
from vit.study.statistics.variance_components import Bools, Floats, mean_error
from vit.training.recipes.values import dotted, training_options, with_defaults


@dataclass(frozen=True)
class FinishedRun:
    """A finished run and the predictions of its test images."""

    path: Path
    name: str  # shortest name that tells the compared runs apart
    result: RunResult
    rows: list[ScoredRow]  # one row for each test image, in the order of the split
    groups: Labels | None = None  # (T,) number of each test image's group; None where images have none
    learned: LearnedImages | None = None  # images that the run has learned from; None: all compared runs have the same
    recipe: Mapping[str, JsonValue] = field(default_factory=dict)  # as plain values; empty where it cannot be read

    @property
    def network(self) -> str:
        return self.result.spec.name

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
        return self.result.seed if data.get("subset_seed") is None else data["subset_seed"]

    def learned_like(self, other: "FinishedRun") -> bool:
        """Whether both have learned from the same images; a seed may draw its own subset."""
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
    runs = [run for _, run in opened]
    if len({str(run.result.spec) for run in runs}) > len({run.network for run in runs}):  # imports torch
        runs = [replace(one, recipe=with_defaults(one.recipe)) for one in runs]
    for names in (
        [run.network for run in runs],
        [f"{run.network}/{run.path.resolve().name}" for run in runs],
        [str(run.path) for run in runs],
    ):
        if len(set(names)) == len(runs):
            break
    for other in runs[1:]:
        _check_same_names(runs[0], other)
    listed = listed_images([(folder, run.result) for folder, run in opened])
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


def _open(path: Path) -> tuple[RunDirectory, FinishedRun]:
    """A run without what its splits.csv lists."""
    run = RunDirectory.open(path)
    result, scored = run.finished_result(), run.scored_path("test")
    if result.multilabel is not None:
        problem = f"{path} gives an image several labels, and vit compare counts images with the right class (McNemar)"
        raise UsageError(problem, "compare the intervals of vit evaluate, for example of mAP")
    if "test" not in result.fingerprints:
        raise UsageError(f"{path} has no test images", "train with --data.test above 0")
    for file in (scored, run.splits_path):
        if not file.is_file():
            raise DataError(f"{run.path} has no {file.relative_to(run.path)}", "restore the file, or train again")
    rows = read_scored(scored, result.num_images["test"])
    try:
        recipe = parse_yaml(read_text(run.config_path))
    except (OSError, ValueError):
        recipe = {}
    finished = FinishedRun(run.path, result.spec.name, result, rows, recipe=recipe if isinstance(recipe, dict) else {})
    return run, finished


def _check_same_names(first: FinishedRun, other: FinishedRun) -> None:
    """Raise DataError unless the test images of both runs have the same names and labels in the same order."""
    if first.result.fingerprints["test"] != other.result.fingerprints["test"]:
        images = (
            f"{len(run.rows):,} of {run.result.data} ({run.result.fingerprints['test']})" for run in (first, other)
        )
        raise DataError(
            f"{first.path} and {other.path} have different test images: {', '.join(images)}",
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


@dataclass(frozen=True)
class Repeated:
    """The runs of one recipe, by seed."""

    name: str  # name of the network, or of the first run where two recipes share a network
    # {seed: (T,) whether the prediction for each test image is wrong, as `image_groups.gathered` returns it}
    wrong: dict[int, Floats]
    num_units: float | None = None  # number of equally large groups of the test images; None: all are independent

    @property
    def error(self) -> Interval:
        """Mean error of the seeds. Its interval covers other seeds and other test images."""
        return mean_error(np.stack(list(self.wrong.values())), self.num_units)


@dataclass(frozen=True)
class RunPair:
    """The first run and another one, over the test images alone."""

    other: FinishedRun
    gap: Metric  # accuracy of the first run minus that of the other one
    test: McNemar  # McNemar's test, or with groups of images also theirs
    p_adjusted: float  # its p, corrected for all pairs (Hochberg)

    @property
    def is_between(self) -> bool:
        """Whether the interval leaves out 0, and the test, which is stricter, does not tell the runs apart."""
        return (self.gap.low > 0 or self.gap.high < 0) and self.test.p >= ALPHA


@dataclass(frozen=True)
class RunComparison:
    """What runs have in common and what not."""

    runs: Sequence[FinishedRun]
    accuracies: Sequence[Interval]  # accuracy of each run, with an interval over the test images
    pairs: list[RunPair]
    groups: list[Repeated]  # recipes with several seeds; empty where each recipe has one
    # the first recipe against each other one, over seeds and test images; None without common seeds
    differences: list[tuple[str, Difference | None]]
    # options that differ, and training images that differ: name, and the value of each run; "" where a run does not
    # have the option
    options: list[tuple[str, ...]]
    disagreements: list[int]  # indices of the images with different predicted labels, largest difference in loss first

    @property
    def num_images(self) -> int:
        return len(self.runs[0].rows)

    @property
    def seen_before(self) -> list[str]:
        """Sentences about test images that runs had learned from before, each with the name of its run."""
        return [f"{run.name}: {sentence}" for run in self.runs for sentence in run.result.seen_before or ()]

    @property
    def images(self) -> str:
        """How many common test images there are, and of how many groups."""
        return count_text(self.num_images, number_of(self.runs[0].groups), "test image")


def compare_runs(runs: Sequence[FinishedRun]) -> RunComparison:
    """Compare runs that were tested on the same images. DataError for several seeds of a recipe and one test image."""
    first, *others = runs
    tests = [mcnemar(first.correct, other.correct, first.groups) for other in others]
    gaps = [paired_gap(first.correct, other.correct, first.groups) for other in others]
    corrected = hochberg([test.p for test in tests])
    groups = _repeated(runs, effective_number(first.groups))
    if groups and len(first.rows) < 2:
        problem = f"{first.path} and the others have one test image, and seeds are compared on two or more"
        raise DataError(problem, "train with more test images, or compare one run of each recipe")
    values = [{name: f"{value}" for name, value in dotted(training_options(run.recipe)).items()} for run in runs]
    options = [(name, *(of_run.get(name, "") for of_run in values)) for name in sorted(set().union(*values))]
    differing = [index for index in range(len(first.rows)) if len({run.rows[index].predicted for run in runs}) > 1]
    return RunComparison(
        runs,
        [Metric.share(run.correct, first.groups) for run in runs],
        [RunPair(*row) for row in zip(others, gaps, tests, corrected, strict=True)],
        groups,
        _differences(groups) if len(groups) > 1 else [],
        [*(row for row in options if len(set(row[1:])) > 1), *_different_images(runs)],
        sorted(differing, key=lambda index: np.ptp([run.rows[index].loss for run in runs]), reverse=True),
    )


def _repeated(runs: Sequence[FinishedRun], num_units: float | None) -> list[Repeated]:
    """The recipes in the order of their first run, empty where no recipe has two seeds, or one has a seed twice."""
    groups: list[tuple[str, list[FinishedRun]]] = []  # runs of a recipe that have learned from the same images
    for run in runs:
        recipe = _training(run)
        alike = (group for known, group in groups if known == recipe and all(map(run.learned_like, group)))
        group = next(alike, None)
        if group is None:
            groups.append((recipe, [run]))
        else:
            group.append(run)
    is_plain = len({group[0].network for _, group in groups}) == len(groups)
    repeated = [
        Repeated(
            group[0].network if is_plain else group[0].name, {run.result.seed: run.wrong for run in group}, num_units
        )
        for _, group in groups
    ]
    several = any(len(one.wrong) > 1 for one in repeated)
    return repeated if several and sum(len(one.wrong) for one in repeated) == len(runs) else []


def _differences(groups: Sequence[Repeated]) -> list[tuple[str, Difference | None]]:
    """The first recipe against each other one on their common seeds, corrected together; None without common seeds."""
    first, *others = groups
    shared = [pairs({0: first.wrong}, {0: other.wrong}, first.num_units) for other in others]
    differences = [difference(pair[0]) if pair else None for pair in shared]
    adjusted = hochberg([one.tested_p if one else None for one in differences])
    return [
        (other.name, replace(one, p_adjusted=p) if one else None)
        for other, one, p in zip(others, differences, adjusted, strict=True)
    ]


def _training(run: FinishedRun) -> str:
    """A text that is equal for runs that differ only in their seed; the name of a run without a recipe."""
    if not run.recipe:
        return run.name
    values = training_options(run.recipe)
    values.pop("seed", None)
    if isinstance(values.get("data"), dict):
        values["data"].pop("subset_seed", None)
    return json.dumps(values, sort_keys=True, default=str)


def _different_images(runs: Sequence[FinishedRun]) -> list[tuple[str, ...]]:
    """A row like those of options where runs have learned from other images; [] where all have the same."""
    kinds: list[FinishedRun] = []  # the first run of each set of images
    cells = []
    for run in runs:
        number = next((place for place, one in enumerate(kinds) if run.learned_like(one)), len(kinds))
        kinds += [run] * (number == len(kinds))
        cells.append("" if run.learned is None else f"{run.learned.num_train:,} (set {number + 1})")
    return [("training images", *cells)] if len(kinds) > 1 else []
