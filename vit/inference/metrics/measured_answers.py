"""What thresholds and prediction sets, fitted on validation images, do on other images with labels"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vit.checkpoints.novelty import FEWEST_IMAGES, is_unlike
from vit.checkpoints.validation_scores import ValidationScores
from vit.data.core.samples import Labels
from vit.inference.answers.answers import SET_METHODS, PredictionSets, SetMethod
from vit.inference.answers.selective import level_thresholds, risk_coverage
from vit.inference.scores.image_groups import number_of
from vit.inference.scores.intervals import Metric
from vit.inference.scores.scored_images import Bools, Floats, ScoredImages
from vit.tasks.levels import levels_of

TARGETS = (0.9, 0.95, 0.98, 0.99, 0.995)  # accuracies
COVERAGES = (0.9, 0.95)
_OF_THRESHOLD = ("kept", "accuracy", "answered", "right")  # metrics of `MeasuredThreshold`


@dataclass(frozen=True)
class MeasuredThreshold:
    """A threshold for a target accuracy, on images that it was not fitted on."""

    target: float  # accuracy that was asked for
    threshold: float | None  # smallest probability with an answer; None where no threshold has the guarantee
    kept: Metric | None  # fraction of the images with an answer; None without a threshold
    accuracy: Metric | None  # accuracy of the kept images; None where no image is kept
    # fraction of the images with a class or a group as answer, and of right ones among these; None without levels
    answered: Metric | None = None
    right: Metric | None = None

    @property
    def keeps_none(self) -> bool:
        """Whether the threshold has the guarantee, and is above the probabilities of all images."""
        return self.threshold is not None and self.accuracy is None


@dataclass(frozen=True)
class MeasuredSets:
    """Prediction sets of one method, on images that they were not fitted on."""

    method: SetMethod  # method of the sets
    coverage: float  # probability that was asked for
    measured: Metric  # fraction of the images whose set has the true class
    mean_size: float  # mean number of classes in a set
    by_class: list[float | None]  # the same fraction for the images of each class; None for a class without images
    unlimited: int  # number of classes that are in every set, because they have too few validation images


@dataclass(frozen=True)
class MeasuredNovelty:
    """How many images are unlike the training images. Of images like the validation images, at most 5 % are."""

    unlike: Metric  # fraction of the images with a novelty of 0.95 or more
    counts: list[int]  # number of images with a novelty from 0 to 0.05, from 0.05 to 0.1, ..., from 0.95 to 1

    @classmethod
    def of(cls, novelty: Floats, groups: Labels | None = None) -> "MeasuredNovelty":
        """The counts of images with some novelties (n,), and perhaps with groups (n,)."""
        counts, _ = np.histogram(novelty, bins=20, range=(0, 1))
        return cls(Metric.share(is_unlike(novelty), groups), counts.tolist())


@dataclass(frozen=True)
class MeasuredAnswers:
    """How well a network knows when it does not know."""

    num_validation: int  # number of validation images of the fit
    area: Metric  # area under the curve of risk against coverage (AURC), with its 95 % interval
    thresholds: list[MeasuredThreshold]  # one for each target accuracy
    sets: list[MeasuredSets]  # one for each method and coverage
    # how many images are unlike the training images; None where it was not computed
    novelty: MeasuredNovelty | None = None
    num_groups: int | None = None  # number of groups of the validation images; None where they have none

    @property
    def tells_unlike(self) -> bool:
        """Whether enough validation images, or groups of them, say which images are unlike the training images."""
        return (self.num_groups or self.num_validation) >= FEWEST_IMAGES

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "MeasuredAnswers":
        """The values that `asdict` gave. KeyError or TypeError where they are others."""

        def threshold(row: Mapping[str, Any]) -> MeasuredThreshold:
            metrics = {name: Metric(**row[name]) for name in _OF_THRESHOLD if row.get(name) is not None}
            return MeasuredThreshold(**{**row, **metrics})

        novelty = plain["novelty"]
        return cls(
            int(plain["num_validation"]),
            Metric(**plain["area"]),
            list(map(threshold, plain["thresholds"])),
            [MeasuredSets(**row | {"measured": Metric(**row["measured"])}) for row in plain["sets"]],
            None if novelty is None else MeasuredNovelty(Metric(**novelty["unlike"]), list(novelty["counts"])),
            plain["num_groups"],
        )


def measure_answers(scored: ScoredImages, scores: ValidationScores, class_names: Sequence[str]) -> MeasuredAnswers:
    """Fit thresholds and sets to validation scores, and measure them on labeled images of another split."""
    curve = risk_coverage(scored.confidences, scored.correct, scored.groups)
    return MeasuredAnswers(
        len(scores),
        curve.area,
        [_measured_threshold(target, scored, scores, class_names) for target in TARGETS],
        [_measured_sets(method, coverage, scored, scores) for coverage in COVERAGES for method in SET_METHODS],
        None if scored.novelty is None else MeasuredNovelty.of(scored.novelty, scored.groups),
        number_of(scores.groups),
    )


def _measured_threshold(
    target: float, scored: ScoredImages, scores: ValidationScores, class_names: Sequence[str]
) -> MeasuredThreshold:
    least, *above = level_thresholds(target, scores)
    kept = scored.confidences >= least
    measured = MeasuredThreshold(target, None, None, None)
    if least < math.inf:
        measured = MeasuredThreshold(target, least, *_shares(kept, scored.correct, scored.groups))
    if min(above, default=math.inf) == math.inf:
        return measured
    answered, right = kept.copy(), scored.correct & kept
    for level, least_of_level in zip(levels_of(class_names), above, strict=True):
        sums = level.joined(scored.probabilities)
        new = (sums.max(axis=1) >= least_of_level) & ~answered
        right |= new & (sums.argmax(axis=1) == level.group_of[scored.labels])
        answered |= new
    share, accuracy = _shares(answered, right, scored.groups)
    return replace(measured, answered=share, right=accuracy)


def _shares(kept: Bools, right: Bools, groups: Labels | None) -> tuple[Metric, Metric | None]:
    """The fraction of kept images, and of right ones among them; None where none is kept."""
    of_kept = None if groups is None else groups[kept]
    return Metric.share(kept, groups), Metric.share(right[kept], of_kept) if kept.any() else None


def _measured_sets(method: SetMethod, coverage: float, scored: ScoredImages, scores: ValidationScores) -> MeasuredSets:
    count, num_classes = scored.probabilities.shape
    rule = PredictionSets.fit(scores, method, coverage, num_classes)
    members = rule.members(scored.probabilities, np.random.default_rng(0).random((count,)))
    hits = members[np.arange(count), scored.labels]
    seen, hit = (np.bincount(scored.labels, weights, num_classes) for weights in (None, hits))
    by_class = [float(h / n) if n else None for h, n in zip(hit, seen, strict=True)]
    measured, mean_size = Metric.share(hits, scored.groups), float(members.sum(axis=1).mean())
    return MeasuredSets(method, coverage, measured, mean_size, by_class, len(rule.unlimited))
