"""What is inside a ViT: filters, positions, attention distance and cost as values

Filters, positions and attention distance are those of Dosovitskiy et al. 2021 (figure 7 and appendix D.7). The distance
corresponds to a CNN's receptive field.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from vit.data.pixels.preprocess import Preprocess
from vit.explain.cost import CostAtSize, cost_by_part, cost_by_size, image_sizes_around
from vit.explain.methods import attention_weights
from vit.models.spec import NetworkSpec
from vit.models.vision_transformer import VisionTransformer

FILTERS = 28  # principal components, as the paper shows
_FACTS = ("patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio", "pool", "pos_embed", "stem")


@dataclass(frozen=True)
class AttentionSpread:
    """How far and how evenly each head attends, averaged over images and queries."""

    distance: Tensor  # attention distance of each block and head in pixels (L, H)
    entropy: Tensor  # attention entropy of each block and head in nats (L, H)
    uniform_distance: float  # distance of a head that attends to all patches equally, in pixels
    uniform_entropy: float  # entropy of a head that attends to all tokens equally, in nats
    num_images: int  # number of images of the average


@dataclass(frozen=True)
class Inspection:
    """All findings of `vit inspect`."""

    title: str  # name of the inspected model
    facts: Mapping[str, str]  # names and values of the network
    components: Tensor  # (k, 3, P, P) principal components of the patch kernels
    shares: Tensor  # (k,) fractions of the kernels' variance
    similarity: Tensor | None  # (G, G, G, G) cosine similarity of positions, or None without positions
    reach: AttentionSpread | None  # attention distance and entropy, or None without images
    parts: Mapping[str, tuple[int, int]]  # (parameters, FLOPs) of each part
    sizes: list[CostAtSize]  # cost over image sizes
    timed_on: str  # device of the timing, in words


def inspect_network(
    title: str, network: VisionTransformer, spec: NetworkSpec, preprocess: Preprocess, images: Tensor | None,
    license: str | None = None,
) -> Inspection:  # fmt: skip
    """Look into a ViT on its device.

    Args:
        spec: description of the network. With 0 classes, its last linear layer is not counted.
        preprocess: normalization of the images.
        images: (n, 3, S, S) uint8, for the attention; None without images.
        license: license of the weights; None: not stated.
    """
    device: torch.device = next(network.parameters()).device
    options = {name: str(spec.options[name]) for name in _FACTS if name in spec.options}
    stated = {} if license is None else {"license": license}
    components, shares = principal_filters(network, FILTERS)
    return Inspection(
        title=title,
        facts={"network": spec.name, "image_size": str(preprocess.image_size), **options, **stated},
        components=components,
        shares=shares,
        similarity=position_similarity(network),
        reach=None if images is None else attention_spread(network, preprocess.normalize(images.to(device))),
        parts=cost_by_part(network.config) if spec.num_classes > 0 else _headless_parts(network),
        sizes=cost_by_size(network.config, image_sizes_around(network.image_size, network.config.patch_size), device),
        timed_on=f"measured in float32 on {device.type}",
    )


def _headless_parts(network: VisionTransformer) -> dict[str, tuple[int, int]]:
    """(parameters, FLOPs) of each part without the last linear layer; attention pooling is counted with the head."""
    parts = cost_by_part(network.config)
    parameters, flops = parts.pop("head")
    for layer in (network.head, network.head_dist):
        if layer is not None:
            parameters -= sum(parameter.numel() for parameter in layer.parameters())
            flops -= 2 * layer.weight.numel()
    return parts | ({"head": (parameters, flops)} if parameters else {})


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
