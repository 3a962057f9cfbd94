"""The options of a command, and what is printed of them: a help of one screen, full texts, or a JSON schema of files

By the schema, which `vit train --print_schema` prints, editors complete and check files of --config.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from textwrap import wrap
from types import NoneType
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from vit.errors import UsageError, nearest
from vit.options import REQUIRED, Option, choices, mapping_type, union_members
from vit.ranges import Bound, Pattern

ALL = "all"
OF_COMMAND = ("config", "resume", "dry_run", "print_config")  # options that files of --config do not have
WIDTH, SCREEN = 79, 40  # characters of a line, lines of a help that is not asked for in full
_COLUMN = 26  # where the texts of one screen begin
_LONGEST_CHOICES = 48
_TYPES: dict[Any, str] = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}
_LIMITS = {">": "exclusiveMinimum", ">=": "minimum", "<": "exclusiveMaximum", "<=": "maximum"}


@dataclass(frozen=True)
class CommandOptions:
    """The options of a command."""

    command: str  # name of the command, with its action
    about: str  # what the command does
    example: str  # a command line
    options: tuple[Option, ...]  # positional arguments in their order, and options
    # other spellings of options on the command line, and the flags that they stand for
    short: Mapping[str, str] = field(default_factory=dict)
    # groups of options of the first help, with texts of one line by flag; empty: all options
    main: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)  # texts of sections of options, by name

    @cached_property
    def by_name(self) -> dict[str, Option]:
        """Options and positional arguments by name."""
        return {option.name: option for option in self.options}

    @property
    def shown(self) -> list[Option]:
        """The options that the command does not refuse."""
        return [option for option in self.options if not option.is_hidden]

    @property
    def takes_files(self) -> bool:
        """Whether files of --config may give the options, too."""
        return "config" in self.by_name

    @property
    def hint(self) -> str:
        """Where all options are, for the `fix` of an error."""
        return f"see 'vit {self.command} --help{' all' * bool(self.main)}'"

    def changed(self, changes: Mapping[str, Mapping[str, Any]]) -> Self:
        """The same parser where options have other attributes, by name."""
        options = tuple(replace(option, **changes.get(option.name, {})) for option in self.options)
        return replace(self, options=options)

    def without(self, names: Iterable[str], sections: Iterable[str] = ()) -> Self:
        """The same parser whose help does not show some options, which the command refuses."""
        hidden = {*names, *(name for name in self.by_name if name.partition(".")[0] in set(sections))}
        parser = self.changed({name: {"is_hidden": True} for name in hidden})
        return replace(parser, sections={name: text for name, text in self.sections.items() if name not in sections})

    def find(self, name: str) -> tuple[Option, str] | None:
        """(the option of a name with or without its section, the key where the option is a mapping); None: none."""
        name = self.short.get(f"--{name}", f"--{name}").removeprefix("--")
        if name in self.by_name:
            return self.by_name[name], ""
        beginning, _, key = name.rpartition(".")
        option = self.by_name.get(beginning)
        return None if option is None or mapping_type(option.kind) is None else (option, key)


def help_text(parser: CommandOptions, wanted: str = "") -> str:
    """The help of a command: one screen, or the full texts of a section, or of "all"."""
    sections = [*parser.sections, ALL]
    if wanted and wanted not in sections:
        raise UsageError(f"--help {wanted}: vit {parser.command} has no such section", nearest(wanted, sections))
    if wanted not in ("", ALL):
        return _in_full(parser, [option for option in parser.shown if option.section == wanted], wanted)
    whole = _in_full(parser, parser.shown, "")
    return whole if wanted or (not parser.main and whole.count("\n") < SCREEN) else _one_screen(parser)


def indented(text: str) -> list[str]:
    """A text in lines of one screen, with a margin."""
    return wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _usage(parser: CommandOptions) -> list[str]:
    words = ["usage: vit", parser.command]
    for option in parser.options:
        if option.is_positional:
            word = f"{_metavar(option)} ..." if option.takes_several else _metavar(option)
            words.append(word if option.default is REQUIRED else f"[{word}]")
    has_options = any(not option.is_positional for option in parser.options)
    return [" ".join([*words, *(["[options]"] if has_options else [])]), ""]


def _one_screen(parser: CommandOptions) -> str:
    """The main options, or the first clause of the text of each option, with defaults."""
    lines = [*_usage(parser), *wrap(parser.about, WIDTH, max_lines=3, placeholder=" ..."), ""]
    for title, texts in parser.main.items():
        options = {flag: parser.find(flag.partition(" ")[0].removeprefix("--")) for flag in texts}
        shown = [(flag, texts[flag], pair) for flag, pair in options.items() if pair and not pair[0].is_hidden]
        lines += [f"{title}:"] if shown else []
        lines += [_line(flag, text, _default(option, key)) for flag, text, (option, key) in shown]
    for option in () if parser.main else parser.shown:
        clause = re.split(r"[;:.](?:\s|$)", option.about)[0]
        flag, names = _flags(option, parser.short)[0], choices(option.kind)
        if clause in names:
            clause = ", ".join(names)
        if len(flag) > _COLUMN - 4 and names:
            flag, clause = f"{flag.split()[0]} NAME", f"{clause}: {', '.join(names)}"
        lines.append(_line(flag, clause, _default(option)))
    more = f"'vit {parser.command} --help all' shows all options{' in full' * (not parser.main)}"
    more += ", --print_schema their JSON schema" * parser.takes_files
    more += f", --help SECTION those of {', '.join(parser.sections)}" if parser.sections else ""
    return "\n".join([*lines, "", *wrap(f"{more}.", WIDTH), *_example(parser)])


def _line(flag: str, text: str, default: str) -> str:
    """An option in one line, whose text is cut where it is too long."""
    default = f" [{default}]" if default else ""
    start = f"  {flag:<{_COLUMN - 4}}  "
    room = WIDTH - len(start) - len(default)
    if len(text) > room:
        text = f"{text[: text.rindex(' ', 0, room - 3)]} ..."
    return f"{start}{text}{default}".rstrip()


def _in_full(parser: CommandOptions, options: Iterable[Option], section: str) -> str:
    lines = [*_usage(parser), *wrap(parser.sections[section] if section else parser.about, WIDTH)]
    title = None
    for option in options:
        if option.section != title and not option.is_positional:
            title = option.section
            lines += ["", f"{title or 'options'}:"] if not section else [""]
        elif title is None:
            lines += [""]
        default = _default(option)
        text = option.about + (f" [{default}]" if default else "")
        lines.append(f"  {', '.join(_flags(option, parser.short))}")
        lines += wrap(text, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join([*lines, *_example(parser)])


def _example(parser: CommandOptions) -> list[str]:
    return ["", *wrap(f"example: {parser.example}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)]


def _flags(option: Option, short: Mapping[str, str]) -> list[str]:
    """The spellings of an option, each with the word for its value; a mapping also has one for its key `name`."""
    if option.is_positional:
        return [_metavar(option)]
    value = "" if option.is_flag else f" {_metavar(option)}"
    is_mapping = mapping_type(option.kind) is not None and len(union_members(option.kind)) == 1
    full_name = f"--{option.name}.KEY VALUE" if is_mapping else f"--{option.name}{value}"
    names = [flag for flag, dotted in short.items() if dotted == f"--{option.name}"]
    of_key = [f"{flag} NAME" for flag, dotted in short.items() if dotted == f"--{option.name}.name"]
    return [*(f"{name}{value}" for name in names), *of_key, full_name]


def _metavar(option: Option) -> str:
    """The word for a value: what is given, or the values where they are few."""
    if option.metavar or option.is_positional:
        return option.metavar or option.name.upper()
    names = "|".join(choices(option.kind))
    is_number = any(getattr(member, "__origin__", member) in (int, float) for member in union_members(option.kind))
    if names and len(names) <= _LONGEST_CHOICES:
        return f"N|{names}" if is_number else names
    return "N" if is_number else "VALUE"


def _default(option: Option, key: str = "") -> str:
    value = option.default.get(key) if key else option.default
    if value is REQUIRED:
        return "required" if not option.is_positional else ""
    if value is None or value is False or value in ("", [], (), {}):
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    return str(value).lower() if value is True else str(value)


def schema_text(parser: CommandOptions) -> str:
    """The JSON schema of a command's files as text: types, ranges, defaults and texts of its options."""
    options = [option for option in parser.shown if option.name not in OF_COMMAND]
    title = f"A file for 'vit {parser.command} --config'"
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title}
    return json.dumps({**head, **_section(options, parser, ""), "type": "object"}, indent=1)


def _section(options: Sequence[Option], parser: CommandOptions, beginning: str) -> dict[str, Any]:
    """The schema of the options whose names begin with a section and its dot; an empty section is null to YAML."""
    properties: dict[str, Any] = {}
    for option in options:
        name, _, rest = option.name.removeprefix(beginning).partition(".")
        if not rest:
            default = {} if option.default is REQUIRED else {"default": option.default}
            properties[name] = {"description": option.about, **_schema(option.kind), **default}
        elif name not in properties:
            inside = f"{beginning}{name}."
            below = [other for other in options if other.name.startswith(inside)]
            about = parser.sections.get(inside.rstrip("."), "")
            properties[name] = ({"description": about} if about else {}) | _section(below, parser, inside)
    dotted = {r"\.": True}  # "optim.lr" in one word is checked by vit itself
    rules = {"patternProperties": dotted, "additionalProperties": False}
    return {"type": ["object", "null"], "properties": properties, **rules}


def _schema(kind: Any) -> dict[str, Any]:
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
    return {"type": _TYPES[kind]}
