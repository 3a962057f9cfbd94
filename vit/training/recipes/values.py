"""A recipe as plain values and as YAML, and the options that change a training"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import yaml

from vit.errors import UsageError
from vit.models.spec import NetworkSpec
from vit.training.recipes.image_options import AugmentConfig
from vit.training.recipes.recipe import NOT_IN_HASH, NOT_IN_HASH_PARTS, OptimConfig, Recipe

_USED = {"class_weights", "logit_adjustment", "multilabel_loss", "min_precision", "best_metric"}  # of optim
_REFUSED_ELSEWHERE = "optim.time"


def plain(recipe: Recipe) -> dict[str, Any]:
    """A recipe as lists, mappings and plain values."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(recipe)))
    return values


def training_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe as plain values without options that do not change the weights: names, trackers, caches."""
    options = {name: dict(part) if isinstance(part, dict) else part for name, part in values.items()}
    for name in NOT_IN_HASH:
        options.pop(name, None)
    for section, name in NOT_IN_HASH_PARTS:
        if isinstance(options.get(section), dict):
            options[section].pop(name, None)
    return options


def dotted(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested values by their dotted names: {"optim.lr": 0.001}. Empty sections have no names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= dotted(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": value}
    return flat


def with_defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A recipe as plain values with every option of its network; as it is where this version lacks the network."""
    with suppress(UsageError, KeyError, TypeError):  # a recipe may be damaged
        model, options = values["model"], {**values["model"]["network"]}
        spec = NetworkSpec.named(options.pop("name"), 1, options)
        network = {"name": spec.name, **spec.all_options(model["preprocess"]["image_size"])}
        return {**values, "model": {**model, "network": network}}
    return values


def is_unused(name: str) -> bool:
    """Whether an option, by its dotted name, changes nothing in a linear probe."""
    section, _, key = name.partition(".")
    if section == "optim":
        return key not in _USED and name != _REFUSED_ELSEWHERE
    return section == "augment" or name == "model.init_head"


def as_trained(recipe: Recipe) -> Recipe:
    """The recipe with the defaults of all options that change nothing: two equal ones are one training."""
    if recipe.model.freeze != "backbone":
        return recipe
    used = {name: value for name, value in vars(recipe.optim).items() if name in _USED}
    model = replace(recipe.model, init_head="random")
    return replace(recipe, model=model, augment=AugmentConfig(), optim=OptimConfig(**used))


def dump(recipe: Recipe) -> str:
    """A recipe as YAML that `vit train --config` reads back."""
    return yaml.dump(plain(recipe), Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Quotes a text that looks like a number to YAML 1.2 too, as 1e-3 does."""


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
