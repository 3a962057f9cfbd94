"""The options of a ViT that the names and shapes of its weights show"""

import math
import re
from dataclasses import dataclass

from vit.models.options import Options, Value
from vit.weights.formats.weight_format import Weights

_DEFAULT_SIZE = 224  # of images, where no positions show it
_HEADS = {1152: 16, 1280: 16, 1408: 16, 1664: 16, 1792: 16}  # SigLIP so400m, ViT-H, g, G, e; others have 64 channels
_NARROW = 192  # the width of ViT-Ti; narrower networks have heads of any width
_SEVERAL = {384: "6 (DeiT-S, DINO) or 12 (MoCo v3)"}  # heads of published networks that have the same shapes
_OLD_SMALL = 768, 8  # width and blocks of timm's ViT-S before version 0.3, which has 8 heads
_PLAIN: Options = {
    "qkv_bias": True, "pool": "cls", "activation": "gelu", "pos_embed": "learned", "prefix_positions": True
}  # fmt: skip


class UndecidedError(ValueError):
    """An option of the network that names and shapes do not show."""

    def __init__(self, problem: str, option: str) -> None:
        super().__init__(problem)
        self.option = option


@dataclass(frozen=True)
class ShownNetwork:
    """A VisionTransformer that fits given weights."""

    image_size: int  # side of its images, in pixels
    options: Options  # its options, without those that are as the constructor has them
    guess: str = ""  # how the number of heads was guessed; "": it is known


def shown_network(weights: Weights, known: Options) -> ShownNetwork:
    """The network that shapes show; `known` options stand above. ValueError: no ViT. UndecidedError: give an option."""
    for name in ("patch_embed.proj.weight", "blocks.0.attn.qkv.weight", "blocks.0.mlp.fc1.weight"):
        if name not in weights:
            raise ValueError(f"there is no {name}")
    kernel = weights["patch_embed.proj.weight"]
    if kernel.ndim != 4 or kernel.shape[1] != 3 or kernel.shape[2] != kernel.shape[3]:
        raise ValueError(f"patch_embed.proj.weight is {tuple(kernel.shape)}, not (D, 3, P, P)")
    D, P = kernel.shape[0], kernel.shape[2]
    hidden, narrowed = weights["blocks.0.mlp.fc1.weight"].shape[0], weights["blocks.0.mlp.fc2.weight"].shape[-1]
    num_registers = weights["reg_token"].shape[1] if "reg_token" in weights else 0
    sizes: dict[str, Value] = {"patch_size": P, "embed_dim": D, "depth": _depth(weights)}
    sizes["mlp_ratio"] = hidden / D if int(D * (hidden / D)) == hidden else (hidden + 0.5) / D
    guess = ""
    if not known.get("num_heads"):
        sizes["num_heads"] = _normed_heads(weights, D) or _guessed_heads(weights, D)
        if not _normed_heads(weights, D):
            guess = f"{sizes['num_heads']} heads, usual for a width of {D}"
    shown: dict[str, Value] = {
        "qkv_bias": "blocks.0.attn.qkv.bias" in weights,
        "qk_norm": "blocks.0.attn.q_norm.weight" in weights,
        "layer_scale": 1e-5 if "blocks.0.ls1.gamma" in weights else 0.0,
        "activation": "swiglu" if hidden == 2 * narrowed else "gelu",
        "num_registers": num_registers,
        "pool": _pool(weights, D),
        "pool_norm": "fc_norm.weight" in weights,
        "embed_norm": "norm_pre.weight" in weights,
        "mlp_norm": "blocks.0.mlp.norm.weight" in weights,
        "pos_embed": "learned" if "pos_embed" in weights else "none",
    }
    image_size = _DEFAULT_SIZE
    if "pos_embed" in weights:
        num_prefix = ("cls_token" in weights) + ("dist_token" in weights) + num_registers
        stated = known.get("prefix_positions")
        grid, shown["prefix_positions"] = _grid(weights["pos_embed"].shape[1], num_prefix, stated)
        image_size = grid * P
    others = {name: value for name, value in shown.items() if value != _PLAIN.get(name, type(value)())}
    return ShownNetwork(image_size, {**sizes, **others, **known}, guess)


def _depth(weights: Weights) -> int:
    numbers = {int(match[1]) for name in weights if (match := re.match(r"blocks\.(\d{1,4})\.", name))}
    if numbers != set(range(len(numbers))):
        raise ValueError(f"blocks are numbered {sorted(numbers)[:3]} to {max(numbers)}, with gaps")
    return len(numbers)


def _normed_heads(weights: Weights, embed_dim: int) -> int:
    """The number of heads where each head normalizes its queries; else 0."""
    norm = weights.get("blocks.0.attn.q_norm.weight")
    return 0 if norm is None else embed_dim // len(norm)


def _guessed_heads(weights: Weights, embed_dim: int) -> int:
    """The usual number of heads of a width. ValueError: there is none, or published networks differ."""
    is_several = embed_dim in _SEVERAL and "blocks.0.ls1.gamma" not in weights  # DeiT III and DINOv2 have 6
    is_unusual = (embed_dim % 64 and embed_dim not in _HEADS) or embed_dim < _NARROW
    if is_unusual or is_several or (embed_dim, _depth(weights)) == _OLD_SMALL:
        usual = f"; published networks have {_SEVERAL[embed_dim]}" if is_several else ""
        raise UndecidedError(f"nothing says how many heads attention of width {embed_dim} has{usual}", "num_heads")
    return published_heads(embed_dim)


def published_heads(embed_dim: int) -> int:
    """The number of heads of a width in the usual sizes: 64 channels each, but for the largest networks."""
    return _HEADS.get(embed_dim, embed_dim // 64)


def _grid(num_positions: int, num_prefix: int, stated: Value | None) -> tuple[int, bool]:
    """(side of the grid of patches, whether tokens in front have positions: as stated, else as their number shows)."""
    grids: dict[bool, int] = {}
    for prefix_positions, num_patches in ((num_prefix == 0, num_positions), (True, num_positions - num_prefix)):
        if num_patches > 0 and math.isqrt(num_patches) ** 2 == num_patches and stated in (None, prefix_positions):
            grids[prefix_positions] = math.isqrt(num_patches)
    if not grids:
        raise ValueError(f"pos_embed has {num_positions} positions, which are not a square of patches")
    if len(grids) > 1:
        every, fewer = grids[False], grids[True]
        raise UndecidedError(
            f"pos_embed has {num_positions} positions, of {every} x {every} patches alone, or of {fewer} x {fewer} "
            f"patches and {num_prefix} tokens in front of them: nothing says which",
            "prefix_positions",
        )
    ((prefix_positions, grid),) = grids.items()
    return grid, prefix_positions


def _pool(weights: Weights, embed_dim: int) -> str:
    if "attn_pool.latent" in weights:
        return "map"
    if "cls_token" not in weights:
        return "mean"
    if "head_dist.weight" in weights:
        return "cls_dist"
    if "fc_norm.weight" in weights:
        return "patch_mean"
    return "cls_mean" if "head.weight" in weights and weights["head.weight"].shape[-1] == 2 * embed_dim else "cls"
