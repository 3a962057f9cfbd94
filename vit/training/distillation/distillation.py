"""The loss of a network that learns from labels and from a teacher"""

from typing import Self

from torch import Tensor

from vit.data.batch import Batch
from vit.models.heads import token_logits
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer
from vit.tasks.loss import Loss
from vit.training.distillation.loss import TeachingLoss
from vit.training.distillation.teacher_logits import TeacherLogits


class Distillation:
    """Labels and a teacher together.

    A network with a distillation token learns the labels with the head of its class token, and the teacher with the
    head of the distillation token (Touvron et al. 2021, section 4). Its prediction is the mean of both. Any other
    network learns both with its one head.

    This is not a module, so that the teacher's weights are in no checkpoint, optimizer or average.

    Args:
        teacher: the teacher's logits.
        loss: what the network learns from the teacher, and how much it counts.
    """

    def __init__(self, teacher: TeacherLogits, loss: TeachingLoss) -> None:
        self.teacher = teacher
        self.loss = loss

    def __deepcopy__(self, memo: object) -> Self:
        """The same object: the averaged weights are a copy of the whole classifier, and need no second teacher."""
        return self

    def of(self, network: Network, batch: Batch, label_loss: Loss) -> Tensor:
        """The loss of an augmented and normalized batch."""
        if has_distillation_token(network):
            labeled, taught = (logits.float() for logits in token_logits(network, batch.image))
        else:
            labeled = taught = network(batch.image).float()
        return self.loss.whole(label_loss(labeled, batch.label), self.loss.of(taught, self.teacher.of(batch)))


def has_distillation_token(network: Network) -> bool:
    """Whether a network has a head for the teacher."""
    return isinstance(network, VisionTransformer) and network.head_dist is not None
