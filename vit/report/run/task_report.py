"""Reports of both tasks: what a run and an evaluation measure, draw and show"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from matplotlib.figure import Figure

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.result import RunResult
from vit.checkpoints.validation_scores import ValidationScores
from vit.data.core.samples import Labels
from vit.layout import EvaluationLayout
from vit.report.run import multi_label_report, single_label_report
from vit.report.run.run_common import EvaluatedImages, MeasuredRun
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

    def run_content(self, measured: MeasuredRun) -> tuple[dict[str, object], int]:
        """What the page of a run prints beside the common parts, and how many of its images have changed."""

    def class_table(self, scored: Any, result: RunResult, class_names: Sequence[str]) -> dict[str, object]:
        """Metrics of every class or label, as the JSON file of a run has them."""

    def run_figures(
        self, scored: Any, result: RunResult, sizes: Labels, class_names: Sequence[str]
    ) -> dict[str, Figure]:
        """The figures of a run by their names; `sizes` has the number of training images of each class."""

    def worst(self, scored: Any, result: RunResult, class_names: Sequence[str], most: int) -> Sequence[Any]:
        """Images with the largest loss, or with the most surely wrong label."""


def report_of(task: Task) -> TaskReport:
    """The reports of a task."""
    return {SINGLE_LABEL: single_label_report, MULTI_LABEL: multi_label_report}[task]
