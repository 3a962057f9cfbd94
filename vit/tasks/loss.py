"""Loss: what a training minimizes, and what it measures on validation images"""

from abc import ABC, abstractmethod

from torch import Tensor, nn
from torchmetrics import MetricCollection


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
        """The validation metrics by the names that stand after "val/" in metrics.csv."""
