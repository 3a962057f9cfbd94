"""Losses: what a training minimizes for each task, and what it measures on validation images"""

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
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

from vit.tasks.label_text import PRESENT, LabelRows

Floats = npt.NDArray[np.float64]

LossName = Literal["bce", "asymmetric"]

THRESHOLD = 0.5  # of a label during training: thresholds are fitted at its end
GAMMA_POSITIVE, GAMMA_NEGATIVE, MARGIN = 1.0, 4.0, 0.05  # of the asymmetric loss, as in timm and the authors' code


class Loss(nn.Module, ABC):
    """The loss of a task: a mean over the labels of a batch that is equal in any number of micro-batches."""

    @abstractmethod
    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of logits (B, C) float32 and labels, which augmentation may have mixed."""

    @abstractmethod
    def validation_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(n,) cross-entropy of each known label of a batch, without weights and smoothing."""

    @abstractmethod
    def probabilities(self, logits: Tensor) -> Tensor:
        """Logits (B, C) -> probabilities (B, C)."""

    @abstractmethod
    def metrics(self, num_classes: int) -> MetricCollection:
        """The validation metrics by the names that stand after "val/" in metrics.csv. Unknown labels do not count."""


class TrainingLoss(Loss):
    """One class for an image: (sum of the weighted losses of a batch) / (number of its images).

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

    def validation_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="none")

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.softmax(dim=1)

    def metrics(self, num_classes: int) -> MetricCollection:
        """Top-5 accuracy only for more than five classes.

        No two share their counts. torchmetrics would let those share whose counts are equal after the first batch, and
        a batch of one class, all right or all far from right, has equal counts for the first answer and the first five.
        """
        metrics: dict[str, Metric | MetricCollection] = {"acc1": MulticlassAccuracy(num_classes, average="micro")}
        if num_classes > 5:
            metrics["acc5"] = MulticlassAccuracy(num_classes, average="micro", top_k=5)
        metrics["balanced_acc"] = BalancedAccuracy(num_classes, average="none")
        metrics["macro_f1"] = MulticlassF1Score(num_classes, average="macro")
        metrics["ece"] = MulticlassCalibrationError(num_classes, n_bins=15)
        return MetricCollection(metrics, compute_groups=False)


class BalancedAccuracy(MulticlassStatScores):
    """Mean recall of the classes that have images, as in scikit-learn.

    torchmetrics' macro accuracy takes a class without images as a recall of 0 once an image is predicted as this class.
    Few validation images often lack a rare class.
    """

    def compute(self) -> Tensor:
        """The balanced accuracy. NaN without images."""
        counts = super().compute()  # (C, 5): true positives, false positives, ..., images of the class
        right, images = counts[:, 0], counts[:, 4]
        return (right / images)[images > 0].mean()


class MultilabelLoss(Loss):
    """Several labels for an image: mean loss of the known labels of a batch. Unknown labels (-1) have no gradient.

    The sum over the known labels is divided by (images x labels x expected share of known labels), and not by the
    number of known labels in the batch. So the gradient of a step is the same in any number of micro-batches and
    processes, as in `TrainingLoss`. Its expected value is the mean loss of a known label.

    The asymmetric loss (Ridnik et al. 2021, arXiv 2009.14119, equations 4 to 6) has the loss (1 - p)^1 log(p) where a
    label is present, and q^4 log(1 - q) with q = max(p - 0.05, 0) where it is absent. A label that is present to a
    share s, after mixup, cutmix or smoothing, has s times the first and 1 - s times the second, as mixup has for any
    loss. timm's `AsymmetricLossMultiLabel` gives the same values for labels of 0 and 1. It interpolates probabilities
    and exponents of shares, and leaves no place for unknown labels. So it is not used here.

    Label smoothing moves a label to its frequency, and not to 0.5 as in timm (the unigram smoothing of Pereyra et al.
    2017, arXiv 1701.06548). At 0.5 a label of 1 % of the images would get probabilities of at least 5 %.

    Args:
        label_smoothing: fraction of a label that is replaced by its frequency.
        frequencies: (K,) frequency of each label among the training images where it is known.
        known_share: expected fraction of labels that are known, after mixup and cutmix.
    """

    frequencies: Tensor

    def __init__(self, name: LossName, label_smoothing: float, frequencies: Floats, known_share: float) -> None:
        super().__init__()
        self.name, self.label_smoothing, self.known_share = name, label_smoothing, known_share
        buffer = torch.tensor(frequencies, dtype=torch.float32)
        self.register_buffer("frequencies", buffer, persistent=False)  # a checkpoint has no need of it

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of logits (B, K) float32 and labels (B, K): shares from 0 to 1, -1 unknown."""
        shares = labels * (1 - self.label_smoothing) + self.label_smoothing * self.frequencies
        if self.name == "bce":
            losses = F.binary_cross_entropy_with_logits(logits, shares, reduction="none")
        else:
            losses = asymmetric_losses(logits, shares)
        return torch.where(labels >= 0, losses, 0.0).sum() / (labels.numel() * self.known_share)

    def validation_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        known = labels >= 0
        return F.binary_cross_entropy_with_logits(logits[known], labels[known], reduction="none")

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def metrics(self, num_classes: int) -> MetricCollection:
        return MetricCollection(
            {
                "map": MeanAveragePrecision(num_classes),
                "micro_f1": MultilabelF1Score(num_classes, THRESHOLD, average="micro", ignore_index=-1),
                "macro_f1": MacroF1(num_classes, THRESHOLD, average="none", ignore_index=-1),
                "exact_match": ExactMatch(num_classes, THRESHOLD, ignore_index=-1),
            },
            compute_groups=False,
        )


def asymmetric_losses(logits: Tensor, shares: Tensor) -> Tensor:
    """The asymmetric loss (B, K) of logits (B, K) and the shares (B, K) to which labels are present."""
    probabilities = logits.sigmoid()
    present = -((1 - probabilities) ** GAMMA_POSITIVE) * F.logsigmoid(logits)
    shifted = (probabilities - MARGIN).clamp_min(0)
    absent = -(shifted**GAMMA_NEGATIVE) * torch.log1p(-shifted)
    return shares * present + (1 - shares) * absent


def frequencies_of(labels: LabelRows) -> Floats:
    """(K,) frequency of each label among the images where it is known; 0 where it is known of none."""
    known: Floats = (labels >= 0).sum(axis=0).astype(float)
    present: Floats = (labels == PRESENT).sum(axis=0).astype(float)
    return present / known.clip(min=1)


def known_share(labels: LabelRows, is_mixed: bool) -> float:
    """The expected fraction of labels that are known. A label of a mixed image is unknown where one parent's is."""
    known: Floats = (labels >= 0).mean(axis=0)
    return float((known**2 if is_mixed else known).mean())


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
        per_label = [
            binary_average_precision(preds[known, label], target[known, label])
            for label, known in enumerate((target >= 0).T)
            if (target[:, label] == 1).any()
        ]
        return torch.stack(per_label).mean() if per_label else torch.tensor(torch.nan, device=preds.device)


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
