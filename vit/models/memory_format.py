"""The layout of a convolutional network in memory: the fastest one in which its gradients are right

oneDNN, which computes convolutions on CPUs, has a fault in the layout channels-last. The gradient of a 1x1 convolution
with a stride and few input channels may be written beyond its memory: a crash, a hang, or silent wrong gradients
(https://github.com/uxlfoundation/oneDNN/issues/6035). RepVGG, MobileOne and FastViT have one in their stems.
"""

import torch
from torch import nn

_SAFE_CHANNELS = 16  # oneDNN computes this many at a time with AVX-512, and 8 with AVX2


def memory_format_of(model: nn.Module, device: torch.device) -> torch.memory_format:
    """Channels-last, which all devices compute faster, unless a layer of a network cannot have it there."""
    has_3d = any(weight.dim() > 4 for weight in model.parameters())  # lambda layers have 3-D convolutions
    return torch.contiguous_format if has_3d or _needs_contiguous(model, device) else torch.channels_last


def compile_in_place(model: nn.Module, device: torch.device) -> None:
    """torch.compile, which turns all convolutions into channels-last unless it is told not to."""
    model.compile(options={"layout_optimization": False} if _needs_contiguous(model, device) else None)


def _needs_contiguous(model: nn.Module, device: torch.device) -> bool:
    """Whether a network has a convolution whose gradient oneDNN may compute wrong in channels-last."""
    return device.type == "cpu" and any(
        isinstance(layer, nn.Conv2d)
        and layer.kernel_size == (1, 1)
        and max(layer.stride) > 1
        and layer.in_channels // layer.groups < _SAFE_CHANNELS
        for layer in model.modules()
    )
