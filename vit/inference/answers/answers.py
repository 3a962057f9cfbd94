"""Which images get an answer, and which set of classes: the rule that `vit predict` applies to probabilities

Prediction sets hold the true class with a chosen probability (split conformal prediction). A score of each validation
image says how far down its true class stands, and sets of new images hold the classes that stand no further down than
most. The coverage holds for any network, on average over images like the validation images. Where images belong
together, it holds for an image of a new group, and each group of validation images counts once (Lee, Barber and Willett
2023, arXiv 2306.06342, hierarchical conformal prediction).
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit.checkpoints.validation_scores import ValidationScores, fitted_text
from vit.data.core.draws import uniform
from vit.errors import UsageError
from vit.options import read_value
from vit.ranges import Fraction
from vit.tasks.levels import Level, levels_of

SetMethod = Literal["lac", "aps", "class_conditional"]
SET_METHODS: tuple[SetMethod, ...] = ("lac", "aps", "class_conditional")

Levels = tuple[tuple[Level, float], ...]
Floats = npt.NDArray[np.float64]
Probabilities = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PredictionSets:
    """A rule from probabilities to sets of classes, fitted on validation images. A set is never empty."""

    # "lac": classes above one probability, the smallest sets on average (Sadinle et al. 2019, arXiv 1609.00451). "aps":
    # the most probable classes until their sum is large enough, with a random last step (Romano et al. 2020, arXiv
    # 2006.02544); sets of difficult images are larger. "class_conditional": lac with one threshold for each class, so
    # that the coverage holds in each class.
    method: SetMethod
    coverage: float  # probability that the set has the true class
    # (C,) largest score of a class that is in a set; infinite where a class has too few validation images
    limits: Floats

    @classmethod
    def fit(cls, scores: ValidationScores, method: SetMethod, coverage: float, num_classes: int) -> "PredictionSets":
        """The rule for a coverage between 0 and 1."""
        if method == "aps":
            draws = np.random.default_rng(0).random(len(scores))
            limit = _quantile(scores.above + draws * scores.own, coverage, scores.groups)
            return cls(method, coverage, np.full(num_classes, limit))
        missing = 1.0 - scores.own.astype(np.float64)
        if method == "lac":
            return cls(method, coverage, np.full(num_classes, _quantile(missing, coverage, scores.groups)))
        limits, groups = np.empty(num_classes), scores.groups
        for number in range(num_classes):
            in_class = scores.labels == number
            limits[number] = _quantile(missing[in_class], coverage, None if groups is None else groups[in_class])
        return cls(method, coverage, limits)

    def members(self, probabilities: Probabilities, draws: Floats) -> npt.NDArray[np.bool_]:
        """(n, C) which classes are in each set: always the most probable one. `draws` (n,), 0 to 1, are for "aps"."""
        if self.method == "aps":
            order = np.argsort(-probabilities, axis=1, kind="stable")
            falling = np.take_along_axis(probabilities, order, axis=1).astype(np.float64)
            before = np.zeros_like(probabilities, dtype=np.float64)
            np.put_along_axis(before, order, np.cumsum(falling, axis=1) - falling, axis=1)
            scores = before + draws[:, None] * probabilities
        else:
            scores = 1.0 - probabilities.astype(np.float64)
        inside = np.asarray(scores <= self.limits)
        inside[np.arange(len(inside)), probabilities.argmax(axis=1)] = True
        return inside

    @property
    def unlimited(self) -> list[int]:
        """Classes that are in every set, because too few validation images of them exist."""
        return np.flatnonzero(np.isinf(self.limits)).tolist()


def fewest_of_sets(coverage: float) -> int:
    """The smallest number of validation images, or of their groups, with which sets are not all classes."""
    return math.ceil(coverage / (1 - coverage) * (1 - 1e-9))  # 0.9 / (1 - 0.9) is a little above 9


def _quantile(scores: npt.NDArray[np.floating], coverage: float, groups: npt.NDArray[np.int64] | None) -> float:
    """The ceil((n + 1) coverage)-th smallest of n scores; infinite where n is too small.

    With groups (n,), n is their number, and the images of a group share its place.
    """
    shares = np.ones(len(scores))
    if groups is not None and len(groups):
        _, numbers, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        shares = 1 / sizes[numbers]
    order = np.argsort(scores, kind="stable")
    places = np.cumsum(shares[order]).round(9)
    rank = round((float(shares.sum().round()) + 1) * coverage, 9)
    place = int(np.searchsorted(places, rank))
    return math.inf if place == len(scores) else float(scores[order[place]])


@dataclass(frozen=True)
class AnswerRule:
    """What becomes of the probabilities of an image. By default every image gets its most probable class."""

    reject_below: float = 0.0  # images whose largest probability is below this number get no label
    sets: PredictionSets | None = None  # the rule for sets of classes; None: rows have no sets
    reject_novelty: float | None = None  # images of at least this novelty get no label; None: novelty decides nothing
    # the levels above the classes, the deepest first, with the smallest probability of a group that is an answer
    levels: Levels = ()

    def reason(self, label: str) -> str:
        """Why an image whose most probable class is this one gets no label."""
        if self.reject_below == math.inf:
            return f"no probability of a class is high enough; the most probable class is {label}"
        return f"the most probable class, {label}, has less than {self.reject_below:.4f}"

    def groups(self, probabilities: Probabilities) -> list[str]:
        """For probabilities (n, C) the most probable group of the deepest level where it is sure; "" for none."""
        answers = [""] * len(probabilities)
        for level, least in self.levels:
            sums = level.joined(probabilities)
            for row in np.flatnonzero(sums.max(axis=1) >= least):
                answers[row] = answers[row] or level.names[sums[row].argmax()]
        return answers

    def members(self, probabilities: Probabilities, images: npt.NDArray[np.uint8]) -> list[tuple[int, ...]]:
        """The set of class numbers of each image, most probable first; an empty set without a rule for sets.

        The random number of an image (3, S, S) depends on its pixels alone: it is the same in every batch and under
        every name, and others for other images.
        """
        if self.sets is None:
            return [()] * len(images)
        draws = np.zeros(len(images))
        if self.sets.method == "aps":  # the others use no draw, and a hash of all pixels takes time
            digests = [hashlib.sha256(image.tobytes()).digest() for image in images]
            draws = np.array([float(uniform(1, int.from_bytes(digest[:7], "little"))[0]) for digest in digests])
        inside = self.sets.members(probabilities, draws)
        order = np.argsort(-probabilities, axis=1, kind="stable")
        return [tuple(row[is_member[row]].tolist()) for row, is_member in zip(order, inside, strict=True)]


def answer_rule(
    scores: ValidationScores | None,
    class_names: Sequence[str],
    *,
    reject_below: float | None = None,
    target_accuracy: float | None = None,
    coverage: float | None = None,
    sets: SetMethod = "lac",
) -> AnswerRule:
    """The rule for options of `vit predict`. UsageError: validation images are missing, or too few for what is asked.

    Args:
        reject_below: see `AnswerRule`; it holds for the groups of each level, too.
        target_accuracy: accuracy of the labels, and of the answers of each level, instead of `reject_below`.
        coverage: probability that a set has the true class; None: no sets.
    """
    for name, value in (("reject_below", reject_below), ("target_accuracy", target_accuracy), ("coverage", coverage)):
        read_value(Fraction | None, value, name)
    read_value(SetMethod, sets, "sets")
    levels = () if reject_below is None else tuple((one, reject_below) for one in levels_of(class_names))
    if target_accuracy is None and coverage is None:
        return AnswerRule(reject_below or 0.0, levels=levels)
    if scores is None:
        option = "--target_accuracy" if target_accuracy is not None else "--coverage"
        problem = f"{option} is fitted on validation images, and this model has no scores of them"
        raise UsageError(problem, "train again with validation images, or give --reject_below")
    if target_accuracy is not None:
        reject_below, levels = _thresholds(scores, target_accuracy, class_names)
    fitted = None if coverage is None else PredictionSets.fit(scores, sets, coverage, len(class_names))
    if coverage is not None and fitted is not None and len(fitted.unlimited) == len(class_names):
        images = fitted_text(scores.split)
        units = images if scores.groups is None else f"groups of {images}"
        has = " of each class" if sets == "class_conditional" else f", and this model has {_count(scores)}"
        problem = f"--coverage {coverage:g} needs {fewest_of_sets(coverage):,} {units}{has}"
        raise UsageError(problem, f"give a lower coverage, or {more_images(scores)}")
    return AnswerRule(reject_below or 0.0, fitted, levels=levels)


def more_images(scores: ValidationScores | None) -> str:
    """What to do where a rule has too few images to be fitted to."""
    split = "validation" if scores is None or scores.split is None else scores.split
    return f"train with more {split} images (--data.{split})"


def _thresholds(scores: ValidationScores, target: float, class_names: Sequence[str]) -> tuple[float, Levels]:
    """The smallest probabilities of a class, and of a group of each level; infinity where nothing is guaranteed."""
    from vit.inference.answers.selective import fewest_images, level_thresholds  # imports SciPy's distributions
    from vit.inference.scores.image_groups import number_of

    least, *above = level_thresholds(target, scores)
    if least == math.inf and min(above, default=math.inf) == math.inf:
        number, fewest = number_of(scores.groups) or len(scores), fewest_images(target)
        units = "of them" if scores.groups is None else "of the groups"
        few = f"at least {fewest:,} {units} would have to be right, without an error"
        wrong = "the network errs too often where it is surest"
        raise UsageError(
            f"--target_accuracy {target:g} cannot be guaranteed: with {_count(scores)} no threshold "
            f"is known to reach it ({few if number < fewest else wrong})",
            f"give a lower target, or {more_images(scores)}" + ", or a better network" * (number >= fewest),
        )
    return least, tuple(zip(levels_of(class_names) if above else (), above, strict=True))


def _count(scores: ValidationScores) -> str:
    from vit.inference.scores.image_groups import count_text, number_of

    return count_text(len(scores), number_of(scores.groups), fitted_text(scores.split).removesuffix("s"))
