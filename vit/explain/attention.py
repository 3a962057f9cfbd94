"""Attention weights of a ViT, computed from what enters its attention modules

The forward pass keeps no attention weights, because it uses a fused computation. Shape letters are those of
vit/models/vision_transformer.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from vit.models.network import Network
from vit.models.vision_transformer import Attention, VisionTransformer


@dataclass(frozen=True)
class AttentionRecord:
    """Input and output of one attention module in one forward pass."""

    module: Attention  # the attention module
    tokens: Tensor  # input of the module (B, T, D)
    heads: Tensor  # outputs of the heads side by side, before the last projection (B, R, D)

    def weights(self) -> Tensor:
        """softmax(q k^T / sqrt(D / H)) of all tokens (B, H, T, T), also of those that the forward pass left out."""
        q, k, _ = self.module.project(self.tokens)
        return (q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)).softmax(dim=-1)

    def values(self) -> Tensor:
        """The values v of all tokens (B, H, T, D / H)."""
        return self.module.project(self.tokens)[2]


@contextmanager
def record_attention(network: VisionTransformer) -> Iterator[list[AttentionRecord]]:
    """Append a record of each attention module, in order, to the list given, in every forward pass meanwhile.

    Hooks read the inputs of modules. The computation stays as it is, also where it is fused.
    """
    records: list[AttentionRecord] = []
    handles = []
    for module in network.modules():
        if isinstance(module, Attention):
            entered: list[Tensor] = []
            handles += [
                module.register_forward_pre_hook(lambda _, inputs, kept=entered: kept.append(inputs[0])),
                module.proj.register_forward_pre_hook(
                    lambda _, inputs, owner=module, kept=entered: records.append(
                        AttentionRecord(owner, kept.pop(), inputs[0])
                    )
                ),
            ]
    try:
        yield records
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def attention_weights(network: Network, images: Tensor) -> list[Tensor]:
    """Normalized images (B, 3, S, S) -> the attention weights (B, H, T, T) of each block.

    Row i of a matrix holds the weights with which token i gathers from every token. A row sums to 1. Prefix tokens
    (class token, registers) come first, as in the network.

    Raises:
        UsageError: the attention of the network cannot be read (see timm_attention.py).
    """
    if not isinstance(network, VisionTransformer):
        from vit.explain.timm_attention import timm_attention_weights  # not above: timm takes seconds

        return timm_attention_weights(network, images)
    with record_attention(network) as records:
        network(images)
    return [record.weights() for record in records]


def patch_map(network: Network, flow: Tensor) -> Tensor:
    """Flow between tokens (..., T, T) -> the part of it that goes from each patch to the head (..., G, G).

    Row i of the flow says how much token i takes of every token. The head reads the row of the class token, the mean of
    the patches' rows, or both, as the option `pool` says. Columns of prefix tokens are left out, because these tokens
    have no position in the image.
    """
    if not isinstance(network, VisionTransformer):
        from vit.explain.timm_attention import token_layout

        return token_layout(network).patch_map(flow)
    N, G, pool = network.config.num_patches, network.config.grid_size, network.config.pool
    prefix = flow[..., : network.config.num_read or 1, :].mean(dim=-2)  # (..., T)
    patches = flow[..., -N:, :].mean(dim=-2)  # (..., T)
    read = {"cls": prefix, "cls_dist": prefix, "cls_mean": (prefix + patches) / 2}.get(pool, patches)
    return read[..., -N:].unflatten(-1, (G, G))


def last_attention(network: Network, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) -> the last block's attention, averaged over heads (B, G, G).

    The map is the same for every class.
    """
    return patch_map(network, attention_weights(network, images)[-1].mean(dim=1))
