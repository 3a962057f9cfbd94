"""The loss of a network that learns from labels and from a teacher"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from vit.data.core.batch import Batch
from vit.models.heads import token_logits
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer
from vit.training.distillation.teacher_logits import TeacherLogits


@dataclass(frozen=True)
class TeachingLoss:
    """The loss of a batch against its teacher, and its share in the whole loss.

    soft: T^2 KL(softmax(v / T) || softmax(z / T)) for the teacher's logits v and the network's logits z (Hinton et al.
    2015, arXiv 1503.02531, section 2; Touvron et al. 2021, arXiv 2012.12877, equation 2). The gradient of the KL
    divergence falls with 1 / T^2. The factor T^2 keeps the shares of teacher and labels at any temperature.

    hard: cross-entropy of the teacher's most probable class, without label smoothing (Touvron et al. 2021, equation 3
    and section 4).
    """

    kind: Literal["soft", "hard"]  # what the teacher gives
    temperature: float  # T, with soft
    weight: float  # fraction of the teacher in the whole loss

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


class Distillation:
    """Labels and a teacher together.

    A network with a distillation token learns the labels with the head of its class token, and the teacher with the
    head of the distillation token (Touvron et al. 2021, section 4). Its prediction is the mean of both. Any other
    network learns both with its one head.

    This is not a module, so that the teacher's weights are in no checkpoint, optimizer or average.

    Args:
        loss: what the network learns from the teacher, and how much it counts.
    """

    def __init__(self, teacher: TeacherLogits, loss: TeachingLoss) -> None:
        self.teacher = teacher
        self.loss = loss

    def __deepcopy__(self, memo: object) -> Self:
        """The same object: the averaged weights are a copy of the whole classifier, and need no second teacher."""
        return self

    def of(self, network: Network, batch: Batch, label_loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The loss of an augmented and normalized batch."""
        if has_distillation_token(network):
            labeled, taught = (logits.float() for logits in token_logits(network, batch.image))
        else:
            labeled = taught = network(batch.image).float()
        return self.loss.whole(label_loss(labeled, batch.label), self.loss.of(taught, self.teacher.of(batch)))


def has_distillation_token(network: Network) -> bool:
    """Whether a network has a head for the teacher."""
    return isinstance(network, VisionTransformer) and network.head_dist is not None
