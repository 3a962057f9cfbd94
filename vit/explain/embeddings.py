"""What a ViT learned before its first block: filters and positions

The figures are those of Dosovitskiy et al. 2021 (figure 7, left and center).
"""

import torch
from torch import Tensor

from vit.models.vision_transformer import VisionTransformer


def principal_filters(network: VisionTransformer, count: int) -> tuple[Tensor, Tensor]:
    """The first principal components of the kernels that read pixels, and each one's share of the variance.

    Returns:
        components of length 1 (count, 3, P, P), whose largest number is positive; shares (count,). Kernels of fewer
        dimensions have fewer components.
    """
    kernels = network.patch_embed.pixel_kernels.detach().double().cpu()  # (D, 3, P, P)
    flat = kernels.flatten(1)
    _, values, components = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=False)
    components = components[:count]
    largest = components.gather(1, components.abs().argmax(dim=1, keepdim=True))
    shares = values.square() / values.square().sum()
    return (components * largest.sign()).view(-1, *kernels.shape[1:]).float(), shares[:count].float()


def position_similarity(network: VisionTransformer) -> Tensor | None:
    """Cosine similarity of the positions of any two patches (G, G, G, G), or None where tokens get no positions."""
    if network.pos_embed is None:
        return None
    N, G = network.config.num_patches, network.config.grid_size
    positions = network.pos_embed.detach()[0, -N:].float().cpu()  # (N, D)
    directions = torch.nn.functional.normalize(positions, dim=1)
    return (directions @ directions.T).view(G, G, G, G)
