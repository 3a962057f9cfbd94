"""The contract of every network: a frozen config in, and images in, logits out"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

_DRAWS = ("uniform_", "normal_", "erfinv_", "mul_", "add_", "clamp_")  # ends of names: also kaiming_uniform_


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The values that a network is built from. Subclasses add fields of plain types, each with a default."""

    image_size: int  # side of an image in pixels, S
    num_classes: int  # number of classes, C
    in_chans: int = 3  # number of channels of an image, K: 3 for red, green and blue


class Network(nn.Module, ABC):
    """Maps normalized images (B, K, S, S) to logits (B, C). It knows nothing of files, losses or training."""

    config_class: ClassVar[type[NetworkConfig]]
    memory_format: torch.memory_format = torch.contiguous_format  # of the weights, and of the first layer's images
    keeps_batch_stats = False  # whether batch norms compute with their running statistics in training too, unchanged

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.image_size = config.image_size
        self.num_classes = config.num_classes
        self.in_chans = config.in_chans

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
        K, S = self.in_chans, self.image_size
        if images.ndim != 4 or images.shape[1:] != (K, S, S):
            raise ValueError(f"expected images of shape (B, {K}, {S}, {S}), got {tuple(images.shape)}")


class Undrawn(TorchFunctionMode):
    """`with torch.device("meta"), Undrawn():` a network is built without values: their draws would take most of it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out: Any = args[0] if args else (kwargs or {}).get("tensor")
        is_draw = getattr(func, "__name__", "").endswith(_DRAWS) and isinstance(out, Tensor) and out.is_meta
        return out if is_draw else func(*args, **(kwargs or {}))


def misfits(given: Mapping[str, object], expected: Mapping[str, object]) -> list[str]:
    """What is wrong with tensors by name and shape: those that are missing, unexpected, or others than expected."""
    wrong = [f"{name} is missing" for name in expected.keys() - given.keys()]
    wrong += [f"{name} is unexpected" for name in given.keys() - expected.keys()]
    shared = sorted(expected.keys() & given.keys())
    return wrong + [
        f"{name} is {given[name]}, not {expected[name]}" for name in shared if given[name] != expected[name]
    ]


def has_batch_norm(network: nn.Module) -> bool:
    """Whether a network has any batch norm, PyTorch's or timm's."""
    return any(isinstance(layer, _BatchNorm) for layer in network.modules())
