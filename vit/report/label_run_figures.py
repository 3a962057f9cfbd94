"""Figures and tables of a finished training with several labels for an image"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.result import RunResult
from vit.data.samples import Labels
from vit.inference.multilabel_metrics import LabelMetrics, MultilabelMeasurement, measure_labels
from vit.inference.scored_labels import ScoredLabels
from vit.report.label_figures import average_precision_by_size, label_reliability, precision_recall, together


@dataclass(frozen=True)
class LabelResults:
    """Images with several labels, measured with the rules of a run.

    Attributes:
        scored: the images.
        rules: temperatures and thresholds of the labels.
        label_names: names of the labels.
        measurement: all metrics.
        is_fitted: whether the rules were fitted to these images. Metrics that depend on the rules are then too good.
    """

    scored: ScoredLabels
    rules: LabelRules
    label_names: Sequence[str]
    measurement: MultilabelMeasurement
    is_fitted: bool

    @classmethod
    def of(cls, scored: ScoredLabels, result: RunResult, label_names: Sequence[str]) -> "LabelResults":
        """The measured images of a run."""
        rules = rules_of(result)
        measurement = measure_labels(scored, rules.thresholds.tolist(), label_names)
        return cls(scored, rules, label_names, measurement, result.measured_split == result.fitted_split)

    @property
    def per_label(self) -> list[LabelMetrics]:
        """Metrics of each label, without those that depend on rules that were fitted to these images."""
        rows = self.measurement.per_label
        if not self.is_fitted:
            return rows
        return [replace(row, precision=None, recall=None, f1=None, nll=None, ece=None) for row in rows]

    def figures(self, training_images: Labels) -> dict[str, Figure]:
        """Figures by their names, without those that depend on rules that were fitted to these images.

        Args:
            training_images: (K,) number of training images with each label.
        """
        found = {
            "precision_recall": precision_recall(self.scored, self.per_label),
            "average_precision_by_size": average_precision_by_size(self.per_label, training_images),
        }
        if self.is_fitted:
            return found
        found["reliability"] = label_reliability(self.scored)
        pairs = together(self.scored, self.rules.thresholds, self.label_names)
        return found if pairs is None else {**found, "labels_together": pairs}


def rules_of(result: RunResult) -> LabelRules:
    """The rules of the labels in the result of a run. KeyError, TypeError or ValueError where they are damaged."""
    if result.multilabel is None:
        raise ValueError("result.json has no rules of labels")
    return LabelRules.from_plain(result.multilabel, len(result.multilabel["thresholds"]))
