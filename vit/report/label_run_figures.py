"""Figures and tables of a finished training with several labels for an image"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from vit.checkpoints.label_rules import LabelRules
from vit.checkpoints.result import RunResult
from vit.data.samples import Labels
from vit.inference.multilabel_metrics import MultilabelMeasurement, measure_labels
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
    """

    scored: ScoredLabels
    rules: LabelRules
    label_names: Sequence[str]
    measurement: MultilabelMeasurement

    @classmethod
    def of(cls, scored: ScoredLabels, result: RunResult, label_names: Sequence[str]) -> "LabelResults":
        """The measured images of a run."""
        rules = rules_of(result)
        return cls(scored, rules, label_names, measure_labels(scored, rules.thresholds.tolist(), label_names))

    def figures(self, training_images: Labels) -> dict[str, Figure]:
        """Figures by their names.

        Args:
            training_images: (K,) number of training images with each label.
        """
        rows = self.measurement.per_label
        found = {
            "precision_recall": precision_recall(self.scored, rows),
            "average_precision_by_size": average_precision_by_size(rows, training_images),
            "reliability": label_reliability(self.scored),
        }
        pairs = together(self.scored, self.rules.thresholds, self.label_names)
        return found if pairs is None else {**found, "labels_together": pairs}


def rules_of(result: RunResult) -> LabelRules:
    """The rules of the labels in the result of a run. KeyError, TypeError or ValueError where they are damaged."""
    if result.multilabel is None:
        raise ValueError("result.json has no rules of labels")
    return LabelRules.from_plain(result.multilabel, len(result.multilabel["thresholds"]))
