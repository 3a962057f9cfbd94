"""A recipe as plain values and as YAML"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import yaml

from vit.training.recipes.recipe import NOT_IN_HASH, NOT_IN_HASH_PARTS, Recipe


def plain(recipe: Recipe) -> dict[str, Any]:
    """A recipe as lists, mappings and plain values."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(recipe)))
    return values


def training_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe as plain values without options that do not change the weights: names, trackers, caches."""
    found = {name: dict(part) if isinstance(part, dict) else part for name, part in values.items()}
    for name in NOT_IN_HASH:
        found.pop(name, None)
    for section, name in NOT_IN_HASH_PARTS:
        if isinstance(found.get(section), dict):
            found[section].pop(name, None)
    return found


def dump(recipe: Recipe) -> str:
    """A recipe as YAML that `vit train --config` reads back."""
    return yaml.dump(plain(recipe), Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Quotes a text that looks like a number to YAML 1.2 too, as 1e-3 does."""


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
