"""The training loss of images with several labels: binary cross-entropy or the asymmetric loss, over known labels"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.data.label_text import PRESENT, LabelRows
from vit.training.class_balance import Floats

LossName = Literal["bce", "asymmetric"]

GAMMA_POSITIVE, GAMMA_NEGATIVE, MARGIN = 1.0, 4.0, 0.05  # of the asymmetric loss, as in timm and the authors' code


class MultilabelLoss(nn.Module):
    """Mean loss of the known labels of a batch. Unknown labels (-1) have no loss and no gradient.

    The sum over the known labels is divided by (images x labels x expected share of known labels), and not by the
    number of known labels in the batch. So the gradient of a step is the same in any number of micro-batches and
    processes, as in `TrainingLoss`. Its expected value is the mean loss of a known label.

    The asymmetric loss (Ridnik et al. 2021, arXiv 2009.14119, equations 4 to 6) has the loss (1 - p)^1 log(p) where a
    label is present, and q^4 log(1 - q) with q = max(p - 0.05, 0) where it is absent. A label that is present to a
    share s, after mixup, cutmix or smoothing, has s times the first and 1 - s times the second, as mixup has for any
    loss. timm's `AsymmetricLossMultiLabel` gives the same values for labels of 0 and 1; the tests compare the two. It
    interpolates probabilities and exponents of shares, and earlier versions return the sum of a batch alone, which
    leaves no place for unknown labels. So it is not used here.

    Label smoothing moves a label to its frequency, and not to 0.5 as in timm (the unigram smoothing of Pereyra et al.
    2017, arXiv 1701.06548). At 0.5 a label of 1 % of the images would get probabilities of at least 5 %.

    Args:
        name: the loss.
        label_smoothing: fraction of a label that is replaced by its frequency.
        frequencies: (K,) frequency of each label among the training images where it is known.
        known_share: expected fraction of labels that are known, after mixup and cutmix.
    """

    frequencies: Tensor

    def __init__(self, name: LossName, label_smoothing: float, frequencies: Floats, known_share: float) -> None:
        super().__init__()
        self.name = name
        self.label_smoothing = label_smoothing
        self.known_share = known_share
        buffer = torch.tensor(frequencies, dtype=torch.float32)
        self.register_buffer("frequencies", buffer, persistent=False)  # a checkpoint has no need of it

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of logits (B, K) float32 and labels (B, K): shares from 0 to 1, -1 unknown."""
        known = labels >= 0
        shares = labels * (1 - self.label_smoothing) + self.label_smoothing * self.frequencies
        if self.name == "bce":
            losses = F.binary_cross_entropy_with_logits(logits, shares, reduction="none")
        else:
            losses = asymmetric_losses(logits, shares)
        return torch.where(known, losses, 0.0).sum() / (labels.numel() * self.known_share)

    def validation_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(n,) binary cross-entropy of every known label of a batch, without smoothing, for both losses."""
        known = labels >= 0
        return F.binary_cross_entropy_with_logits(logits[known], labels[known], reduction="none")

    def probabilities(self, logits: Tensor) -> Tensor:
        """Logits (B, K) -> probabilities (B, K)."""
        return logits.sigmoid()


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
