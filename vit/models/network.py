"""The contract between a network and everything else: images in, logits out."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class Network(nn.Module, ABC):
    """Maps normalized images (B, 3, S, S) to logits (B, C).

    A network knows nothing of files, losses or training. `image_size` is S and `num_classes` is C.
    """

    image_size: int
    num_classes: int
    memory_format: torch.memory_format = torch.contiguous_format  # what the network computes fastest in

    @abstractmethod
    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S), float -> logits (B, C)."""

    @abstractmethod
    def no_weight_decay(self) -> set[str]:
        """Names of parameters that are never decayed, beyond the vectors (norms, biases) that no network decays."""

    def layers_above(self) -> dict[str, int]:
        """How many blocks stand between each parameter and the head, by its name; {}: there is no such order."""
        return {}

    def check_images(self, images: Tensor) -> None:
        """Raise ValueError with both shapes unless `images` is (B, 3, S, S)."""
        size = self.image_size
        if images.ndim != 4 or images.shape[1:] != (3, size, size):
            raise ValueError(f"expected images of shape (B, 3, {size}, {size}), got {tuple(images.shape)}")
