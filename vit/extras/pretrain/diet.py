"""DIET: every image is a class of its own, and a linear head learns to tell the images apart

Ibrahim et al. 2024, "Occam's Razor for Self Supervised Learning: What is Sufficient to Learn Good Representations?"
(arXiv 2406.10743; first arXiv 2302.10260). The loss is cross-entropy with the image's number as its label, of which
strong label smoothing spreads a fraction over all images. Augmentation alone makes the task more than recognition.

For a pretrained network, DIET-CP (Rodas et al. 2025, arXiv 2509.06990) smooths less. The new head is first trained
alone, because its random weights would otherwise spoil the features.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from vit.extras.pretrain.objective import Objective, feature_width
from vit.models.network import Network

SMOOTHING = 0.8  # from random weights (arXiv 2302.10260, section 3)
PRETRAINED_SMOOTHING = 0.3  # for pretrained networks, as in public code for DIET-CP
HEAD_ALONE = 0.05  # of the steps, as in public code for DIET-CP


class Diet(Objective):
    """Cross-entropy with one class for each image.

    Args:
        num_images: number of training images, n.
        is_pretrained: whether the network starts from pretrained weights.
    """

    def __init__(self, network: Network, num_images: int, is_pretrained: bool) -> None:
        super().__init__(network)
        self.head = nn.Linear(feature_width(network), num_images, bias=False)
        self.smoothing = PRETRAINED_SMOOTHING if is_pretrained else SMOOTHING
        self.resting_fraction = HEAD_ALONE if is_pretrained else 0.0

    def forward(self, images: Tensor, indices: Tensor, draw_seeds: Tensor) -> Tensor:
        logits = self.head(self.network(images).flatten(1))  # (B, n)
        return F.cross_entropy(logits.float(), indices, label_smoothing=self.smoothing)
