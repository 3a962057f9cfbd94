"""The contract of every network: a frozen config in, and images in, logits out; and a line of the catalog"""

import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from vit.models.options import Options

_DECIDED = ("image_size", "num_classes", "in_chans", "model")  # by the images, the classes and the name


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The values that a network is built from. Subclasses add fields of plain types, each with a default.

    Attributes:
        image_size: side of an image in pixels, S.
        num_classes: number of classes, C.
        in_chans: number of channels of an image, K: 3 for red, green and blue.
    """

    image_size: int
    num_classes: int
    in_chans: int = 3


class Network(nn.Module, ABC):
    """Maps normalized images (B, K, S, S) to logits (B, C). It knows nothing of files, losses or training.

    Attributes:
        memory_format: layout of the weights, and of the images that the first layer reads.
        keeps_batch_stats: whether batch norms compute with their running statistics in training too, without a change.
    """

    config_class: ClassVar[type[NetworkConfig]]
    memory_format: torch.memory_format = torch.contiguous_format

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.image_size = config.image_size
        self.num_classes = config.num_classes
        self.in_chans = config.in_chans
        self.keeps_batch_stats = False

    def train(self, mode: bool = True) -> Self:
        """As nn.Module's; batch norms stay as in evaluation where the network keeps their statistics."""
        super().train(mode)
        if self.keeps_batch_stats:
            for layer in self.modules():
                if isinstance(layer, _BatchNorm):
                    layer.training = False
        return self

    @abstractmethod
    def forward(self, images: Tensor) -> Tensor:
        """Images (B, K, S, S), float -> logits (B, C)."""

    def memory_format_on(self, device: torch.device) -> torch.memory_format:
        """The layout in which the network computes fastest on a device, with right gradients."""
        return torch.contiguous_format

    def laid_out_for(self, device: torch.device) -> Self:
        """This network in its layout for a device. A new network is contiguous."""
        self.memory_format = self.memory_format_on(device)
        return self.to(memory_format=self.memory_format)

    def first_kernels(self) -> tuple[str, ...]:
        """Names of the convolution weights (D, K, h, w) that read pixels, or () where they are not known."""
        return ()

    @abstractmethod
    def no_weight_decay(self) -> set[str]:
        """Names of parameters without weight decay, besides the vectors (norms, biases), which never decay."""

    def layers_above(self) -> dict[str, int]:
        """Number of blocks between each parameter and the head, by the parameter's name, or {} without an order."""
        return {}

    def resized(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights for another image size, resampled to `image_size`: those that change, or {} where none can."""
        return {}

    def check_images(self, images: Tensor) -> None:
        """Raise ValueError with both shapes unless `images` is (B, K, S, S)."""
        size = self.image_size
        if images.ndim != 4 or images.shape[1:] != (self.in_chans, size, size):
            raise ValueError(
                f"expected images of shape (B, {self.in_chans}, {size}, {size}), got {tuple(images.shape)}"
            )


@dataclass(frozen=True)
class CatalogEntry:
    """One line of the catalog.

    Attributes:
        network: class of the network.
        image_size: side of the images that the network is made for, in pixels.
        options: options that differ from the defaults of the network's config.
        about: one line for `vit models`.
    """

    network: type[Network]
    image_size: int
    options: Options = field(default_factory=dict)
    about: str = ""

    @property
    def kinds(self) -> dict[str, object]:
        """Type of every option that may be set."""
        hints = typing.get_type_hints(self.network.config_class)
        return {name: kind for name, kind in hints.items() if name not in _DECIDED}

    def config(self, image_size: int, num_classes: int, in_chans: int, options: Mapping[str, Any]) -> NetworkConfig:
        """The values that the network is built from; ValueError where they do not fit together."""
        return self.network.config_class(image_size=image_size, num_classes=num_classes, in_chans=in_chans, **options)
