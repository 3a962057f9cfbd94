"""The training loss: cross-entropy with label smoothing, class weights and logit adjustment"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.training.class_balance import Floats


class TrainingLoss(nn.Module):
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
        """(B,) cross-entropy of each image, without weights and smoothing."""
        return F.cross_entropy(logits, labels, reduction="none")

    def probabilities(self, logits: Tensor) -> Tensor:
        """Logits (B, C) -> probabilities (B, C)."""
        return logits.softmax(dim=1)

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
