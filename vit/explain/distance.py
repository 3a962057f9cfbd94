"""How far a ViT looks, and how evenly: attention distance and entropy of every head.

The distance is that of Dosovitskiy et al. 2021 (figure 7, right; appendix D.7): what the receptive field is to a CNN.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from vit.explain.attention import attention_weights
from vit.models.vision_transformer import VisionTransformer


@dataclass(frozen=True)
class Reach:
    """Means over images and queries.

    Attributes:
        distance: (L, H) pixels, for each block and head.
        entropy: (L, H) nats.
        uniform_distance: pixels, of a head that attends to all patches alike.
        uniform_entropy: nats, of a head that attends to all tokens alike.
        images: how many were looked at.
    """

    distance: Tensor
    entropy: Tensor
    uniform_distance: float
    uniform_entropy: float
    images: int


def reach(network: VisionTransformer, images: Tensor) -> Reach:
    """Attention distance and entropy over normalized images (B, 3, S, S), taken one by one: T^2 numbers need room."""
    patches = network.patch_embed
    pixels = patch_distances(patches.grid_size, patches.patch_size).to(images.device)
    distances, entropies, tokens = [], [], 0
    for image in images.split(1):
        layers = attention_weights(network, image)
        tokens = layers[0].shape[-1]
        distances.append(torch.stack([mean_distance(weights, pixels)[0] for weights in layers]))
        entropies.append(torch.stack([mean_entropy(weights)[0] for weights in layers]))
    return Reach(
        torch.stack(distances).mean(dim=0).cpu(),
        torch.stack(entropies).mean(dim=0).cpu(),
        float(pixels.mean()),
        math.log(tokens),
        len(images),
    )


def patch_distances(grid: int, patch_size: int) -> Tensor:
    """Pixels between the centers of any two patches of a square grid: (N, N)."""
    y, x = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
    centers = patch_size * torch.stack((y.flatten(), x.flatten()), dim=1).float()
    return torch.cdist(centers, centers)


def mean_distance(weights: Tensor, pixels: Tensor) -> Tensor:
    """Pixels from a patch to where it attends, weighted by attention, the mean over patches: (B, H, T, T) -> (B, H).

    What goes to tokens without a place (class token, registers) has no distance: a patch's weights on the patches are
    made to sum to 1.

    Args:
        weights: attention weights; the last N rows and columns are the patches.
        pixels: (N, N), `patch_distances`.
    """
    N = len(pixels)
    among = weights[..., -N:, -N:]
    return ((among * pixels).sum(dim=-1) / among.sum(dim=-1)).mean(dim=-1)


def mean_entropy(weights: Tensor) -> Tensor:
    """Entropy of the attention of a token in nats, the mean over all tokens: (B, H, T, T) -> (B, H)."""
    return torch.special.entr(weights).sum(dim=-1).mean(dim=-1)
