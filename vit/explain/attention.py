"""Attention weights of a ViT, recomputed from what entered its attention modules: the forward pass itself keeps none.

Letters in shape comments are those of vit/models/vision_transformer.py; G is the number of patches along a side.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from vit.models.vision_transformer import Attention, VisionTransformer


@dataclass(frozen=True)
class Attended:
    """One attention module during one forward pass.

    Attributes:
        module: the module.
        tokens: (B, T, D), what entered it.
        gathered: (B, queries, D), what its heads gathered, side by side, before the last projection.
    """

    module: Attention
    tokens: Tensor
    gathered: Tensor

    def weights(self) -> Tensor:
        """softmax(q k^T / sqrt(D / H)) of every token, also of those that the network left out: (B, H, T, T)."""
        q, k, _ = self.module.project(self.tokens)
        return (q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)).softmax(dim=-1)

    def values(self) -> Tensor:
        """What each head can gather of each token: (B, H, T, D / H)."""
        return self.module.project(self.tokens)[2]


@contextmanager
def watched(network: VisionTransformer) -> Iterator[list[Attended]]:
    """While this is entered, every forward pass appends one `Attended` for each block to the list it gives, in order.

    Hooks see what enters the modules; the computation stays as it is, fused where it is fused.
    """
    seen: list[Attended] = []
    handles = []
    for module in network.modules():
        if isinstance(module, Attention):
            entered: list[Tensor] = []
            handles += [
                module.register_forward_pre_hook(lambda _, inputs, kept=entered: kept.append(inputs[0])),
                module.proj.register_forward_pre_hook(
                    lambda _, inputs, owner=module, kept=entered: seen.append(Attended(owner, kept.pop(), inputs[0]))
                ),
            ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def attention_weights(network: VisionTransformer, images: Tensor) -> list[Tensor]:
    """Normalized images (B, 3, S, S) -> the attention weights (B, H, T, T) of each block.

    Row i of a matrix says how much token i takes of every token; it sums to 1. Tokens in front of the patches (class
    token, registers) come first, as in the network.
    """
    with watched(network) as seen:
        network(images)
    return [layer.weights() for layer in seen]


def read_patches(network: VisionTransformer, flow: Tensor) -> Tensor:
    """What the head gets of each patch: (..., T, T), rows take from columns, -> (..., G, G).

    The head reads the class token (with "cls_dist" a second one, too), whose row it is then, or the mean of the patch
    tokens, the mean of whose rows it is; with "cls_mean" both. Columns of tokens that are no patches are left out: they
    have no place in the picture.
    """
    N, grid = network.config.num_patches, network.config.grid_size
    tokens = flow[..., : 2 if network.config.pool == "cls_dist" else 1, :].mean(dim=-2)
    patches = flow[..., -N:, :].mean(dim=-2)
    read = {"cls": tokens, "cls_dist": tokens, "cls_mean": (tokens + patches) / 2}.get(network.config.pool, patches)
    return read[..., -N:].unflatten(-1, (grid, grid))


def last_attention(network: VisionTransformer, images: Tensor, class_indices: Tensor) -> Tensor:
    """The last block's attention, the mean of its heads: normalized images (B, 3, S, S) -> maps (B, G, G).

    It says where the head looks, whichever class is asked for.
    """
    return read_patches(network, attention_weights(network, images)[-1].mean(dim=1))
