"""A recipe as plain values and as YAML, also as earlier versions wrote it"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, TypeVar

import yaml

from vit.plain_files import parse_yaml
from vit.training.recipes.recipe import UNDECIDING, UNDECIDING_PARTS, Recipe

RENAMED = {  # keys of a run's config.yaml: of an earlier version -> today's
    "optim.min_lr": "optim.min_lr_ratio",
    "wandb_media": "tracker_media",
    "wandb_model": "tracker_model",
}

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


def deciding(values: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe as plain values without the options that nothing learned follows, such as names, trackers and caches."""
    found = {name: dict(part) if isinstance(part, dict) else part for name, part in values.items()}
    for name in UNDECIDING:
        found.pop(name, None)
    for section, name in UNDECIDING_PARTS:
        if isinstance(found.get(section), dict):
            found[section].pop(name, None)
    return found


def dump(recipe: Recipe) -> str:
    """A recipe as YAML that `vit train --config` reads back."""
    return yaml.dump(plain(recipe), Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def with_todays_names(text: str) -> str:
    """The YAML of a recipe that this version or an earlier one wrote, with today's names of options."""
    values = parse_yaml(text)
    named = todays_names(values)
    return text if named == values else yaml.dump(named, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def todays_names(values: dict[str, Any]) -> dict[str, Any]:
    """The sections of a recipe with today's names of options, in the same order."""
    return {RENAMED.get(section, section): _renamed(section, options) for section, options in values.items()}


def _renamed(section: str, options: Any) -> Any:
    """The options of a section with today's names, in the same order."""
    if not isinstance(options, dict):
        return options
    names = {key: RENAMED.get(f"{section}.{key}", f"{section}.{key}").partition(".")[2] for key in options}
    return {names[key]: value for key, value in options.items()}


class _Dumper(yaml.SafeDumper):
    """Quotes a text that looks like a number to YAML 1.2 too, as 1e-3 does: jsonargparse would read it as one."""


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
