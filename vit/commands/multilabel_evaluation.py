"""What `vit evaluate` writes and shows of a model that gives an image several labels"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vit.commands.shown_answers import show_measurement
from vit.console import Reporter
from vit.layout import EvaluationLayout

if TYPE_CHECKING:
    from vit.checkpoints.label_rules import LabelRules
    from vit.inference.multilabel_metrics import MultilabelMeasurement
    from vit.inference.scored_labels import ScoredLabels
    from vit.report.evaluation_page import EvaluatedImages


@dataclass(frozen=True)
class MeasuredLabels:
    """Measured images and their metrics.

    Attributes:
        scored: the images.
        rules: rules of the model's labels.
        label_names: names of the labels.
        measurement: all metrics.
    """

    scored: "ScoredLabels"
    rules: "LabelRules"
    label_names: Sequence[str]
    measurement: "MultilabelMeasurement"

    def write(self, files: EvaluationLayout) -> None:
        """Write a row for every image, and figures."""
        from vit.report.label_figures import label_reliability, precision_recall
        from vit.report.style import save

        self.scored.write(files.predictions_path, self.label_names, self.rules)
        save(precision_recall(self.scored, self.measurement.per_label), files.precision_recall_path)
        save(label_reliability(self.scored), files.reliability_path)

    def write_page(self, files: EvaluationLayout, images: "EvaluatedImages") -> None:
        """Write the page of the evaluation."""
        from vit.report.label_evaluation_page import write_label_evaluation_page

        write_label_evaluation_page(files, images, self.measurement, self.scored, self.rules, self.label_names)

    def show(self, reporter: Reporter) -> None:
        """Show all metrics on the terminal."""
        show_measurement(reporter, self.measurement, f", {len(self.label_names):,} labels")


def measured_labels(scored: "ScoredLabels", rules: "LabelRules", label_names: Sequence[str]) -> MeasuredLabels:
    """Measure images at the thresholds of a model."""
    from vit.inference.multilabel_metrics import measure_labels

    return MeasuredLabels(scored, rules, label_names, measure_labels(scored, rules.thresholds.tolist(), label_names))
