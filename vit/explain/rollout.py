"""Attention rollout: through which patches all blocks together reach what the head reads."""

import torch
from torch import Tensor

from vit.explain.attention import attention_weights, read_patches
from vit.models.vision_transformer import VisionTransformer


def rollout(network: VisionTransformer, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) -> maps (B, G, G), the same for every class.

    Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers" (arXiv 2005.00928), eq. 1: a block passes half
    of a token on and mixes half by its attention, averaged over heads; blocks are multiplied. With a class token its
    row is taken, with mean pooling the mean of the patches' rows.
    """
    return read_patches(network, rolled(attention_weights(network, images)))


def rolled(layers: list[Tensor]) -> Tensor:
    """Attention weights (B, H, T, T) of each block, first block first -> how much of each input token is in each
    output token (B, T, T); rows sum to 1."""
    tokens = layers[0].shape[-1]
    identity = torch.eye(tokens, device=layers[0].device)
    flow = identity
    for weights in layers:
        flow = (weights.mean(dim=1) + identity) / 2 @ flow
    return flow
