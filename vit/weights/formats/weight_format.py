"""The contract of a weight format: which files are of it, and their tensors in our names; a model of timm as values"""

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vit.errors import some_of
from vit.models.network import misfits
from vit.models.options import Options
from vit.weights.preprocess_config import Config as Config
from vit.weights.preprocess_config import PreprocessValues
from vit.weights.trainer_file import State, chosen

Weights = dict[str, Tensor]
_LEVELS = 5  # of wrappers around a network: module._orig_mod.model.net.backbone.
NOT_BELOW = "not below"
READS_PRE_LOGITS = "it reads pre_logits, a layer that the networks here do not have"
PREDICTS_NUMBERS = "it predicts numbers (problem_type regression), not classes"


@dataclass(frozen=True)
class Converted:
    """Foreign weights in our names."""

    weights: Weights  # our names -> tensors
    # options of VisionTransformer that shapes do not show: norm_eps, activation, num_heads, pool
    options: Options = field(default_factory=dict)
    # foreign names that have no place in our networks, each with the reason
    dropped: dict[str, str] = field(default_factory=dict)
    # usual preprocessing of this format, as far as it is known
    preprocess: PreprocessValues = field(default_factory=PreprocessValues)
    # options that names, shapes and config leave open, and that published networks choose differently
    undecided: tuple[str, ...] = ()
    doubt: str = ""  # another network that has the same names and shapes; "": none is known


@dataclass(frozen=True)
class WeightFormat:
    """One library's way of naming the weights of a ViT."""

    name: str  # name for the terminal
    matches: Callable[[Set[str]], bool]  # function of a file's names: whether the file is of this format
    # function of weights and the config.json beside them, or {}: the weights in our names
    convert: Callable[[Weights, Config], Converted]


def by_prefix(names: Iterable[str]) -> dict[str, set[str]]:
    """The names below each dotted prefix that programs put around a network: {"": all, "module.": ..., ...}."""
    found: dict[str, set[str]] = {}
    for name in names:
        parts = name.split(".")
        for level in range(min(_LEVELS + 1, len(parts))):
            prefix = "".join(f"{part}." for part in parts[:level])
            found.setdefault(prefix, set()).add(name.removeprefix(prefix))
    return dict(sorted(found.items(), key=lambda group: group[0].count(".")))


def below(weights: Weights, prefix: str) -> tuple[Weights, dict[str, str]]:
    """(weights below a prefix, without it; {name: reason} of the others)."""
    own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    others = {name: value for name, value in weights.items() if not name.startswith(prefix)}

    def is_copy(name: str, value: Tensor) -> bool:
        parts = name.split(".")
        ends = (".".join(parts[level:]) for level in range(1, len(parts)))
        return any(end in own and own[end].shape == value.shape for end in ends)

    return own, {
        name: f"a copy of what is below {prefix}" if is_copy(name, value) else f"{NOT_BELOW} {prefix}"
        for name, value in others.items()
    }


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
            result[f"{prefix}{fused_name}.bias"] = torch.cat(
                [m.new_zeros(len(m)) if b is None else b for m, b in zip(matrices, biases, strict=True)]
            )
    return result


@dataclass(frozen=True)
class TimmWeights:
    """Tensors of a file in the names of a model of timm."""

    weights: Weights  # tensors by name
    num_classes: int  # outputs of their classifier; 0: they have none
    dropped: dict[str, str]  # names outside the model, each with the reason
    prefix: str  # prefix below which the model stands in the file


@dataclass(frozen=True)
class TimmModel:
    """A model of timm."""

    name: str  # without the tag of its weights
    config: Config  # timm's pretrained_cfg: input_size, mean, std, interpolation, crop_pct, num_classes
    options: Options | None  # options of our VisionTransformer; None: the model is not a plain ViT
    image_size: int  # side of its images, in pixels
    shapes: Mapping[str, torch.Size]  # shape of each tensor, by name

    def weights_of(self, weights: Weights, state: State | None = None) -> TimmWeights:
        """Tensors of a file in this model's names; ValueError: one does not fit, or several networks could be meant."""
        heads = self.config.get("classifier") or ()
        heads = (heads,) if isinstance(heads, str) else tuple(heads)
        known = {prefix: len(names & self.shapes.keys()) for prefix, names in by_prefix(weights).items()}
        most = max(known.values(), default=0)
        places = {prefix: below(weights, prefix)[0] for prefix, count in known.items() if count == most > 0}
        prefix = chosen(places, state) if places else ""
        own, dropped = below(weights, prefix)
        counters = (name for name in self.shapes if name.endswith(".num_batches_tracked"))
        own = {name: torch.tensor(0) for name in counters} | own  # old files lack them: 0, as in BatchNorm2d
        parts = tuple(f"{head}." for head in heads)
        wrong = misfits(
            {name: tuple(value.shape) for name, value in own.items() if not name.startswith(parts)},
            {name: tuple(shape) for name, shape in self.shapes.items() if not name.startswith(parts)},
        )
        if wrong:
            raise ValueError(some_of(sorted(wrong), 3, "; "))
        rows = [own[f"{head}.weight"] for head in heads if f"{head}.weight" in own]
        return TimmWeights(own, len(rows[0]) if rows else 0, dropped, prefix)
