"""What a ViT costs: parameters and FLOPs of its parts, and the share that grows with the square of the tokens."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from vit.models.vision_transformer import Block, VisionTransformer, attend
from vit.models.vit_config import ViTConfig

PRODUCTS = "attention products"  # q k^T and the weighted sum of v: the only part that is quadratic in tokens
TURNS = 8
MOST_TIMED_TOKENS = 2500

# parts in the order of the forward pass, and where their parameters are
_PARTS: Mapping[str, tuple[str, ...]] = {
    "patch embedding": ("patch_embed.",),
    "positions and extra tokens": ("pos_embed", "cls_token", "dist_token", "reg_token"),
    "attention projections": (".attn.",),
    PRODUCTS: (),
    "MLPs": (".mlp.",),
    "norms": ("norm", ".ls"),
    "head": ("head", "attn_pool."),
}


@dataclass(frozen=True)
class Size:
    """A network's cost at one image size.

    Attributes:
        image_size: S, in pixels.
        patches: N.
        flops: of one image's forward pass, a multiply-add counted as two.
        formula: share of a block's multiply-adds that is quadratic in tokens: N / (6 D + N) with the usual MLP.
        counted: the same share of the whole network, counted while it ran (it saves most of its last block).
        seconds: of one block with one image; nan where it was not timed.
        timed: the share of these seconds that the attention products took.
    """

    image_size: int
    patches: int
    flops: int
    formula: float
    counted: float
    seconds: float = math.nan
    timed: float = math.nan


def parts(config: ViTConfig) -> dict[str, tuple[int, int]]:
    """(parameters, FLOPs of one image) of each part of a ViT, in the order of the forward pass."""
    network, flops = _counted(config)
    parameters = dict.fromkeys(_PARTS, 0)
    for name, parameter in network.named_parameters():
        parameters[_part(name)] += parameter.numel()
    return {part: (parameters[part], flops[part]) for part in _PARTS}


def quadratic_share(patches: int, embed_dim: int, mlp_ratio: float) -> float:
    """Share of a block's multiply-adds that is quadratic in tokens.

    The products cost 2 N^2 D; the projections 4 N D^2 and the MLP 2 r N D^2, which makes N / ((2 + r) D + N), and
    N / (6 D + N) with the usual r = 4.
    """
    return patches / ((2 + mlp_ratio) * embed_dim + patches)


def over_sizes(config: ViTConfig, sides: Sequence[int], device: torch.device) -> list[Size]:
    """A ViT's cost at several image sizes, counted without memory, and timed on a device in float32."""
    found = []
    for side in sides:
        network, flops = _counted(replace(config, image_size=side))
        patches, total = network.config.num_patches, sum(flops.values())
        formula = quadratic_share(patches, config.embed_dim, config.mlp_ratio)
        seconds, share = _timed(config, patches, device) if patches <= MOST_TIMED_TOKENS else (math.nan, math.nan)
        found.append(Size(side, patches, total, formula, flops[PRODUCTS] / total, seconds, share))
    return found


def sides_around(image_size: int, patch_size: int) -> list[int]:
    """Image sizes from half to four times as large, of whole patches."""
    wanted = (round(image_size * factor / patch_size) for factor in (0.5, 1, 1.5, 2, 3, 4))
    return sorted({max(1, patches) * patch_size for patches in wanted} | {image_size})


def _counted(config: ViTConfig) -> tuple[VisionTransformer, dict[str, int]]:
    """A ViT on the meta device, and its FLOPs by part, counted while one image goes through it."""
    with torch.device("meta"):
        network = VisionTransformer(config).eval()
        image = torch.empty(1, 3, network.image_size, network.image_size)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            network(image)
    flops = dict.fromkeys(_PARTS, 0)
    for module, operations in counter.get_flop_counts().items():
        name = module.partition(".")[2]
        if name.startswith(("patch_embed", "head")):
            flops[_part(f"{name}.")] += sum(operations.values())
        elif name.endswith(".mlp"):
            flops["MLPs"] += sum(operations.values())
        elif name.endswith(".attn"):
            linear = sum(count for operation, count in operations.items() if "mm" in _name(operation))
            products = sum(count for operation, count in operations.items() if "mm" not in _name(operation))
            flops["attention projections"] += linear
            flops[PRODUCTS] += products
    return network, flops


def _name(operation: Any) -> str:
    """Name of a counted operation; batched products (bmm, and fused attention) are those of attention."""
    return str(operation).replace("bmm", "attention").rpartition("aten.")[2]


def _part(parameter: str) -> str:
    return next(part for part, marks in _PARTS.items() if any(mark in parameter for mark in marks))


@torch.no_grad()
def _timed(config: ViTConfig, patches: int, device: torch.device) -> tuple[float, float]:
    """Seconds of one block on `patches` tokens, and the share of its attention products.

    The least of several turns each: whatever else the machine does can only add.
    """
    width, heads = config.embed_dim, config.num_heads
    block = Block(config, drop_path_rate=0.0).to(device).eval()
    tokens = torch.randn(1, patches, width, device=device)
    q, k, v = (torch.randn(1, heads, patches, width // heads, device=device) for _ in range(3))
    whole: list[float] = []
    products: list[float] = []
    for _ in range(TURNS):
        whole.append(_seconds(lambda: block(tokens), device))
        products.append(_seconds(lambda: attend(q, k, v), device))
    return min(whole), min(products) / min(whole)


def _seconds(compute: Callable[[], Tensor], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    compute()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
