"""Attention distance and entropy of every head of a ViT

The distance is that of Dosovitskiy et al. 2021 (figure 7, right, and appendix D.7). It corresponds to a CNN's receptive
field.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from vit.explain.attention import attention_weights
from vit.models.vision_transformer import VisionTransformer


@dataclass(frozen=True)
class AttentionSpread:
    """How far and how evenly each head attends, averaged over images and queries."""

    distance: Tensor  # attention distance of each block and head in pixels (L, H)
    entropy: Tensor  # attention entropy of each block and head in nats (L, H)
    uniform_distance: float  # distance of a head that attends to all patches equally, in pixels
    uniform_entropy: float  # entropy of a head that attends to all tokens equally, in nats
    num_images: int  # number of images of the average


def attention_spread(network: VisionTransformer, images: Tensor) -> AttentionSpread:
    """Attention distance and entropy over normalized images (B, 3, S, S).

    Images are computed one by one, because the weights of a block and an image take H T^2 numbers of memory.
    """
    pixels = patch_distances(network.config.grid_size, network.config.patch_size).to(images.device)
    distances, entropies, num_tokens = [], [], 0
    for image in images.split(1):
        layers = attention_weights(network, image)
        num_tokens = layers[0].shape[-1]
        distances.append(torch.stack([mean_distance(weights, pixels)[0] for weights in layers]))
        entropies.append(torch.stack([mean_entropy(weights)[0] for weights in layers]))
    return AttentionSpread(
        torch.stack(distances).mean(dim=0).cpu(),
        torch.stack(entropies).mean(dim=0).cpu(),
        float(pixels.mean()),
        math.log(num_tokens),
        len(images),
    )


def patch_distances(grid_size: int, patch_size: int) -> Tensor:
    """Distances in pixels between the centers of any two patches of a square grid (N, N)."""
    y, x = torch.meshgrid(torch.arange(grid_size), torch.arange(grid_size), indexing="ij")
    centers = patch_size * torch.stack((y.flatten(), x.flatten()), dim=1).float()
    return torch.cdist(centers, centers)


def mean_distance(weights: Tensor, pixels: Tensor) -> Tensor:
    """Attention-weighted distance from a patch to the patches, averaged over patches: (B, H, T, T) -> (B, H).

    Prefix tokens have no distance. So the weights of a patch on the patches are scaled to sum to 1.

    Args:
        weights: attention weights; the last N rows and columns are the patches.
        pixels: distances between patches (N, N), from `patch_distances`.
    """
    N = len(pixels)
    among = weights[..., -N:, -N:]
    return ((among * pixels).sum(dim=-1) / among.sum(dim=-1)).mean(dim=-1)


def mean_entropy(weights: Tensor) -> Tensor:
    """Entropy of a token's attention in nats, averaged over tokens: (B, H, T, T) -> (B, H)."""
    return torch.special.entr(weights).sum(dim=-1).mean(dim=-1)
