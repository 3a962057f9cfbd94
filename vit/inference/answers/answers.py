"""Which images get an answer, and which set of classes: the rule that `vit predict` applies to probabilities"""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vit.checkpoints.validation_scores import ValidationScores, fitted_text
from vit.data.core.draws import uniform
from vit.errors import UsageError
from vit.inference.answers.prediction_sets import PredictionSets, SetMethod, fewest_images


@dataclass(frozen=True)
class AnswerRule:
    """What becomes of the probabilities of an image. By default every image gets its most probable class."""

    reject_below: float = 0.0  # images whose largest probability is below this number get no label
    sets: PredictionSets | None = None  # the rule for sets of classes; None: rows have no sets
    reject_novelty: float | None = None  # images of at least this novelty get no label; None: novelty decides nothing

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
    num_classes: int,
    *,
    reject_below: float | None = None,
    target_accuracy: float | None = None,
    coverage: float | None = None,
    sets: SetMethod = "lac",
) -> AnswerRule:
    """The rule for options of `vit predict`, fitted to the validation scores of a checkpoint.

    Args:
        scores: scores of the checkpoint; None where it has no validation images.
        num_classes: number of classes, C.
        reject_below: see `AnswerRule`.
        target_accuracy: accuracy of the images that get a label, instead of `reject_below`.
        coverage: probability that a set has the true class; None: no sets.
        sets: method of the sets.

    Raises:
        UsageError: the validation images are missing, or too few for what is asked.
    """
    if target_accuracy is None and coverage is None:
        return AnswerRule(reject_below or 0.0)
    if scores is None:
        option = "--target_accuracy" if target_accuracy is not None else "--coverage"
        raise UsageError(
            f"{option} is fitted on validation images, and this model has no scores of them",
            "train again with validation images, or give --reject_below",
        )
    if target_accuracy is not None:
        reject_below = _threshold(scores, target_accuracy)
    fitted = None if coverage is None else _fitted_sets(scores, sets, coverage, num_classes)
    return AnswerRule(reject_below or 0.0, fitted)


def more_images(scores: ValidationScores | None) -> str:
    """What to do where a rule has too few images to be fitted to."""
    split = "validation" if scores is None or scores.split is None else scores.split
    return f"train with more {split} images (--data.{split})"


def _threshold(scores: ValidationScores, target: float) -> float:
    from vit.inference.answers.selective import fewest_images, threshold_for  # imports SciPy's distributions
    from vit.inference.scores.image_groups import number_of

    found = threshold_for(target, scores.highest, scores.correct, scores.groups)
    if found is None:
        number, fewest = number_of(scores.groups) or len(scores), fewest_images(target)
        units = "of them" if scores.groups is None else "of the groups"
        few = f"at least {fewest:,} {units} would have to be right, without an error"
        wrong = "the network errs too often where it is surest"
        raise UsageError(
            f"--target_accuracy {target:g} cannot be guaranteed: with {_count(scores)} no threshold "
            f"is known to reach it ({few if number < fewest else wrong})",
            f"give a lower target, or {more_images(scores)}" + ", or a better network" * (number >= fewest),
        )
    return found.value


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
