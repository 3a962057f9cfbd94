"""What every dialect gives: weights in our names, and what its names and shapes say of the network."""

import math
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Weights = dict[str, Tensor]
Config = Mapping[str, Any]

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
CLIP = {"mean": (0.48145466, 0.4578275, 0.40821073), "std": (0.26862954, 0.26130258, 0.27577711)}
_HEADS = {1152: 16, 1280: 16, 1408: 16, 1664: 16}  # SigLIP so400m, ViT-H, ViT-g, ViT-G; in all others a head has 64
_NARROW = 192  # the width of ViT-Ti; narrower networks have heads of any width


@dataclass(frozen=True)
class Reading:
    """Foreign weights in our names.

    Attributes:
        weights: our names -> tensors.
        values: options of VisionTransformer that shapes do not show: norm_eps, activation, num_heads, pool.
        dropped: foreign names that have no place here, and why.
        preprocess: mean, std, interpolation, crop_fraction, as far as they are known.
        undecided: options that names, shapes and config leave open, and that published networks choose differently.
        doubt: another network that has the same names and shapes; "": there is none.
    """

    weights: Weights
    values: dict[str, Any] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    preprocess: dict[str, Any] = field(default_factory=dict)
    undecided: tuple[str, ...] = ()
    doubt: str = ""


@dataclass(frozen=True)
class Dialect:
    """One way of naming a ViT's weights.

    Attributes:
        name: as the terminal says it.
        speaks: whether a file with these names is of this dialect.
        read: (weights, the config.json beside them or {}) -> Reading.
    """

    name: str
    speaks: Callable[[Set[str]], bool]
    read: Callable[[Weights, Config], Reading]


def renamed(weights: Weights, rules: Mapping[str, str]) -> Weights:
    """The same tensors under other names: each rule is a regular expression for a whole name and what replaces it."""
    result: Weights = {}
    for name, value in weights.items():
        rule = next((rule for rule in rules if re.fullmatch(rule, name)), None)
        result[name if rule is None else re.sub(rule, rules[rule], name)] = value
    return result


def without(weights: Weights, reasons: Mapping[str, str]) -> tuple[Weights, dict[str, str]]:
    """(weights that no regular expression matches, {name: reason} of the others)."""
    dropped = {name: reason for name in weights for pattern, reason in reasons.items() if re.fullmatch(pattern, name)}
    return {name: value for name, value in weights.items() if name not in dropped}, dropped


def fused(weights: Weights, fused_name: str, parts: tuple[str, ...]) -> Weights:
    """Weights with `PREFIX.part.weight` and `.bias` of all parts one below another as `PREFIX.fused_name.weight`.

    A bias that some of the parts have is zero for the others (BEiT has none for the keys).
    """
    result = dict(weights)
    prefixes = [name.removesuffix(f"{parts[0]}.weight") for name in weights if name.endswith(f".{parts[0]}.weight")]
    for prefix in prefixes:
        if not all(f"{prefix}{part}.weight" in weights for part in parts):
            continue
        matrices = [result.pop(f"{prefix}{part}.weight") for part in parts]
        biases = [result.pop(f"{prefix}{part}.bias", None) for part in parts]
        result[f"{prefix}{fused_name}.weight"] = torch.cat(matrices)
        if any(bias is not None for bias in biases):
            result[f"{prefix}{fused_name}.bias"] = torch.cat(
                [torch.zeros(len(m)) if b is None else b for m, b in zip(matrices, biases, strict=True)]
            )
    return result


def options_of(weights: Weights, known: Mapping[str, Any]) -> dict[str, Any]:
    """The values of VisionTransformer that make a network for these weights: {"image_size": ..., "embed_dim": ...}.

    Args:
        weights: in our names.
        known: values that shapes do not show, or that stand above what they show.

    Raises:
        ValueError: they are no ViT's, or `num_heads` must be given.
    """
    for name in ("patch_embed.proj.weight", "blocks.0.attn.qkv.weight", "blocks.0.mlp.fc1.weight"):
        if name not in weights:
            raise ValueError(f"there is no {name}")
    kernel = weights["patch_embed.proj.weight"]
    if kernel.ndim != 4 or kernel.shape[1] != 3 or kernel.shape[2] != kernel.shape[3]:
        raise ValueError(f"patch_embed.proj.weight is {tuple(kernel.shape)}, not (D, 3, P, P)")
    D, P = kernel.shape[0], kernel.shape[2]
    numbers = {int(match[1]) for name in weights if (match := re.match(r"blocks\.(\d{1,4})\.", name))}
    if numbers != set(range(len(numbers))):
        raise ValueError(f"blocks are numbered {sorted(numbers)[:3]} to {max(numbers)}, with gaps")
    hidden, narrowed = weights["blocks.0.mlp.fc1.weight"].shape[0], weights["blocks.0.mlp.fc2.weight"].shape[-1]
    options: dict[str, Any] = {"image_size": 224, "patch_size": P, "embed_dim": D, "depth": len(numbers)}
    options["mlp_ratio"] = hidden / D if int(D * (hidden / D)) == hidden else (hidden + 0.5) / D
    options["num_heads"] = known.get("num_heads") or _num_heads(weights, D)
    registers = weights["reg_token"].shape[1] if "reg_token" in weights else 0
    prefix = ("cls_token" in weights) + ("dist_token" in weights) + registers
    shown = {
        "qkv_bias": "blocks.0.attn.qkv.bias" in weights,
        "qk_norm": "blocks.0.attn.q_norm.weight" in weights,
        "layer_scale": 1e-5 if "blocks.0.ls1.gamma" in weights else 0.0,
        "activation": "swiglu" if hidden == 2 * narrowed else "gelu",
        "num_registers": registers,
        "pool": _pool(weights, D),
        "pool_norm": "fc_norm.weight" in weights,
        "embed_norm": "norm_pre.weight" in weights,
        "pos_embed": "learned" if "pos_embed" in weights else "none",
    }
    if "pos_embed" in weights:
        positions = weights["pos_embed"].shape[1]
        shown["prefix_positions"] = prefix == 0 or not _is_square(positions)
        grid = math.isqrt(positions - prefix if shown["prefix_positions"] else positions)
        if grid * grid + (prefix if shown["prefix_positions"] else 0) != positions:
            raise ValueError(f"pos_embed has {positions} positions, which are no square of patches")
        options["image_size"] = grid * P
    plain = {"qkv_bias": True, "pool": "cls", "activation": "gelu", "pos_embed": "learned", "prefix_positions": True}
    options |= {name: value for name, value in shown.items() if value != plain.get(name, type(value)())}
    options |= {name: value for name, value in known.items() if name != "image_size" or "pos_embed" not in weights}
    return options


def _num_heads(weights: Weights, embed_dim: int) -> int:
    if "blocks.0.attn.q_norm.weight" in weights:
        return embed_dim // len(weights["blocks.0.attn.q_norm.weight"])
    if (embed_dim % 64 and embed_dim not in _HEADS) or embed_dim < _NARROW:
        raise ValueError(f"nothing says how many heads attention of width {embed_dim} has: give num_heads")
    return _HEADS.get(embed_dim, embed_dim // 64)


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


def _is_square(number: int) -> bool:
    return math.isqrt(number) ** 2 == number
