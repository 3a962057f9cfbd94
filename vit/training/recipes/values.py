"""A recipe as plain values and as YAML"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, TypeVar

import yaml

from vit.training.recipes.recipe import NOT_IN_HASH, NOT_IN_HASH_PARTS, Recipe

Tree = TypeVar("Tree")


def plain_values(tree: Tree) -> Tree:
    """The same tree with plain numbers instead of the command line's PositiveInt and other types.

    A checkpoint would store those types by name, and `weights_only=True` refuses to load them.
    """
    plain: Any = tree
    if is_dataclass(tree) and not isinstance(tree, type):
        plain = replace(tree, **{item.name: plain_values(getattr(tree, item.name)) for item in fields(tree)})
    elif isinstance(tree, dict):
        plain = {str(key): plain_values(value) for key, value in tree.items()}  # YAML reads the class 7 as a number
    elif isinstance(tree, list | tuple):
        plain = type(tree)(map(plain_values, tree))
    else:
        for kind in (bool, int, float, str):
            if isinstance(tree, kind):
                return kind(tree)  # type: ignore[return-value]
    return plain


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
    """Quotes a text that looks like a number to YAML 1.2 too, as 1e-3 does: jsonargparse would read it as one."""


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
