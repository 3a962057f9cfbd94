"""What a network learns from its teacher: probabilities at a temperature, or the most probable class"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class TeachingLoss:
    """The loss of a batch against its teacher, and its share in the whole loss.

    soft: T^2 KL(softmax(v / T) || softmax(z / T)) for the teacher's logits v and the network's logits z (Hinton et al.
    2015, arXiv 1503.02531, section 2; Touvron et al. 2021, arXiv 2012.12877, equation 2). The gradient of the KL
    divergence falls with 1 / T^2. The factor T^2 keeps the shares of teacher and labels at any temperature.

    hard: cross-entropy of the teacher's most probable class, without label smoothing (Touvron et al. 2021, equation 3
    and section 4).

    Attributes:
        kind: what the teacher gives.
        temperature: T, with soft.
        weight: fraction of the teacher in the whole loss.
    """

    kind: Literal["soft", "hard"]
    temperature: float
    weight: float

    def of(self, logits: Tensor, teacher_logits: Tensor) -> Tensor:
        """The mean loss of logits (B, C) against the teacher's logits (B, C).

        The teacher's logits may lack a constant for each image.
        """
        if self.kind == "hard":
            return F.cross_entropy(logits, teacher_logits.argmax(dim=1))
        own = (logits / self.temperature).log_softmax(dim=1)
        wanted = (teacher_logits / self.temperature).log_softmax(dim=1)
        return F.kl_div(own, wanted, reduction="batchmean", log_target=True) * self.temperature**2

    def whole(self, label_loss: Tensor, teacher_loss: Tensor) -> Tensor:
        """The loss that is minimized."""
        return torch.lerp(label_loss, teacher_loss, self.weight)
