"""Finished runs side by side on the test images that they share: accuracies, paired tests, options, disagreements"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vit.data.samples import Labels
from vit.errors import DataError
from vit.inference.image_groups import count_words, effective_number, gathered, number_of
from vit.inference.intervals import Metric
from vit.layout import RunLayout
from vit.plain_files import parse_yaml, read_text
from vit.study.findings import ALPHA, Difference, Interval
from vit.study.finished_runs import FinishedRun
from vit.study.paired import McNemar, hochberg, mcnemar, paired_gap
from vit.study.repeats import Repeated, Run, differences, repeated


@dataclass(frozen=True)
class RunPair:
    """The first run and another one, over the test images alone.

    Attributes:
        other: the other run.
        gap: accuracy of the first run minus that of the other one.
        test: McNemar's test, or with groups of images also theirs.
        p_adjusted: its p, corrected for all pairs (Hochberg).
    """

    other: FinishedRun
    gap: Interval
    test: McNemar
    p_adjusted: float

    @property
    def is_between(self) -> bool:
        """Whether the interval leaves out 0, and the test, which is stricter, does not tell the runs apart."""
        low, high = self.gap.low or 0.0, self.gap.high or 0.0
        return (low > 0 or high < 0) and self.test.p >= ALPHA


@dataclass(frozen=True)
class RunComparison:
    """What runs have in common and what not.

    Attributes:
        runs: the runs; each other one is compared with the first.
        accuracies: accuracy of each run, with an interval over the test images.
        pairs: the first run against each other one.
        groups: recipes with several seeds; empty where each recipe has one.
        differences: the first recipe against each other one, over seeds and test images; None without common seeds.
        options: options that differ, and training images that differ: name, and the value of each run; "" where a run
            does not have the option.
        disagreements: indices of the images with different predicted labels, largest difference in loss first.
    """

    runs: Sequence[FinishedRun]
    accuracies: list[Interval]
    pairs: list[RunPair]
    groups: list[Repeated]
    differences: list[tuple[str, Difference | None]]
    options: list[tuple[str, ...]]
    disagreements: list[int]

    @property
    def num_images(self) -> int:
        """Number of common test images."""
        return len(self.runs[0].rows)

    @property
    def seen_before(self) -> list[str]:
        """Sentences about test images that runs had learned from before, each with the name of its run."""
        return [f"{run.name}: {sentence}" for run in self.runs for sentence in run.seen_before]

    @property
    def images(self) -> str:
        """How many common test images there are, and of how many groups."""
        return count_words(self.num_images, number_of(self.runs[0].groups), "test image")


def compare_runs(runs: Sequence[FinishedRun]) -> RunComparison:
    """Compare runs that were tested on the same images.

    Raises:
        DataError: a recipe has several seeds, and there is one test image.
    """
    first, *others = runs
    recipes = [_recipe(run) for run in runs]
    tests = [mcnemar(first.correct, other.correct, first.groups) for other in others]
    gaps = [paired_gap(first.correct, other.correct, first.groups) for other in others]
    corrected = hochberg([test.p for test in tests])
    trained = [
        Run(run.name, run.network, run.seed, own, gathered(~run.correct, first.groups), run.learned)
        for run, own in zip(runs, recipes, strict=True)
    ]
    groups = repeated(trained, effective_number(first.groups))
    if groups and len(first.rows) < 2:
        problem = f"{first.path} and the others have one test image, and seeds are compared on two or more"
        raise DataError(problem, "train with more test images, or compare one run of each recipe")
    return RunComparison(
        runs,
        [_accuracy(run, first.groups) for run in runs],
        [RunPair(*row) for row in zip(others, gaps, tests, corrected, strict=True)],
        groups,
        differences(groups) if len(groups) > 1 else [],
        [*_different_options(recipes), *_different_images(trained)],
        _disagreements(runs),
    )


def _accuracy(run: FinishedRun, groups: Labels | None) -> Interval:
    accuracy = Metric.share(run.correct, groups)
    return Interval(accuracy.value, accuracy.low, accuracy.high)


def _recipe(run: FinishedRun) -> dict[str, Any]:
    """The recipe of a run as plain values; empty where it cannot be read."""
    try:
        found = parse_yaml(read_text(RunLayout(run.path).config_path))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _different_options(recipes: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    values = [_flat(recipe) for recipe in recipes]
    names = sorted({name for own in values for name in own})
    rows = [(name, *(own.get(name, "") for own in values)) for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def _different_images(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """A row like those of options where runs have learned from other images; [] where all have the same."""
    kinds: list[Run] = []  # the first run of each set of images
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


def _disagreements(runs: Sequence[FinishedRun]) -> list[int]:
    def spread(index: int) -> float:
        losses = [run.rows[index].loss for run in runs]
        return max(losses) - min(losses)

    labels = zip(*([row.predicted for row in run.rows] for run in runs), strict=True)
    return sorted((index for index, guesses in enumerate(labels) if len(set(guesses)) > 1), key=spread, reverse=True)
