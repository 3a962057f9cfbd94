"""The contract of a weight format: which files are of it, their tensors in our names, and the options these show"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from vit.errors import some_of
from vit.models.catalog import Options, Value
from vit.models.network import misfits
from vit.weights.preprocess_config import Config as Config
from vit.weights.preprocess_config import PreprocessValues
from vit.weights.trainer_file import State, chosen_place

Weights = dict[str, Tensor]
_FUSED = (
    ("qkv", ("q", "k", "v")), ("qkv", ("q_proj", "k_proj", "v_proj")), ("qkv", ("query", "key", "value")),
    ("fc1", ("gate", "up")),
)  # fmt: skip
_LEVELS = 5  # of wrappers around a network: module._orig_mod.model.net.backbone.
NOT_BELOW = "not below"
_DEFAULT_SIZE = 224  # of images, where no positions show it
_HEADS = {1152: 16, 1280: 16, 1408: 16, 1664: 16, 1792: 16}  # SigLIP so400m, ViT-H, g, G, e; others have 64 channels
_NARROW = 192  # the width of ViT-Ti; narrower networks have heads of any width
_SEVERAL = {384: "6 (DeiT-S, DINO) or 12 (MoCo v3)"}  # heads of published networks that have the same shapes
_OLD_SMALL = 768, 8  # width and blocks of timm's ViT-S before version 0.3, which has 8 heads
_PLAIN: Options = {
    "qkv_bias": True, "pool": "cls", "activation": "gelu", "pos_embed": "learned", "prefix_positions": True
}  # fmt: skip
READS_PRE_LOGITS = "it reads pre_logits, a layer that the networks here do not have"
PREDICTS_NUMBERS = "it predicts numbers (problem_type regression), not classes"


@dataclass(frozen=True)
class Converted:
    """Foreign weights in our names."""

    weights: Weights  # our names -> tensors
    options: Options = field(default_factory=dict)  # of VisionTransformer that shapes do not show: norm_eps, ...
    dropped: dict[str, str] = field(default_factory=dict)  # names that have no place in our networks, and the reason
    preprocess: PreprocessValues = field(default_factory=PreprocessValues)  # usual for this format, as far as known
    undecided: tuple[str, ...] = ()  # options that nothing shows, and that published networks choose differently
    doubt: str = ""  # another network that has the same names and shapes; "": none is known


@dataclass(frozen=True)
class WeightFormat:
    """One library's way of naming the weights of a ViT."""

    name: str  # name for the terminal
    matches: Callable[[Set[str]], bool]  # function of a file's names: whether the file is of this format
    convert: Callable[[Weights, Config], Converted]  # of weights and the config.json beside them, or {}


def weight_format(name: str, matches: Callable[[Set[str]], bool]) -> "partial[WeightFormat]":
    """Decorator: the format that a function converts."""
    return partial(WeightFormat, name, matches)


def having(*marks: Set[str], lacking: str = "") -> Callable[[Set[str]], bool]:
    """A rule of `WeightFormat.matches`: all names of one of the marks are there, and the one that is lacking is not."""
    return lambda names: lacking not in names and any(mark <= names for mark in marks)


def by_prefix(names: Iterable[str]) -> dict[str, set[str]]:
    """The names below each dotted prefix that programs put around a network: {"": all, "module.": ..., ...}."""
    names_below: dict[str, set[str]] = {}
    for name in names:
        parts = name.split(".")
        for level in range(min(_LEVELS + 1, len(parts))):
            prefix = "".join(f"{part}." for part in parts[:level])
            names_below.setdefault(prefix, set()).add(name.removeprefix(prefix))
    return dict(sorted(names_below.items(), key=lambda group: group[0].count(".")))


def below(weights: Weights, prefix: str) -> tuple[Weights, dict[str, str]]:
    """(weights below a prefix, without it; {name: reason} of the others)."""
    inside = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    others: dict[str, str] = {}
    for name, value in weights.items():
        if not name.startswith(prefix):
            parts = name.split(".")
            ends = (".".join(parts[level:]) for level in range(1, len(parts)))
            is_copy = any(end in inside and inside[end].shape == value.shape for end in ends)
            others[name] = f"a copy of what is below {prefix}" if is_copy else f"{NOT_BELOW} {prefix}"
    return inside, others


def renamed(weights: Weights, rules: Mapping[str, str]) -> Weights:
    """The same tensors under other names: each rule is a regular expression for a whole name, and its replacement."""
    result: Weights = {}
    for name, value in weights.items():
        rule = next((rule for rule in rules if re.fullmatch(rule, name)), None)
        result[name if rule is None else re.sub(rule, rules[rule], name)] = value
    return result


def without(weights: Weights, reasons: Mapping[str, str]) -> tuple[Weights, dict[str, str]]:
    """(weights that no regular expression matches, {name: reason} of the others)."""
    dropped = {name: reason for name in weights for pattern, reason in reasons.items() if re.fullmatch(pattern, name)}
    return {name: value for name, value in weights.items() if name not in dropped}, dropped


def translated(
    weights: Weights, left_out: Mapping[str, str], rules: Mapping[str, str]
) -> tuple[Weights, dict[str, str]]:
    """(`renamed` weights that are not left out, in fused layers as ours; {name: reason} of the others)."""
    weights, dropped = without(weights, left_out)
    weights = renamed(weights, rules)
    for fused_name, parts in _FUSED:
        weights = fused(weights, fused_name, parts)
    return weights, dropped


def without_pre_logits(weights: Weights, head: str) -> tuple[Weights, dict[str, str]]:
    """`without` the layer between the last norm and the classifier `head`, and without a classifier that reads it.

    A classifier of zeros stays. Published weights have one behind this layer, and it ignores what it reads.
    """
    reasons = {r"pre_logits\W.*": "a layer that was there for pretraining"}
    has_layer = any(name.startswith(("pre_logits.", "pre_logits/")) for name in weights)
    if has_layer and head in weights and bool(weights[head].any()):
        reasons[r"head\W.*"] = READS_PRE_LOGITS
    return without(weights, reasons)


def fused(weights: Weights, fused_name: str, parts: tuple[str, ...]) -> Weights:
    """Weights with all `PREFIX.part`s as one `PREFIX.fused_name`. A bias that some lack is 0 for them (BEiT's keys)."""
    result = dict(weights)
    prefixes = [name.removesuffix(f"{parts[0]}.weight") for name in weights if name.endswith(f".{parts[0]}.weight")]
    for prefix in prefixes:
        if not all(f"{prefix}{part}.weight" in weights for part in parts):
            continue
        matrices = [result.pop(f"{prefix}{part}.weight") for part in parts]
        biases = [result.pop(f"{prefix}{part}.bias", None) for part in parts]
        result[f"{prefix}{fused_name}.weight"] = torch.cat(matrices)
        if any(bias is not None for bias in biases):
            whole = [m.new_zeros(len(m)) if b is None else b for m, b in zip(matrices, biases, strict=True)]
            result[f"{prefix}{fused_name}.bias"] = torch.cat(whole)
    return result


@dataclass(frozen=True)
class TimmWeights:
    """Tensors of a file in the names of a model of timm."""

    weights: Weights
    num_classes: int  # outputs of their classifier; 0: they have none
    dropped: dict[str, str]  # names outside the model, each with the reason
    prefix: str  # below which the model stands in the file


@dataclass(frozen=True)
class TimmModel:
    """A model of timm."""

    name: str  # without the tag of its weights
    config: Config  # timm's pretrained_cfg: input_size, mean, std, interpolation, crop_pct, num_classes
    options: Options | None  # options of our VisionTransformer; None: the model is not a plain ViT
    image_size: int  # side of its images, in pixels
    shapes: Mapping[str, torch.Size]  # shape of each tensor, by name

    @property
    def heads(self) -> tuple[str, ...]:
        heads = self.config.get("classifier") or ()
        return (heads,) if isinstance(heads, str) else tuple(heads)

    def weights_of(self, weights: Weights, state: State | None = None) -> TimmWeights:
        """Tensors of a file in this model's names; ValueError: one does not fit, or several networks could be meant."""
        known = {prefix: len(names & self.shapes.keys()) for prefix, names in by_prefix(weights).items()}
        most = max(known.values(), default=0)
        places = {prefix: below(weights, prefix)[0] for prefix, count in known.items() if count == most > 0}
        prefix = chosen_place(places, state) if places else ""
        tensors, dropped = below(weights, prefix)
        counters = (name for name in self.shapes if name.endswith(".num_batches_tracked"))
        tensors = {name: torch.tensor(0) for name in counters} | tensors  # old files lack them: 0, as in BatchNorm2d
        parts = tuple(f"{head}." for head in self.heads)
        heads = {name for name in self.shapes if name.startswith(parts)}  # of any number of classes, or not there
        heads |= {f"{part}{kind}" for part in parts for kind in ("weight", "bias")}
        wrong = misfits(
            {name: tuple(value.shape) for name, value in tensors.items() if name not in heads},
            {name: tuple(shape) for name, shape in self.shapes.items() if name not in heads},
        )
        if wrong:
            raise ValueError(some_of(sorted(wrong), 3, "; "))
        rows = [tensors[f"{head}.weight"] for head in self.heads if f"{head}.weight" in tensors]
        return TimmWeights(tensors, len(rows[0]) if rows else 0, dropped, prefix)


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
    guesses: Mapping[str, str]  # {option: its value in words} of those that nothing states


def shown_network(weights: Weights, known: Options, given: Collection[str] = ()) -> ShownNetwork:
    """The network that shapes show; `known` options stand above, some `given` by the user. ValueError: none fits."""
    for name in ("patch_embed.proj.weight", "blocks.0.attn.qkv.weight", "blocks.0.mlp.fc1.weight"):
        if name not in weights:
            raise ValueError(f"there is no {name}")
    kernel = weights["patch_embed.proj.weight"]
    if kernel.ndim != 4 or kernel.shape[1] != 3 or kernel.shape[2] != kernel.shape[3]:
        raise ValueError(f"patch_embed.proj.weight is {tuple(kernel.shape)}, not (D, 3, P, P) of 3 channels (in_chans)")
    D, P = kernel.shape[0], kernel.shape[2]
    hidden, narrowed = weights["blocks.0.mlp.fc1.weight"].shape[0], weights["blocks.0.mlp.fc2.weight"].shape[-1]
    num_registers = weights["reg_token"].shape[1] if "reg_token" in weights else 0
    blocks = {int(match[1]) for name in weights if (match := re.match(r"blocks\.(\d{1,4})\.", name))}
    if blocks != set(range(len(blocks))):
        raise ValueError(f"blocks are numbered {sorted(blocks)[:3]} to {max(blocks)}, with gaps")
    sizes: dict[str, Value] = {"patch_size": P, "embed_dim": D, "depth": len(blocks)}
    sizes["mlp_ratio"] = hidden / D if int(D * (hidden / D)) == hidden else (hidden + 0.5) / D
    if not known.get("num_heads") and "blocks.0.attn.q_norm.weight" in weights:  # each head normalizes its queries
        sizes["num_heads"] = D // len(weights["blocks.0.attn.q_norm.weight"])
    elif not known.get("num_heads"):
        sizes["num_heads"] = _usual_heads(D, len(blocks), "blocks.0.ls1.gamma" in weights)
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
    guesses, image_size = dict[str, str](), _DEFAULT_SIZE
    if ("num_heads" in sizes or "num_heads" in given) and not shown["qk_norm"]:  # nothing states the other two, either
        heads = {"num_heads": f"{sizes['num_heads']} heads, usual for a width of {D}"} if "num_heads" in sizes else {}
        usual = {"activation": "gelu", "pool": "cls"}.items() & shown.items()  # others change names or shapes
        guesses = heads | {name: f"{name} {value}" for name, value in sorted(usual) if name not in known}
    if "pos_embed" in weights:
        num_prefix = ("cls_token" in weights) + ("dist_token" in weights) + num_registers
        stated = known.get("prefix_positions")
        grid, shown["prefix_positions"] = _grid(weights["pos_embed"].shape[1], num_prefix, stated)
        image_size = grid * P
    others = {name: value for name, value in shown.items() if value != _PLAIN.get(name, type(value)())}
    return ShownNetwork(image_size, {**sizes, **others, **known}, guesses)


def _usual_heads(embed_dim: int, depth: int, is_scaled: bool) -> int:
    """The usual number of heads of a width. UndecidedError: there is none, or published networks differ."""
    is_several = embed_dim in _SEVERAL and not is_scaled  # DeiT III and DINOv2 have 6
    is_unusual = (embed_dim % 64 and embed_dim not in _HEADS) or embed_dim < _NARROW
    if is_unusual or is_several or (embed_dim, depth) == _OLD_SMALL:
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
        raise ValueError(f"pos_embed has {num_positions:,} positions, which are not a square of patches")
    if len(grids) > 1:
        every, fewer = grids[False], grids[True]
        raise UndecidedError(
            f"pos_embed has {num_positions:,} positions, of {every} x {every} patches alone, or of {fewer} x {fewer} "
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
