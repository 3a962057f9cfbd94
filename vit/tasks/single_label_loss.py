"""One class for an image: cross-entropy with smoothing, class weights and logit adjustment, and validation metrics"""

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassCalibrationError,
    MulticlassF1Score,
    MulticlassStatScores,
)

from vit.tasks.loss import Loss

Floats = npt.NDArray[np.float64]


class TrainingLoss(Loss):
    """Mean loss of a batch: (sum of the weighted losses of its images) / (number of its images).

    The weights have mean 1 over the drawn images, so the number of images is the expected sum of the weights. Dividing
    by the number, and not by the sum in each batch as PyTorch does, keeps the gradient of a step the same in any number
    of micro-batches and processes.

    An image of class c has the loss w_c CE(smoothed c). An image of which mixup or cutmix made the share s of class a
    and 1 - s of class b has s w_a CE(smoothed a) + (1 - s) w_b CE(smoothed b). PyTorch's `weight=` is not used: it
    weights each term of a smoothed label by the class of the term. Rare classes would then receive most of the
    smoothing, and at weights of 100 to 1 an image of a common class would be pulled to a rare class.

    Logit adjustment (Menon et al. 2021, arXiv 2007.07314, equation 10) adds tau log(share of the class) to the logits.
    The network then learns logits for classes of equal size, and prediction uses them as they are.

    Args:
        label_smoothing: fraction of a label that is spread over all classes.
        weights: (C,) class weights whose mean over the drawn images is 1; None: equal weights.
        adjustment: (C,) numbers that are added to the logits; None: none.
    """

    weights: Tensor | None
    adjustment: Tensor | None

    def __init__(self, label_smoothing: float, weights: Floats | None = None, adjustment: Floats | None = None) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing
        for name, values in (("weights", weights), ("adjustment", adjustment)):
            buffer = None if values is None else torch.tensor(values, dtype=torch.float32)
            self.register_buffer(name, buffer, persistent=False)  # a checkpoint has no need of it

    def validation_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="none")

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.softmax(dim=1)

    def metrics(self, num_classes: int) -> MetricCollection:
        """The validation metrics by the names that stand after "val/" in metrics.csv; acc5 only for more than five.

        No two share their counts. torchmetrics would let those share whose counts are equal after the first batch, and
        a batch of one class, all right or all far from right, has equal counts for the first answer and the first five.
        """
        metrics: dict[str, Metric | MetricCollection] = {"acc1": MulticlassAccuracy(num_classes, average="micro")}
        if num_classes > 5:
            metrics["acc5"] = MulticlassAccuracy(num_classes, average="micro", top_k=5)
        metrics["balanced_acc"] = BalancedAccuracy(num_classes)
        metrics["macro_f1"] = MulticlassF1Score(num_classes, average="macro")
        metrics["ece"] = MulticlassCalibrationError(num_classes, n_bins=15)
        return MetricCollection(metrics, compute_groups=False)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of logits (B, C) float32 and labels: (B,) class numbers, or (B, C) shares of classes."""
        if self.adjustment is not None:
            logits = logits + self.adjustment
        if self.weights is None:
            return F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        if labels.ndim == 1:
            image_weights = self.weights[labels]
        else:
            labels = labels * self.weights
            image_weights = labels.sum(dim=1)
            labels = labels / image_weights[:, None]
        losses = F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing, reduction="none")
        return (image_weights * losses).mean()


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
