"""Metrics of validation images, with torchmetrics: of one class for each image, or of several labels"""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassCalibrationError,
    MulticlassF1Score,
    MulticlassStatScores,
    MultilabelExactMatch,
    MultilabelF1Score,
    MultilabelStatScores,
)
from torchmetrics.functional.classification import binary_average_precision
from torchmetrics.utilities import dim_zero_cat

THRESHOLD = 0.5  # of a label during training: thresholds are fitted at its end


class BalancedAccuracy(MulticlassStatScores):
    """Mean recall of the classes that have images, as in scikit-learn.

    torchmetrics' macro accuracy takes a class without images as a recall of 0 once an image is predicted as this class.
    Few validation images often lack a rare class.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes, average="none")

    def compute(self) -> Tensor:
        """The balanced accuracy. NaN without images."""
        counts = super().compute()  # (C, 5): true positives, false positives, ..., images of the class
        right, images = counts[:, 0], counts[:, 4]
        return (right / images)[images > 0].mean()


def validation_metrics(num_classes: int, is_multilabel: bool = False) -> MetricCollection:
    """The metrics by the names that stand after "val/" in metrics.csv; acc5 only for more than five classes.

    No two share their counts. torchmetrics would let those share whose counts are equal after the first batch, and a
    batch of one class, all right or all far from right, has equal counts for the first answer and for the first five.

    Args:
        num_classes: number of classes or labels.
        is_multilabel: whether an image may have several labels. Unknown labels (-1) do not count then.
    """
    if is_multilabel:
        return _multilabel_metrics(num_classes)
    metrics: dict[str, Metric | MetricCollection] = {"acc1": MulticlassAccuracy(num_classes, average="micro")}
    if num_classes > 5:
        metrics["acc5"] = MulticlassAccuracy(num_classes, average="micro", top_k=5)
    metrics["balanced_acc"] = BalancedAccuracy(num_classes)
    metrics["macro_f1"] = MulticlassF1Score(num_classes, average="macro")
    metrics["ece"] = MulticlassCalibrationError(num_classes, n_bins=15)
    return MetricCollection(metrics, compute_groups=False)


def _multilabel_metrics(num_labels: int) -> MetricCollection:
    """F1 and exact match are at a threshold of 0.5."""
    return MetricCollection(
        {
            "map": MeanAveragePrecision(num_labels),
            "micro_f1": MultilabelF1Score(num_labels, THRESHOLD, average="micro", ignore_index=-1),
            "macro_f1": MacroF1(num_labels, THRESHOLD, average="none", ignore_index=-1),
            "exact_match": ExactMatch(num_labels, THRESHOLD, ignore_index=-1),
        },
        compute_groups=False,
    )


class MeanAveragePrecision(Metric):
    """Mean average precision of the labels that some image has.

    torchmetrics' macro average takes 0 for a label of no image, and few validation images often lack a rare label.
    """

    preds: list[Tensor]
    target: list[Tensor]

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.num_labels = num_labels
        self.add_state("preds", [], dist_reduce_fx="cat")
        self.add_state("target", [], dist_reduce_fx="cat")

    def sync(self, *args: Any, **options: Any) -> None:
        """Join the images of all processes, also where this one has none.

        torchmetrics sends a tensor of another shape and type in place of an empty list, and the processes would hang.
        """
        if not len(self.preds):
            nothing = torch.zeros(0, self.num_labels, device=self.device)
            self.update(nothing, nothing.long())
        super().sync(*args, **options)

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add images: probabilities (B, K) and labels (B, K), -1 where unknown."""
        self.preds.append(preds)
        self.target.append(target)

    def compute(self) -> Tensor:
        """The mean; NaN where no image has a label."""
        preds, target = dim_zero_cat(self.preds), dim_zero_cat(self.target)
        found = [
            binary_average_precision(preds[known, label], target[known, label])
            for label, known in enumerate((target >= 0).T)
            if (target[:, label] == 1).any()
        ]
        return torch.stack(found).mean() if found else torch.tensor(torch.nan, device=preds.device)


class MacroF1(MultilabelStatScores):
    """Mean F1 of the labels that some image has or is given; torchmetrics takes 0 for the others."""

    def compute(self) -> Tensor:
        """The mean; NaN where there is no such label."""
        right, false, _, missed, _ = super().compute().T.float()
        either = 2 * right + false + missed
        return (2 * right / either)[either > 0].mean()


class ExactMatch(MultilabelExactMatch):
    """Fraction of the images whose known labels are all right; images without a known label do not count."""

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add images: probabilities (B, K) and labels (B, K), -1 where unknown."""
        judged = (target >= 0).any(dim=1)
        if judged.any():
            super().update(preds[judged], target[judged])
