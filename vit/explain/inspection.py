"""What is inside a ViT: filters, positions, attention distance and cost as values

Filters, positions and attention distance are those of Dosovitskiy et al. 2021 (figure 7 and appendix D.7). The distance
corresponds to a CNN's receptive field.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from sklearn.decomposition import PCA
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from vit.data.pixels.preprocess import Preprocess
from vit.explain.methods import attention_weights
from vit.models.attend import attend
from vit.models.network import Undrawn
from vit.models.spec import NetworkSpec
from vit.models.vision_transformer import Block, VisionTransformer
from vit.models.vit_config import ViTConfig

PRODUCTS = "attention products"  # q k^T and the weighted sum of v, the only part that is quadratic in tokens
NUM_TIMINGS = 8
MAX_TIMED_TOKENS = 2500

# parts in the order of the forward pass, and the names that they have in a network or in a block
_PARTS: Mapping[str, tuple[str, ...]] = {
    "patch embedding": ("patch_embed",),
    "positions and extra tokens": ("pos_embed", "cls_token", "dist_token", "reg_token"),
    "attention projections": ("attn",),
    PRODUCTS: (),
    "MLPs": ("mlp",),
    "norms": ("norm_pre", "norm1", "ls1", "norm2", "ls2", "norm", "fc_norm"),
    "head": ("attn_pool", "head", "head_dist"),
}
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
class CostAtSize:
    """Cost of a network at one image size."""

    image_size: int  # side of an image in pixels, S
    num_patches: int  # number of patches, N
    flops: int  # FLOPs of one image's forward pass, where a multiply-add counts as two
    formula_share: float  # share of a block's multiply-adds that is quadratic in tokens, from `quadratic_share`
    # the same share of the whole network, counted in a forward pass: the last block computes what the head reads alone
    counted_share: float
    block_seconds: float = math.nan  # time of one block for one image, or NaN where it was not measured
    timed_share: float = math.nan  # share of `block_seconds` for the attention products, or NaN


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
    title: str,
    network: VisionTransformer,
    spec: NetworkSpec,
    preprocess: Preprocess,
    images: Tensor | None,
    license: str | None = None,
) -> Inspection:
    """Look into a ViT on its device.

    Args:
        spec: description of the network. With 0 classes, its last linear layer is not counted.
        images: (n, 3, S, S) uint8, for the attention; None without images.
        license: license of the weights; None: not stated.
    """
    device: torch.device = next(network.parameters()).device
    options = {name: str(spec.options[name]) for name in _FACTS if name in spec.options}
    facts = {"network": spec.name, "image_size": str(preprocess.image_size), **options}
    components, shares = principal_filters(network, FILTERS)
    return Inspection(
        title=title,
        facts=facts if license is None else facts | {"license": license},
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

    Components (count, 3, P, P) have length 1, and their largest number is positive. Kernels of fewer dimensions have
    fewer components.
    """
    kernels = network.patch_embed.pixel_kernels.detach().double().cpu()  # (D, 3, P, P)
    flat = kernels.flatten(1).numpy()
    pca = PCA(min(count, *flat.shape), svd_solver="full").fit(flat)
    components, shares = map(torch.from_numpy, (pca.components_, pca.explained_variance_ratio_))
    return components.view(-1, *kernels.shape[1:]).float(), shares.float()


def position_similarity(network: VisionTransformer) -> Tensor | None:
    """Cosine similarity of the positions of any two patches (G, G, G, G), or None where tokens get no positions."""
    if network.pos_embed is None:
        return None
    N, G = network.config.num_patches, network.config.grid_size
    directions = torch.nn.functional.normalize(network.pos_embed.detach()[0, -N:].float().cpu(), dim=1)  # (N, D)
    return (directions @ directions.T).view(G, G, G, G)


def attention_spread(network: VisionTransformer, images: Tensor) -> AttentionSpread:
    """Attention distance and entropy over normalized images (B, 3, S, S)."""
    config = network.config
    pixels = patch_distances(config.grid_size, config.patch_size).to(images.device)
    distances, entropies = [], []
    for image in images.split(1):  # one by one: the weights of a block and an image take H T^2 numbers of memory
        layers = attention_weights(network, image)
        distances.append(torch.stack([mean_distance(weights, pixels)[0] for weights in layers]))
        entropies.append(torch.stack([mean_entropy(weights)[0] for weights in layers]))
    distance, entropy = (torch.stack(values).mean(dim=0).cpu() for values in (distances, entropies))
    num_tokens = config.num_prefix_tokens + config.num_patches
    return AttentionSpread(distance, entropy, float(pixels.mean()), math.log(num_tokens), len(images))


def patch_distances(grid_size: int, patch_size: int) -> Tensor:
    """Distances in pixels between the centers of any two patches of a square grid (N, N)."""
    y, x = torch.meshgrid(torch.arange(grid_size), torch.arange(grid_size), indexing="ij")
    centers = patch_size * torch.stack((y.flatten(), x.flatten()), dim=1).float()
    return torch.cdist(centers, centers)


def mean_distance(weights: Tensor, pixels: Tensor) -> Tensor:
    """Attention-weighted distance from a patch to the patches, averaged over patches: (B, H, T, T) -> (B, H).

    Prefix tokens have no distance. So the weights of a patch on the patches are scaled to sum to 1.

    Args:
        pixels: distances between patches (N, N), from `patch_distances`.
    """
    N = len(pixels)
    among = weights[..., -N:, -N:]  # the last rows and columns are the patches
    return ((among * pixels).sum(dim=-1) / among.sum(dim=-1)).mean(dim=-1)


def mean_entropy(weights: Tensor) -> Tensor:
    """Entropy of a token's attention in nats, averaged over tokens: (B, H, T, T) -> (B, H)."""
    return torch.special.entr(weights).sum(dim=-1).mean(dim=-1)


def cost_by_part(config: ViTConfig) -> dict[str, tuple[int, int]]:
    """(parameters, FLOPs of one image) of each part of a network, in the order of the forward pass."""
    network, flops = _counted(config)
    parameters = dict.fromkeys(_PARTS, 0)
    for name, parameter in network.named_parameters():
        parameters[_part(_place(name)[0])] += parameter.numel()
    return {part: (parameters[part], flops[part]) for part in _PARTS}


def quadratic_share(num_patches: int, embed_dim: int, mlp_ratio: float) -> float:
    """Share of a block's multiply-adds that is quadratic in tokens: N / ((2 + r) D + N).

    The products cost 2 N^2 D, the projections 4 N D^2 and the MLP 2 r N D^2. The usual r = 4 gives N / (6 D + N).
    """
    return num_patches / ((2 + mlp_ratio) * embed_dim + num_patches)


def cost_by_size(config: ViTConfig, image_sizes: Sequence[int], device: torch.device) -> list[CostAtSize]:
    """Cost of a network at several image sizes, counted on the meta device, and timed on a device in float32."""
    costs = []
    for image_size in image_sizes:
        sized = replace(config, image_size=image_size)
        N = sized.num_patches
        _, flops = _counted(sized)
        total = sum(flops.values())
        mlp_ratio = sized.mlp_ratio * 0.75 if sized.activation == "swiglu" else sized.mlp_ratio  # its fc2 reads a half
        formula = quadratic_share(N, sized.embed_dim, mlp_ratio)
        timed = _timed(sized, device) if N <= MAX_TIMED_TOKENS else (math.nan, math.nan)
        costs.append(CostAtSize(image_size, N, total, formula, flops[PRODUCTS] / total, *timed))
    return costs


def image_sizes_around(image_size: int, patch_size: int) -> list[int]:
    """Image sizes from half to four times as large, each a multiple of the patch size."""
    grid_sizes = (round(image_size * factor / patch_size) for factor in (0.5, 1, 1.5, 2, 3, 4))
    return sorted({max(1, grid_size) * patch_size for grid_size in grid_sizes} | {image_size})


def _counted(config: ViTConfig) -> tuple[VisionTransformer, dict[str, int]]:
    """The network on the meta device, and its FLOPs by part, counted in the forward pass of one image."""
    with torch.device("meta"), Undrawn():
        network = VisionTransformer(config).eval().requires_grad_(False)  # as `vit.models.spec.count` says
    with FlopCounterMode(display=False) as counter:
        network(torch.empty(1, config.in_chans, config.image_size, config.image_size, device="meta"))
    flops = dict.fromkeys(_PARTS, 0)
    for module, operations in counter.get_flop_counts().items():
        name, *inside = _place(module.partition(".")[2])
        if inside or not name:
            continue  # counted with the module around it, or the whole network
        for operation, count in operations.items():
            kind = str(operation).replace("bmm", "attention").rpartition("aten.")[2]  # bmm, and fused attention
            is_product = name == "attn" and "mm" not in kind
            flops[PRODUCTS if is_product else _part(name)] += count
    return network, flops


def _place(name: str) -> list[str]:
    """The parts of the name of a module or parameter, without the block that it is in."""
    return re.sub(r"^blocks\.\d+\.", "", name).split(".")


def _part(name: str) -> str:
    return next(part for part, names in _PARTS.items() if name in names)


@torch.no_grad()
def _timed(config: ViTConfig, device: torch.device) -> tuple[float, float]:
    """Seconds of one block on all tokens, and the share of its attention products; NaN where that is above 1.

    Each time is the minimum of several measurements, because other work on the machine can only add time. A share
    above 1 shows that it added too much.
    """
    T, D, H = config.num_prefix_tokens + config.num_patches, config.embed_dim, config.num_heads
    block = Block(config, drop_path_rate=0.0).to(device).eval()
    tokens = torch.randn(1, T, D, device=device)
    q, k, v = (torch.randn(1, H, T, D // H, device=device) for _ in range(3))
    block_seconds, product_seconds = [], []
    for _ in range(NUM_TIMINGS):
        block_seconds.append(_seconds(lambda: block(tokens), device))
        product_seconds.append(_seconds(lambda: attend(q, k, v), device))
    share = min(product_seconds) / min(block_seconds)
    return min(block_seconds), share if share <= 1 else math.nan


def _seconds(compute: Callable[[], Tensor], device: torch.device) -> float:
    started = time.perf_counter()
    compute()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
