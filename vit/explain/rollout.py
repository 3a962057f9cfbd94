"""Attention rollout: how much of each patch reaches the head through all blocks together"""

import torch
from torch import Tensor

from vit.explain.attention import attention_weights, patch_map
from vit.models.network import Network


def rollout(network: Network, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) -> maps (B, G, G), the same for every class.

    Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers" (arXiv 2005.00928), eq. 1. A block passes half
    of a token on, and mixes half by its attention, averaged over heads. The product of these matrices over all blocks
    is the flow.
    """
    return patch_map(network, rolled(attention_weights(network, images)))


def rolled(layers: list[Tensor]) -> Tensor:
    """Attention weights (B, H, T, T) of each block, the first block first -> flow through all blocks (B, T, T).

    A row says how much of each input token is in an output token, and sums to 1.
    """
    num_tokens = layers[0].shape[-1]
    identity = torch.eye(num_tokens, device=layers[0].device)
    flow = identity
    for weights in layers:
        flow = (weights.mean(dim=1) + identity) / 2 @ flow
    return flow
