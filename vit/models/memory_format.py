"""The memory of a network in training: layout of a CNN, and blocks whose activations are not kept

A CNN has the fastest layout in which its gradients are right. oneDNN, which computes convolutions on CPUs, has a fault
in the layout channels-last. The gradient of a 1x1 convolution with a stride and few input channels may be written
beyond its memory: a crash, a hang, or silent wrong gradients (https://github.com/uxlfoundation/oneDNN/issues/6035).
RepVGG, MobileOne and FastViT have one in their stems.
"""

from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from vit.models.vision_transformer import Block

_SAFE_CHANNELS = 16  # oneDNN computes this many at a time with AVX-512, and 8 with AVX2


def memory_format_of(model: nn.Module, device: torch.device) -> torch.memory_format:
    """Channels-last, which all devices compute faster, unless a layer of a network cannot have it there."""
    has_3d = any(weight.dim() > 4 for weight in model.parameters())  # lambda layers have 3-D convolutions
    return torch.contiguous_format if has_3d or _needs_contiguous(model, device) else torch.channels_last


def compile_in_place(model: nn.Module, device: torch.device) -> None:
    """torch.compile, which turns all convolutions into channels-last unless it is told not to."""
    model.compile(options={"layout_optimization": False} if _needs_contiguous(model, device) else None)


def checkpoint_blocks(network: nn.Module) -> None:
    """Keep the input of each encoder block alone, and compute the block again in the backward pass.

    Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174). Gradients are bit-equal on a
    CPU, because dropout and drop path draw the same numbers again. Names of weights stay.
    """
    for block in network.modules():
        if isinstance(block, Block):
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]


def _needs_contiguous(model: nn.Module, device: torch.device) -> bool:
    """Whether a network has a convolution whose gradient oneDNN may compute wrong in channels-last."""
    return device.type == "cpu" and any(
        isinstance(layer, nn.Conv2d)
        and layer.kernel_size == (1, 1)
        and max(layer.stride) > 1
        and layer.in_channels // layer.groups < _SAFE_CHANNELS
        for layer in model.modules()
    )
