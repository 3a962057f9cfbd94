"""Parameters and FLOPs of a ViT's parts, and the share of the cost that is quadratic in tokens"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from vit.models.attend import attend
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


@dataclass(frozen=True)
class CostAtSize:
    """Cost of a network at one image size."""

    image_size: int  # side of an image in pixels, S
    num_patches: int  # number of patches, N
    flops: int  # FLOPs of one image's forward pass, where a multiply-add counts as two
    formula_share: float  # share of a block's multiply-adds that is quadratic in tokens, from `quadratic_share`
    # the same share of the whole network, counted in a forward pass. The last block computes only the tokens that the
    # head reads.
    counted_share: float
    block_seconds: float = math.nan  # time of one block for one image, or NaN where it was not measured
    # share of `block_seconds` for the attention products, or NaN where it was not measured
    timed_share: float = math.nan


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
        _, flops = _counted(sized)
        total = sum(flops.values())
        mlp_ratio = sized.mlp_ratio * 0.75 if sized.activation == "swiglu" else sized.mlp_ratio  # its fc2 reads a half
        formula = quadratic_share(sized.num_patches, sized.embed_dim, mlp_ratio)
        is_timed = sized.num_patches <= MAX_TIMED_TOKENS
        seconds, share = _timed(sized, device) if is_timed else (math.nan, math.nan)
        costs.append(CostAtSize(image_size, sized.num_patches, total, formula, flops[PRODUCTS] / total, seconds, share))
    return costs


def image_sizes_around(image_size: int, patch_size: int) -> list[int]:
    """Image sizes from half to four times as large, each a multiple of the patch size."""
    grid_sizes = (round(image_size * factor / patch_size) for factor in (0.5, 1, 1.5, 2, 3, 4))
    return sorted({max(1, grid_size) * patch_size for grid_size in grid_sizes} | {image_size})


def _counted(config: ViTConfig) -> tuple[VisionTransformer, dict[str, int]]:
    """The network on the meta device, and its FLOPs by part, counted in the forward pass of one image."""
    with torch.device("meta"):
        network = VisionTransformer(config).eval().requires_grad_(False)  # as `vit.models.spec.count` says
        image = torch.empty(1, config.in_chans, config.image_size, config.image_size)
        with FlopCounterMode(display=False) as counter:
            network(image)
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
    """Seconds of one block on all tokens, and the share of its attention products.

    Each time is the minimum of several measurements, because other work on the machine can only add time.
    """
    T, D, H = config.num_prefix_tokens + config.num_patches, config.embed_dim, config.num_heads
    block = Block(config, drop_path_rate=0.0).to(device).eval()
    tokens = torch.randn(1, T, D, device=device)
    q, k, v = (torch.randn(1, H, T, D // H, device=device) for _ in range(3))
    block_seconds, product_seconds = [], []
    for _ in range(NUM_TIMINGS):
        block_seconds.append(_seconds(lambda: block(tokens), device))
        product_seconds.append(_seconds(lambda: attend(q, k, v), device))
    return min(block_seconds), min(product_seconds) / min(block_seconds)


def _seconds(compute: Callable[[], Tensor], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    compute()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
