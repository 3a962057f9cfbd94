"""MAE: three quarters of an image's patches are hidden, and the backbone must tell their pixels from the others

He et al. 2022, "Masked Autoencoders Are Scalable Vision Learners" (arXiv 2111.06377). `models/masked_autoencoder.py`
has the encoder, the decoder and the loss. Here the mask of an image follows from its draw seed, so that a resumed
pretraining hides the same patches.
"""

import numpy as np
import torch
from torch import Tensor

from vit.data.core.draws import uniform
from vit.data.pixels.preprocess import to_device
from vit.errors import UsageError
from vit.extras.pretrain.masked_autoencoder import MASK_RATIO, MaskedAutoencoder
from vit.extras.pretrain.objective import Objective
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer

_PURPOSE = 5  # of the draws of a mask; `data/augment.py` uses 1 to 4


class Mae(Objective):
    """Mean squared error of hidden patches, whose pixels are normalized patch by patch.

    Args:
        network: network without classes, one of our ViTs.

    Raises:
        UsageError: the network is not a ViT that can compute some patches without the others.
    """

    network: VisionTransformer

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.autoencoder = autoencoder_of(network)

    def forward(self, images: Tensor, indices: Tensor, draw_seeds: Tensor) -> Tensor:
        loss: Tensor = self.autoencoder(self.network, images, self._order(images, draw_seeds))
        return loss

    def reconstructions(self, images: Tensor) -> dict[str, Tensor]:
        """The images with hidden patches in the mean color, and with predictions there."""
        order = self._order(images, torch.arange(len(images)))
        masked, filled = self.autoencoder.reconstruct(self.network, images, order)
        return {"visible": masked, "predicted": filled}

    def no_weight_decay(self) -> set[str]:
        return super().no_weight_decay() | {"autoencoder.mask_token"}

    def _order(self, images: Tensor, draw_seeds: Tensor) -> Tensor:
        return to_device(patch_order(draw_seeds, self.network.config.num_patches), images.device)


def patch_order(draw_seeds: Tensor, num_patches: int) -> Tensor:
    """The patches of each image in a random order (B, N), a pure function of the draw seeds (B,)."""
    drawn = uniform(num_patches, draw_seeds.cpu().numpy().astype(np.int64), _PURPOSE)  # (B, N)
    return torch.from_numpy(np.argsort(drawn, axis=1, kind="stable"))


def autoencoder_of(network: Network) -> MaskedAutoencoder:
    """The masked autoencoder for a network, which may be on the meta device.

    Raises:
        UsageError: the network is not a ViT that can compute some patches without the others.
    """
    if not isinstance(network, VisionTransformer):
        raise UsageError("--method mae is only for a ViT of our own ('vit models' lists them)", "give --method diet")
    try:
        return MaskedAutoencoder(network.config, MASK_RATIO)
    except ValueError as error:
        raise UsageError(f"--method mae: {error}", "give --method diet, or change --network") from error
