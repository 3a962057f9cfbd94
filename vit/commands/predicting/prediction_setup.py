"""The model of `vit predict` with its rule, and the columns of its rows"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import check_different, warn_of_unfinished
from vit.commands.predicting.answer_options import AnswerOptions, no_novelty
from vit.console import Reporter
from vit.errors import UsageError
from vit.inference.engines.engine_names import EngineName, check_engine

if TYPE_CHECKING:
    from vit.inference.predictor import Predictor
    from vit.inference.rows import RowWriter


@dataclass(frozen=True)
class PredictionSetup:
    """What was asked of a model.

    Attributes:
        model: path of the model.
        wanted: rule that decides which images get a label.
        top_k: number of classes in a row.
        probabilities: whether rows have the probability of every class.
        device, precision, engine, unfinished: as in `vit.load`.
        others: paths of further models, whose probabilities are averaged with those of `model`.
    """

    model: str
    wanted: AnswerOptions
    top_k: int
    probabilities: bool
    device: str
    precision: str
    engine: EngineName
    unfinished: bool = False
    others: Sequence[str] = ()

    def check(self) -> None:
        """Raise VitError where the model cannot be what was asked for, before anything heavy is imported."""
        check_different([self.model, *self.others])
        for model in (self.model, *self.others):
            check_model(model, self.unfinished)
            check_engine(self.engine, Path(model), self.device)
        if self.others and (option := self.wanted.fitted_option):
            problem = f"{option} is fitted to the validation images of one model, and {1 + len(self.others)} are given"
            raise UsageError(problem, "give one model, or --reject_below")

    def load(self, reporter: Reporter, num_images: int | None = None, batch_size: int = 1) -> "Predictor":
        """The model with its rule, and lines that say what computes how many images; None: a service does not know."""
        from vit.inference.engine import compile_for
        from vit.inference.predictor import load

        models = (self.model, *self.others)
        every = [load(model, self.device, self.precision, self.engine, self.unfinished) for model in models]
        predictor = every[0]
        if self.others:
            from vit.inference.ensemble import Ensemble

            predictor = Ensemble(every, models)
            reporter.notice(f"the average of {len(models)} models: {', '.join(models)}")
        warn_of_unfinished(predictor.lacks, reporter)
        predictor.rule = self.wanted.rule(predictor, reporter)
        if predictor.novelty is None:
            reporter.notice(f"the column novelty stays empty: {no_novelty(predictor)}")
        files, used = "" if num_images is None else f"{num_images:,} files, ", predictor.engine
        kinds = f"{len(predictor.class_names)} {predictor.task.kinds}"
        compiled = [compile_for(one.engine, num_images or 0, batch_size) for one in every]
        how = f"{used.device.type}, {used.precision}, {used.name}" + ", compiled" * any(compiled)
        reporter.notice(f"{files}{kinds}, {how}")
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
