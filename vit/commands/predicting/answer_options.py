"""Options of `vit predict` that decide which images get a label, and which set of labels"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import fraction
from vit.console import Reporter, percent
from vit.errors import UsageError

if TYPE_CHECKING:
    from vit.inference.answers.answers import AnswerRule, SetMethod
    from vit.inference.predictor import Predictor

SHOWN_CLASSES = 10
FRACTIONS = ("reject_below", "target_accuracy", "coverage")  # options between 0 and 1 that need one class


@dataclass(frozen=True)
class AnswerOptions:
    """The options of a rule, each between 0 and 1."""

    reject_below: float | None
    target_accuracy: float | None
    coverage: float | None
    sets: "SetMethod"
    reject_novel: bool

    def __post_init__(self) -> None:
        """Raise UsageError for a number out of range, and for options that exclude each other."""
        if self.reject_below is not None and self.target_accuracy is not None:
            raise UsageError("--reject_below and --target_accuracy both set the smallest probability", "give one")
        if self.sets != "lac" and self.coverage is None:
            raise UsageError(f"--sets {self.sets} needs --coverage", "give --coverage 0.9")
        for name in FRACTIONS:
            fraction(f"--{name}", getattr(self, name))

    @property
    def fitted_option(self) -> str:
        """The option that is fitted to validation images of a model; "" where none is given."""
        given = {"target_accuracy": self.target_accuracy, "coverage": self.coverage, "reject_novel": self.reject_novel}
        return next((f"--{name}" for name, value in given.items() if value), "")

    def _check_none_given(self) -> None:
        for name in FRACTIONS:
            if getattr(self, name) is not None:
                raise UsageError(
                    f"--{name} decides between classes that exclude each other, and this model gives an image several "
                    "labels, each with its own threshold",
                    f"leave --{name} out; --probabilities writes the probability of every label",
                )

    def rule(self, predictor: "Predictor", reporter: Reporter) -> "AnswerRule":
        """The rule for a model, and a line that says what it is.

        Raises:
            UsageError: the model gives an image several labels, or its validation images are missing or too few.
        """
        if predictor.multilabel is not None:
            self._check_none_given()
        import numpy as np  # not above: --help needs none

        from vit.inference.answers.answers import answer_rule

        rule = answer_rule(
            predictor.validation_scores,
            predictor.class_names,
            reject_below=self.reject_below,
            target_accuracy=self.target_accuracy,
            coverage=self.coverage,
            sets=self.sets,
        )
        if self.reject_novel:
            rule = replace(rule, reject_novelty=_novelty_limit(predictor))
        scores = predictor.validation_scores
        if self.target_accuracy is not None and scores is not None:
            target, left = percent(self.target_accuracy), np.ones(len(scores), dtype=bool)
            thresholds = [("labels", rule.reject_below)]
            thresholds += [(f"answers such as {level.example}", least) for level, least in rule.levels]
            for (what, least), one in zip(thresholds, (scores, *scores.levels), strict=True):
                kept, left = left & (one.highest >= least), left & (one.highest < least)
                reporter.notice(
                    f"{what}: none, because {target} cannot be guaranteed"
                    if least == math.inf
                    else f"{what} from a probability of {least:.4f}: accuracy at least {target} (95 % confidence), "
                    f"{percent(float(kept.mean()))} of {len(scores):,} {predictor.fitted_on} kept"
                )
        if rule.sets is not None and rule.sets.unlimited:
            names = ", ".join(predictor.class_names[number] for number in rule.sets.unlimited[:SHOWN_CLASSES])
            reporter.notice(f"WARNING: too few {predictor.fitted_on} of {names}: these classes are in every set")
        return rule


def _novelty_limit(predictor: "Predictor") -> float:
    """The novelty from which images get no label. UsageError where the model cannot tell."""
    from vit.checkpoints.novelty import FEWEST_IMAGES, UNLIKE
    from vit.inference.answers.answers import more_images

    if predictor.novelty is None:
        raise UsageError(f"--reject_novel needs a novelty: {no_novelty(predictor)}", "leave --reject_novel out")
    count = len(predictor.novelty.validation)
    if count < FEWEST_IMAGES:
        raise UsageError(
            f"--reject_novel needs {FEWEST_IMAGES} {predictor.fitted_on}, and this model has {count}",
            more_images(predictor.validation_scores),
        )
    return UNLIKE


def no_novelty(predictor: "Predictor") -> str:
    """Why the predictions of a model have no novelty."""
    if predictor.multilabel is not None:
        return "a model that gives several labels has none"
    if predictor.is_ensemble:
        return "the average of several models has none"
    if predictor.is_exported:
        return "an exported file has none; give the run or its checkpoint"
    if predictor.engine.name != "torch":
        return f"{predictor.engine.name} computes no features (--engine torch does)"
    return "the model was saved without features of training images"
