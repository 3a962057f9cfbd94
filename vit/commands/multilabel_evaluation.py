"""What `vit evaluate` writes and shows of a model that gives an image several labels"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vit.console import Reporter, interval, percent
from vit.layout import EvaluationLayout

if TYPE_CHECKING:
    from vit.checkpoints.label_rules import LabelRules
    from vit.inference.intervals import Metric
    from vit.inference.multilabel_metrics import LabelMetrics, MultilabelMeasurement
    from vit.inference.scored_labels import ScoredLabels
    from vit.report.evaluation_page import EvaluatedImages

SHOWN_LABELS = 20


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
        from vit.inference.scored_label_rows import write_scored_labels
        from vit.report.label_figures import label_reliability, precision_recall
        from vit.report.style import save

        write_scored_labels(files.predictions_path, self.scored, self.label_names, self.rules.thresholds)
        save(precision_recall(self.scored, self.measurement.per_label), files.precision_recall_path)
        save(label_reliability(self.scored), files.reliability_path)

    def write_page(self, files: EvaluationLayout, images: "EvaluatedImages") -> None:
        """Write the page of the evaluation."""
        from vit.report.label_evaluation_page import write_label_evaluation_page

        write_label_evaluation_page(files, images, self.measurement, self.scored, self.rules, self.label_names)

    def show(self, reporter: Reporter) -> None:
        """Show all metrics on the terminal."""
        from vit.inference.image_groups import count_words

        measurement = self.measurement
        images = count_words(measurement.num_images, measurement.num_groups)
        reporter.line(f"{images}, {len(self.label_names):,} labels; 95 % intervals")
        reporter.facts(_facts(measurement))
        rows = sorted(measurement.per_label, key=lambda row: -1.0 if row.ap is None else row.ap.value)
        more = len(rows) > SHOWN_LABELS
        reporter.line(
            f"\nthe {SHOWN_LABELS} labels with the lowest average precision of {len(rows):,}"
            if more
            else "\nby label, lowest average precision first"
        )
        columns = ("label", "images", "with it", "average precision", "threshold", "precision", "recall", "F1")
        reporter.table(columns, [label_cells(row) for row in rows[:SHOWN_LABELS]])
        num_absent = sum(row.num_positives == 0 for row in rows)
        if num_absent:
            what = "there is no mAP" if num_absent == len(rows) else "the mAP is the mean of the others"
            reporter.line(f"no image has {num_absent:,} of {len(rows):,} labels: {what}")


def measured_labels(scored: "ScoredLabels", rules: "LabelRules", label_names: Sequence[str]) -> MeasuredLabels:
    """Measure images at the thresholds of a model."""
    from vit.inference.multilabel_metrics import measure_labels

    return MeasuredLabels(scored, rules, label_names, measure_labels(scored, rules.thresholds.tolist(), label_names))


def label_cells(row: "LabelMetrics") -> tuple[str | int, ...]:
    """A label as a row of a table."""
    from vit.checkpoints.label_rules import threshold_words

    values = (row.precision, row.recall, row.f1)
    numbers = ("" if value is None else f"{value:.3f}" for value in values)
    return row.label, row.num_known, row.num_positives, _interval(row.ap), threshold_words(row.threshold), *numbers


def _interval(metric: "Metric | None") -> str:
    return "no image has it" if metric is None else interval(metric.value, metric.low, metric.high)


def _facts(measurement: "MultilabelMeasurement") -> list[tuple[str, str]]:
    from vit.inference.multilabel_metrics import NAMES

    metrics, before = measurement.metrics, measurement.uncalibrated
    ece, nll = metrics.ece, metrics.nll
    words = {name: _interval(getattr(metrics, name)) for name in ("map", "micro_f1", "macro_f1", "exact_match")}
    words["ece"] = f"{percent(ece.value)} ({percent(ece.chance)} by chance, were it calibrated)"
    words["nll"] = f"{nll.value:.4f} ({nll.low:.4f} to {nll.high:.4f})"
    facts = [(title, words[name]) for name, title in NAMES.items()]
    temperatures = measurement.temperatures
    if any(value != 1 for value in temperatures):
        without = f"calibration error {percent(before.ece.value)}, log-loss {before.nll.value:.4f}"
        facts.append(("temperatures", f"{min(temperatures):.3f} to {max(temperatures):.3f}; without them {without}"))
    return facts
