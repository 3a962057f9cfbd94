"""Which images get an answer, and which set of classes: the rule that `vit predict` applies to probabilities"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vit.checkpoints.validation_scores import ValidationScores, fitted_text
from vit.data.core.draws import uniform
from vit.errors import UsageError
from vit.inference.answers.prediction_sets import PredictionSets, SetMethod, fewest_images
from vit.tasks.levels import Level, levels_of

Levels = tuple[tuple[Level, float], ...]


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

    def groups(self, probabilities: npt.NDArray[np.float32]) -> list[str]:
        """For probabilities (n, C) the most probable group of the deepest level where it is sure; "" for none."""
        found = [""] * len(probabilities)
        for level, least in self.levels:
            sums = level.joined(probabilities)
            for row in np.flatnonzero(sums.max(axis=1) >= least):
                found[row] = found[row] or level.names[sums[row].argmax()]
        return found

    def members(self, probabilities: npt.NDArray[np.float32], images: npt.NDArray[np.uint8]) -> list[tuple[int, ...]]:
        """The set of class numbers of each image, most probable first; an empty set without a rule for sets.

        Args:
            probabilities: (n, C) calibrated probabilities.
            images: (n, C, S, S) inputs of the network. The random number of an image depends on these pixels alone:
                it is the same in every batch and under every name, and others for other images.
        """
        if self.sets is None:
            return [()] * len(images)
        draws = np.zeros(len(images))
        if self.sets.method == "aps":  # the others use no draw, and a hash of all pixels takes time
            draws = np.array([_draw(image) for image in images])
        inside = self.sets.members(probabilities, draws)
        order = np.argsort(-probabilities, axis=1, kind="stable")
        return [tuple(row[chosen[row]].tolist()) for row, chosen in zip(order, inside, strict=True)]


def _draw(image: npt.NDArray[np.uint8]) -> float:
    """A number from 0 to 1 that belongs to the pixels of an image."""
    digest = hashlib.sha256(image.tobytes()).digest()
    return float(uniform(1, int.from_bytes(digest[:7], "little"))[0])


def answer_rule(
    scores: ValidationScores | None,
    class_names: Sequence[str],
    *,
    reject_below: float | None = None,
    target_accuracy: float | None = None,
    coverage: float | None = None,
    sets: SetMethod = "lac",
) -> AnswerRule:
    """The rule for options of `vit predict`, fitted to the validation scores of a checkpoint.

    Args:
        scores: scores of the checkpoint; None where it has no validation images.
        class_names: names of the classes, which may have levels.
        reject_below: see `AnswerRule`; it holds for the groups of each level, too.
        target_accuracy: accuracy of the labels, and of the answers of each level, instead of `reject_below`.
        coverage: probability that a set has the true class; None: no sets.
        sets: method of the sets.

    Raises:
        UsageError: the validation images are missing, or too few for what is asked.
    """
    levels = () if reject_below is None else tuple((one, reject_below) for one in levels_of(class_names))
    if target_accuracy is None and coverage is None:
        return AnswerRule(reject_below or 0.0, levels=levels)
    if scores is None:
        option = "--target_accuracy" if target_accuracy is not None else "--coverage"
        raise UsageError(
            f"{option} is fitted on validation images, and this model has no scores of them",
            "train again with validation images, or give --reject_below",
        )
    if target_accuracy is not None:
        reject_below, levels = _thresholds(scores, target_accuracy, class_names)
    fitted = None if coverage is None else _fitted_sets(scores, sets, coverage, len(class_names))
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


def _fitted_sets(scores: ValidationScores, method: SetMethod, coverage: float, num_classes: int) -> PredictionSets:
    fitted = PredictionSets.fit(scores, method, coverage, num_classes)
    if len(fitted.unlimited) == num_classes:
        needed = fewest_images(coverage)
        images = fitted_text(scores.split)
        units = images if scores.groups is None else f"groups of {images}"
        raise UsageError(
            f"--coverage {coverage:g} needs {needed:,} {units}"
            + (" of each class" if method == "class_conditional" else f", and this model has {_count(scores)}"),
            f"give a lower coverage, or {more_images(scores)}",
        )
    return fitted
