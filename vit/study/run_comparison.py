"""Finished runs side by side on the test images that they share: accuracies, paired tests, options, disagreements"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vit.errors import DataError
from vit.inference.scores.image_groups import count_text, effective_number, number_of
from vit.inference.scores.intervals import Metric
from vit.study.findings import ALPHA, Difference, Interval
from vit.study.finished_runs import FinishedRun
from vit.study.statistics.paired import McNemar, difference, hochberg, mcnemar, paired_gap, pairs
from vit.study.statistics.variance_components import Floats, mean_error
from vit.training.recipes.values import training_options


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
    gap: Interval  # accuracy of the first run minus that of the other one
    test: McNemar  # McNemar's test, or with groups of images also theirs
    p_adjusted: float  # its p, corrected for all pairs (Hochberg)

    @property
    def is_between(self) -> bool:
        """Whether the interval leaves out 0, and the test, which is stricter, does not tell the runs apart."""
        low, high = self.gap.low or 0.0, self.gap.high or 0.0
        return (low > 0 or high < 0) and self.test.p >= ALPHA


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
        return [f"{run.name}: {sentence}" for run in self.runs for sentence in run.seen_before]

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

    def spread(index: int) -> float:
        losses = [run.rows[index].loss for run in runs]
        return max(losses) - min(losses)

    values = [_flat(run.recipe) for run in runs]
    names = sorted({name for own in values for name in own})
    options = [(name, *(own.get(name, "") for own in values)) for name in names]
    differing = [index for index in range(len(first.rows)) if len({run.rows[index].predicted for run in runs}) > 1]
    return RunComparison(
        runs,
        [Metric.share(run.correct, first.groups) for run in runs],
        [RunPair(*row) for row in zip(others, gaps, tests, corrected, strict=True)],
        groups,
        _differences(groups) if len(groups) > 1 else [],
        [*(row for row in options if len(set(row[1:])) > 1), *_different_images(runs)],
        sorted(differing, key=spread, reverse=True),
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
    found = [
        Repeated(group[0].network if is_plain else group[0].name, {run.seed: run.wrong for run in group}, num_units)
        for _, group in groups
    ]
    several = any(len(one.wrong) > 1 for one in found)
    return found if several and sum(len(one.wrong) for one in found) == len(runs) else []


def _differences(groups: Sequence[Repeated]) -> list[tuple[str, Difference | None]]:
    """The first recipe against each other one on their common seeds, corrected together; None without common seeds."""
    first, *others = groups
    shared = [pairs({0: first.wrong}, {0: other.wrong}, first.num_units) for other in others]
    found = [difference(pair[0]) if pair else None for pair in shared]
    adjusted = hochberg([one.tested_p if one else None for one in found])
    return [
        (other.name, replace(one, p_adjusted=p) if one else None)
        for other, one, p in zip(others, found, adjusted, strict=True)
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


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Nested values by their dotted names, as text."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": f"{value}"}
    return flat
