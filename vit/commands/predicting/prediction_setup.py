"""What `vit predict` and `vit serve` were asked for: the model, its rule for labels, and the columns of its rows"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import check_models, warn_of_unfinished
from vit.console import Reporter, count_of, percent
from vit.errors import UsageError, some_of
from vit.inference.engines.engine_names import EngineName

if TYPE_CHECKING:
    from vit.inference.answers.answers import AnswerRule, SetMethod
    from vit.inference.predictor import Predictor
    from vit.inference.rows import RowWriter

SHOWN_CLASSES = 10
FRACTIONS = ("reject_below", "target_accuracy", "coverage")  # options between 0 and 1 that need one class


@dataclass(frozen=True)
class AnswerOptions:
    """Options that decide which images get a label, and which set of labels. UsageError where they are wrong."""

    reject_below: float | None
    target_accuracy: float | None
    coverage: float | None
    sets: "SetMethod"
    reject_novel: bool

    def __post_init__(self) -> None:
        if self.reject_below is not None and self.target_accuracy is not None:
            raise UsageError("--reject_below and --target_accuracy both set the smallest probability", "give one")
        if self.sets != "lac" and self.coverage is None:
            raise UsageError(f"--sets {self.sets} needs --coverage", "give --coverage 0.9")

    def rule(self, predictor: "Predictor", reporter: Reporter) -> "AnswerRule":
        """The rule for a model, with notices; UsageError: several labels, or missing or too few validation images."""
        named = [name for name in FRACTIONS if getattr(self, name) is not None]
        if predictor.multilabel is not None and named:
            why = "and this model gives an image several labels, each with its own threshold"
            fix = f"leave --{named[0]} out; --probabilities writes the probability of every label"
            raise UsageError(f"--{named[0]} decides between classes that exclude each other, {why}", fix)
        import numpy as np  # not above: --help needs none

        from vit.checkpoints.novelty import FEWEST_IMAGES, UNLIKE
        from vit.inference.answers.answers import answer_rule, more_images

        scores, numbers = predictor.validation_scores, {name: getattr(self, name) for name in FRACTIONS}
        rule = answer_rule(scores, predictor.class_names, sets=self.sets, **numbers)
        if self.reject_novel:
            if predictor.novelty is None:
                problem = f"--reject_novel needs a novelty: {_no_novelty(predictor)}"
                raise UsageError(problem, "leave --reject_novel out")
            if not predictor.can_tell_unlike:
                count = len(predictor.novelty.validation)
                images = "groups of " * bool(scores and scores.groups is not None) + predictor.fitted_on
                problem = f"--reject_novel needs {FEWEST_IMAGES} {images}, and this model has {count}"
                raise UsageError(problem, more_images(scores))
            rule = replace(rule, reject_novelty=UNLIKE)
        if self.target_accuracy is not None and scores is not None:
            target, left = f"{100 * self.target_accuracy:g} %", np.ones(len(scores), dtype=bool)
            thresholds = [("labels", rule.reject_below)]
            thresholds += [(f"answers such as {level.example}", least) for level, least in rule.levels]
            for (what, least), one in zip(thresholds, (scores, *scores.levels), strict=True):
                kept, left = left & (one.highest >= least), left & (one.highest < least)
                images = f"{percent(float(kept.mean()))} of {len(scores):,} {predictor.fitted_on} kept"
                text = f"from a probability of {least:.4f}: accuracy at least {target} (95 % confidence), {images}"
                no_text = f"none, because {target} cannot be guaranteed"
                reporter.notice(f"{what}: {no_text}" if least == math.inf else f"{what} {text}")
        if rule.sets is not None and rule.sets.unlimited:
            names = some_of((predictor.class_names[number] for number in rule.sets.unlimited), SHOWN_CLASSES)
            reporter.warn(f"too few {predictor.fitted_on} of {names}: these classes are in every set")
        return rule


def _no_novelty(predictor: "Predictor") -> str:
    if predictor.multilabel is not None:
        return "a model that gives several labels has none"
    if predictor.members:
        return "the average of several models has none"
    if predictor.is_exported:
        return "an exported file has none; give the run or its checkpoint"
    if predictor.engine.name != "torch":
        return f"{predictor.engine.name} computes no features (--engine torch does)"
    return "the model was saved without features of training images"


@dataclass(frozen=True)
class PredictionSetup:
    """What was asked of a model. `device`, `precision`, `engine` and `unfinished` are as in `vit.load`."""

    model: str  # path of the model
    wanted: AnswerOptions  # what decides which images get a label
    top_k: int  # number of classes in a row
    probabilities: bool  # whether rows have the probability of every class
    device: str
    precision: str
    engine: EngineName
    unfinished: bool = False
    others: Sequence[str] = ()  # paths of further models, whose probabilities are averaged with those of `model`

    def check(self) -> None:
        """Raise VitError where the model cannot be what was asked for, before anything heavy is imported."""
        models, wanted = (self.model, *self.others), self.wanted
        check_models(models, self.engine, self.device, self.unfinished)
        fitted = [name for name in ("target_accuracy", "coverage", "reject_novel") if getattr(wanted, name)]
        if self.others and fitted:
            problem = f"--{fitted[0]} is fitted to the validation images of one model, and {len(models)} are given"
            raise UsageError(problem, "give one model, or --reject_below")

    def load(self, reporter: Reporter, num_images: int | None = None) -> "Predictor":
        """The model with its rule, and lines that say what computes how many images; None: a service does not know."""
        from vit.inference.ensemble import Ensemble
        from vit.inference.predictor import load

        models = (self.model, *self.others)
        every = [load(model, self.device, self.precision, self.engine, self.unfinished) for model in models]
        predictor = Ensemble(every, models) if self.others else every[0]
        if self.others:
            reporter.notice(f"the average of {len(models):,} models: {', '.join(models)}")
        warn_of_unfinished(predictor.lacks, reporter)
        predictor.rule = self.wanted.rule(predictor, reporter)
        if predictor.novelty is None:
            reporter.notice(f"the column novelty stays empty: {_no_novelty(predictor)}")
        elif not predictor.can_tell_unlike:
            reporter.notice(f"too few {predictor.fitted_on} to call any image unlike the training images")
        used, files = predictor.engine, "" if num_images is None else f"{count_of(num_images, 'file')}, "
        kinds = f"{len(predictor.class_names):,} {predictor.task.kinds}"
        reporter.notice(f"{files}{kinds}, {used.device.type}, {used.precision}, {used.name}")
        return predictor

    def configure(self, writer: "RowWriter", predictor: "Predictor") -> None:
        """Set the columns of a writer."""
        writer.top_k = min(self.top_k, len(predictor.class_names))
        writer.task = predictor.task
        writer.all_of = predictor.class_names if self.probabilities else ()
        writer.has_sets = self.wanted.coverage is not None
        writer.has_answers = bool(predictor.rule.levels)
        writer.unfinished = predictor.lacks

    def num_ranked(self, predictor: "Predictor") -> int:
        """The number of classes that a row needs."""
        num_classes = len(predictor.class_names)
        needs_all = self.probabilities or not predictor.task.is_exclusive
        return num_classes if needs_all else min(self.top_k, num_classes)
