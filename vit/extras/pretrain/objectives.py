"""What a backbone learns from images without labels: the contract of an objective, DIET and MAE"""

from abc import ABC, abstractmethod

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.data.core.draws import uniform
from vit.data.pixels.preprocess import to_device
from vit.errors import UsageError
from vit.extras.pretrain.masked_autoencoder import MaskedAutoencoder
from vit.models.heads import classifier_names
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer

BACKBONE = "network."  # in front of the names of the backbone's weights, in an objective's and in a checkpoint's
SMOOTHING = 0.8  # of DIET from random weights (arXiv 2302.10260, section 3)
PRETRAINED_SMOOTHING = 0.3  # for pretrained networks, as in public code for DIET-CP
HEAD_ALONE = 0.05  # of the steps, as in public code for DIET-CP
_PURPOSE = 5  # of the draws of a mask; `data/pixels/augment.py` uses 1 to 4


class Objective(nn.Module, ABC):
    """A backbone with the layers that only its pretraining needs.

    Args:
        network: network whose layers for classes are gone; see `without_classes`.

    Attributes:
        network: the backbone. Only its weights are kept.
        resting_fraction: fraction of the optimizer steps, from the first on, in which the backbone does not change.
    """

    resting_fraction = 0.0

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    @abstractmethod
    def forward(self, images: Tensor, indices: Tensor, draw_seeds: Tensor) -> Tensor:
        """The loss of a batch.

        Args:
            images: (B, 3, S, S) augmented and normalized images.
            indices: (B,) number of each image among all training images.
            draw_seeds: (B,) seeds on the CPU for all random draws of an image in this epoch; see `Batch.draw_seed`.
        """

    def no_weight_decay(self) -> set[str]:
        """Names of parameters without weight decay, besides vectors."""
        return {BACKBONE + name for name in self.network.no_weight_decay()}

    def layers_above(self) -> dict[str, int]:
        """Number of blocks between each parameter and the head, by the parameter's name, or {} without an order."""
        return {BACKBONE + name: above for name, above in self.network.layers_above().items()}


def without_classes(network: Network, name: str) -> Network:
    """The same network, which now returns the features that its head reads: (B, 3, S, S) -> (B, D).

    UsageError, which names the network, where its last layer is not known.
    """
    heads = classifier_names(network)
    if not heads:
        raise UsageError(
            f"{name} does not say which of its layers computes the classes", "choose another --network for vit pretrain"
        )
    for head in heads:
        network.set_submodule(head, nn.Identity())
    return network


@torch.no_grad()
def feature_width(network: Network) -> int:
    """The number of features D that a network without classes returns."""
    device, was_training = next(network.parameters()).device, network.training
    network.eval()  # batch norm needs more than one image in training
    size = network.image_size
    width = network(torch.zeros(1, network.in_chans, size, size, device=device)).flatten(1).shape[1]
    network.train(was_training)
    return int(width)


class Diet(Objective):
    """DIET: every image is a class of its own, and a linear head learns to tell the images apart.

    Ibrahim et al. 2024, "Occam's Razor for Self Supervised Learning: What is Sufficient to Learn Good Representations?"
    (arXiv 2406.10743; first arXiv 2302.10260). The loss is cross-entropy with the image's number as its label, of which
    strong label smoothing spreads a fraction over all images. Augmentation alone makes the task more than recognition.

    For a pretrained network, DIET-CP (Rodas et al. 2025, arXiv 2509.06990) smooths less. The new head is first trained
    alone, because its random weights would otherwise spoil the features.

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


class Mae(Objective):
    """MAE: three quarters of an image's patches are hidden, and the backbone must tell their pixels from the others.

    `masked_autoencoder.py` has the encoder, the decoder and the loss. Here the mask of an image follows from its draw
    seed, so that a resumed pretraining hides the same patches. Errors as of `autoencoder_of`.
    """

    network: VisionTransformer

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.autoencoder = autoencoder_of(network)

    def forward(self, images: Tensor, indices: Tensor, draw_seeds: Tensor) -> Tensor:
        order = to_device(patch_order(draw_seeds, self.network.config.num_patches), images.device)
        loss: Tensor = self.autoencoder(self.network, images, order)
        return loss

    def no_weight_decay(self) -> set[str]:
        return super().no_weight_decay() | {"autoencoder.mask_token"}


def patch_order(draw_seeds: Tensor, num_patches: int) -> Tensor:
    """The patches of each image in a random order (B, N), a pure function of the draw seeds (B,)."""
    drawn = uniform(num_patches, draw_seeds.cpu().numpy().astype(np.int64), _PURPOSE)  # (B, N)
    return torch.from_numpy(np.argsort(drawn, axis=1, kind="stable"))


def autoencoder_of(network: Network) -> MaskedAutoencoder:
    """The masked autoencoder for a network, which may be on the meta device.

    UsageError where the network is not a ViT that can compute some patches without the others.
    """
    if not isinstance(network, VisionTransformer):
        raise UsageError("--method mae is only for a ViT of our own ('vit models' lists them)", "give --method diet")
    try:
        return MaskedAutoencoder(network.config)
    except ValueError as error:
        raise UsageError(f"--method mae: {error}", "give --method diet, or change --network") from error
