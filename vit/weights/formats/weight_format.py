"""The contract of a weight format: which files are of it, and their tensors in our names"""

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from vit.models.options import Options
from vit.weights.preprocess_config import PreprocessValues

Weights = dict[str, Tensor]
Config = Mapping[str, Any]  # JSON from elsewhere
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
    """The names below each dotted prefix, without it: {"": all, "module.": ..., "module.backbone.": ...}.

    Programs put a network into others under any names. A prefix below which the names fit is the network's place.
    """
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
    """`without` the layer between the last norm and the classifier, and without a classifier (`head`) that reads it.

    A classifier of zeros stays. Published weights have one behind this layer, and it ignores what it reads.
    """
    reasons = {r"pre_logits\W.*": "a layer that was there for pretraining"}
    has_layer = any(name.startswith(("pre_logits.", "pre_logits/")) for name in weights)
    if has_layer and head in weights and bool(weights[head].any()):
        reasons[r"head\W.*"] = READS_PRE_LOGITS
    return without(weights, reasons)


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
                [m.new_zeros(len(m)) if b is None else b for m, b in zip(matrices, biases, strict=True)]
            )
    return result
