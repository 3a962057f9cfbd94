"""`vit train --print_schema`: what a file of --config may hold, as a JSON schema by which editors complete and check"""

import json
from collections.abc import Sequence
from math import isfinite
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from vit.commands.cli.option_values import REQUIRED, union_members
from vit.commands.cli.options import CommandOptions, Option
from vit.training.recipes.ranges import Bound, Pattern

SCHEMA = "--print_schema"
_NOT_IN_FILES = ("config", "resume", "dry_run", "print_config")
_WORDS: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}
_LIMITS = {">": "exclusiveMinimum", ">=": "minimum", "<": "exclusiveMaximum", "<=": "maximum"}
Schema = dict[str, Any]


def schema_text(parser: CommandOptions) -> str:
    """The JSON schema of a command's files as text: types, ranges, defaults and texts of its options."""
    options = [option for option in parser.options if not option.is_hidden and option.name not in _NOT_IN_FILES]
    title = f"A file for 'vit {parser.command} --config'"
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title}
    return json.dumps({**head, **_section(options, parser, ""), "type": "object"}, indent=1)


def _section(options: Sequence[Option], parser: CommandOptions, beginning: str) -> Schema:
    """The schema of the options whose names begin with a section and its dot; an empty section is null to YAML."""
    properties: Schema = {}
    for option in options:
        name, _, rest = option.name.removeprefix(beginning).partition(".")
        if not rest:
            properties[name] = _described(option)
        elif name not in properties:
            inside = f"{beginning}{name}."
            below = [other for other in options if other.name.startswith(inside)]
            about = parser.sections.get(inside.rstrip("."), "")
            properties[name] = {"description": about} if about else {}
            properties[name] |= _section(below, parser, inside)
    dotted = {r"\.": True}  # "optim.lr" in one word is checked by vit itself
    rules = {"patternProperties": dotted, "additionalProperties": False}
    return {"type": ["object", "null"], "properties": properties, **rules}


def _described(option: Option) -> Schema:
    found: Schema = {"description": option.about, **_schema(option.kind)}
    return found if option.default is REQUIRED else {**found, "default": option.default}


def _schema(kind: Any) -> Schema:
    """The schema of the values of a type."""
    origin, parts = get_origin(kind), get_args(kind)
    members = union_members(kind)
    if len(members) > 1:
        return {"anyOf": [_schema(member) for member in members]}
    if origin is Annotated:
        bounds = [rule for rule in parts[1:] if isinstance(rule, Bound) and isfinite(rule.limit)]
        limits = {_LIMITS[bound.sign]: bound.limit for bound in bounds}
        patterns = [("pattern", f"^({rule.pattern})$") for rule in parts[1:] if isinstance(rule, Pattern)]
        return _schema(parts[0]) | limits | dict(patterns)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(parts[1])}
    if origin in (list, tuple):
        return {"type": "array", "items": _schema(parts[0])}
    return {"type": _WORDS[kind]}
