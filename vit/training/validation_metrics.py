"""Metrics of validation images, with torchmetrics: accuracy, balanced accuracy, macro F1 and calibration error"""

from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassCalibrationError,
    MulticlassF1Score,
    MulticlassStatScores,
)


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


def validation_metrics(num_classes: int) -> MetricCollection:
    """The metrics by the names that stand after "val/" in metrics.csv; acc5 only for more than five classes."""
    metrics: dict[str, Metric | MetricCollection] = {"acc1": MulticlassAccuracy(num_classes, average="micro")}
    if num_classes > 5:
        metrics["acc5"] = MulticlassAccuracy(num_classes, average="micro", top_k=5)
    metrics["balanced_acc"] = BalancedAccuracy(num_classes)
    metrics["macro_f1"] = MulticlassF1Score(num_classes, average="macro")
    metrics["ece"] = MulticlassCalibrationError(num_classes, n_bins=15)
    return MetricCollection(metrics)
