"""A run, or an evaluation, as one self-contained HTML page"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from matplotlib.figure import Figure

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.result import RunResult, rule_text
from vit.checkpoints.run import RunDirectory
from vit.checkpoints.validation_scores import ValidationScores
from vit.data.core.samples import Labels, Source
from vit.data.splits.split import read_splits
from vit.errors import DataError
from vit.inference.scores.scored_images import Scored
from vit.layout import EvaluationLayout
from vit.plain_files import read_json, read_text
from vit.report.page.figures import curves
from vit.report.page.page import scripts, write_page
from vit.report.page.style import drawn
from vit.report.run import multi_label_report, single_label_report
from vit.report.run.run_common import EvaluatedImages, LossText, MeasuredRun
from vit.report.run.run_pictures import RunImages, describe_changed
from vit.report.tables.run_tables import facts
from vit.tasks.task import MULTI_LABEL, SINGLE_LABEL, Task


class TaskReport(Protocol):
    """A module that reports measured images of one task. `scored` and `measurement` are of this task."""

    WORST_TITLE: str
    RUN_TEMPLATE: str
    EVALUATION_TEMPLATE: str
    SCRIPTS: tuple[str, ...]

    def measure(
        self, scored: Any, class_names: Sequence[str], rules: LabelRules | None, scores: ValidationScores | None
    ) -> Any:
        """All metrics of an evaluation, with the rules and the validation scores of its model."""

    def evaluation_figures(
        self, scored: Any, measurement: Any, class_names: Sequence[str], files: EvaluationLayout
    ) -> Mapping[Path, Figure]:
        """The figures of an evaluation by their files."""

    def evaluation_content(
        self, images: EvaluatedImages, scored: Any, measurement: Any, predictions: str
    ) -> dict[str, object]:
        """What the page of an evaluation prints beside the common parts; `predictions` is the file with all rows."""

    def run_content(self, measured: MeasuredRun) -> tuple[dict[str, object], RunImages | None]:
        """What the page of a run prints beside the common parts, and the images that it has asked for pictures."""

    def class_table(self, scored: Any, result: RunResult, class_names: Sequence[str]) -> dict[str, object]:
        """Metrics of every class or label, as the JSON file of a run has them."""

    def run_figures(
        self, scored: Any, result: RunResult, sizes: Labels, class_names: Sequence[str]
    ) -> dict[str, Figure]:
        """The figures of a run; `sizes` has the number of training images of each class."""

    def worst(self, scored: Any, result: RunResult, class_names: Sequence[str], most: int) -> Sequence[Any]:
        """Images with the largest loss, or with the most surely wrong label."""


def report_of(task: Task) -> TaskReport:
    """The reports of a task."""
    return {SINGLE_LABEL: single_label_report, MULTI_LABEL: multi_label_report}[task]


def write_run_report(run: RunDirectory, source: Source | None, result: RunResult | None = None) -> int:
    """Write report.html into the folder of a finished run; returns how many images have no picture, as files changed.

    UsageError where the run has not finished, DataError where one of its files is damaged.

    Args:
        source: the run's images. With None, or with images that the run was not measured on, the page has no pictures.
        result: the result where result.json is not written yet; None: read the file.
    """
    result = result or run.finished_result()
    report = report_of(result.task)
    try:
        class_names: list[str] = read_json(run.class_names_path)["classes"]
        config = read_text(run.config_path)
        losses = LossText.of(config, result.task)
        drawn_curves = drawn(curves(run.metrics_path, result.best_epoch, result.validation_name, losses.axis))
        measured = MeasuredRun(run, result, config, class_names, read_splits(run.splits_path), source)
        content, pixels = report.run_content(measured)
        num_changed = len(pixels.changed) if pixels else 0
        common = {
            "network": result.spec.name,
            "data": result.data,
            "folder": run.path.resolve().name,
            "first_weights": measured.first_weights,
            "warnings": measured.warnings,
            "curves": drawn_curves,
            "loss_text": losses.caption,
            "validation_name": result.validation_name,
            "best_epoch": result.best_epoch + 1,
            "best_rule": rule_text(result.best_metric),
            "facts": facts(result),
            "config_name": run.config_path.name,
            "config": config.splitlines(),
            "changed": describe_changed(num_changed),
            **scripts(*report.SCRIPTS),
        }
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise DataError(f"{run.path} is damaged: {error}", "restore its files, or train again") from error
    write_page(run.report_path, report.RUN_TEMPLATE, {**common, **content})
    return num_changed


def write_evaluation_page(files: EvaluationLayout, images: EvaluatedImages, scored: Scored, measurement: Any) -> None:
    """Write report.html into the folder of an evaluation; `measurement` is what `TaskReport.measure` gave."""
    report = report_of(images.task)
    common = {
        "model": Path(images.model).name,
        "network": images.network,
        "data": images.data,
        "split": images.split,
        "warning": images.seen.warning,
        **scripts(*report.SCRIPTS),
    }
    content = report.evaluation_content(images, scored, measurement, files.predictions_path.name)
    write_page(files.report_path, report.EVALUATION_TEMPLATE, {**common, **content})
