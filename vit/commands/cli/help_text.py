"""Help of a command: one screen of its main options, or the full texts of a section or of all options"""

import re
from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import Any

from vit.commands.cli.option_values import REQUIRED, choices, mapping_type, union_members
from vit.commands.cli.options import CommandOptions, Option
from vit.errors import UsageError, nearest

ALL = "all"
WIDTH, SCREEN = 79, 40  # characters of a line, lines of a help that is not asked for in full
_COLUMN = 26  # where the texts of one screen begin
_INDENT = " " * 8  # of a full text
_LONGEST_CHOICES = 48
_FIRST_CLAUSE = re.compile(r"[;:.](?:\s|$)")


def help_text(parser: CommandOptions, wanted: str = "") -> str:
    """The help of a command.

    Args:
        wanted: name of a section, or "all"; empty: one screen.

    Raises:
        UsageError: there is no such section.
    """
    sections = [*parser.sections, ALL]
    if wanted and wanted not in sections:
        raise UsageError(f"--help {wanted}: vit {parser.command} has no such section", nearest(wanted, sections))
    if wanted not in ("", ALL):
        return _in_full(parser, [option for option in _shown(parser) if option.section == wanted], wanted)
    whole = _in_full(parser, _shown(parser), "")
    return whole if wanted or (not parser.main and whole.count("\n") < SCREEN) else _one_screen(parser)


def indented(text: str) -> list[str]:
    """A text in lines of one screen, with a margin."""
    return wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _shown(parser: CommandOptions) -> list[Option]:
    return [option for option in parser.options if not option.is_hidden]


def _usage(parser: CommandOptions) -> list[str]:
    words = [_positional(option) for option in parser.options if option.is_positional]
    has_options = any(not option.is_positional for option in parser.options)
    return [" ".join(["usage: vit", parser.command, *words, *(["[options]"] if has_options else [])]), ""]


def _positional(option: Option) -> str:
    word = f"{_metavar(option)} ..." if option.takes_several else _metavar(option)
    return word if option.default is REQUIRED else f"[{word}]"


def _one_screen(parser: CommandOptions) -> str:
    """The main options, or the first clause of the text of each option, with defaults."""
    lines = [*_usage(parser), *wrap(parser.about, WIDTH, max_lines=3, placeholder=" ..."), ""]
    for title, texts in parser.main.items():
        options = {flag: parser.find(flag.partition(" ")[0].removeprefix("--")) for flag in texts}
        shown = [(flag, texts[flag], found) for flag, found in options.items() if found and not found[0].is_hidden]
        lines += [f"{title}:"] if shown else []
        lines += [_line(flag, text, _default(option, key)) for flag, text, (option, key) in shown]
    if not parser.main:
        for option in _shown(parser):
            clause = _FIRST_CLAUSE.split(option.about)[0]
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
    lines = _usage(parser)
    lines += wrap(parser.sections[section] if section else parser.about, WIDTH)
    title = None
    for option in options:
        if option.section != title and not option.is_positional:
            title = option.section
            lines += ["", f"{title or 'options'}:"] if not section else [""]
        elif title is None:
            lines += [""]
        default = _default(option)
        text = option.about + (f" [{default}]" if default else "")
        lines += [
            f"  {', '.join(_flags(option, parser.short))}",
            *wrap(text, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT),
        ]
    return "\n".join([*lines, *_example(parser)])


def _example(parser: CommandOptions) -> list[str]:
    return ["", *wrap(f"example: {parser.example}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)]


def _flags(option: Option, short: Mapping[str, str]) -> list[str]:
    """The spellings of an option, each with the word for its value; a mapping also has one for its key `name`."""
    if option.is_positional:
        return [_metavar(option)]
    value = "" if option.is_flag else f" {_metavar(option)}"
    is_mapping = mapping_type(option.kind) is not None and len(union_members(option.kind)) == 1
    own = f"--{option.name}.KEY VALUE" if is_mapping else f"--{option.name}{value}"
    names = [flag for flag, dotted in short.items() if dotted == f"--{option.name}"]
    of_key = [f"{flag} NAME" for flag, dotted in short.items() if dotted == f"--{option.name}.name"]
    return [*(f"{name}{value}" for name in names), *of_key, own]


def _metavar(option: Option) -> str:
    """The word for a value: what is given, or the values where they are few."""
    if option.metavar:
        return option.metavar
    if option.is_positional:
        return option.name.upper()
    names = "|".join(choices(option.kind))
    if names and len(names) <= _LONGEST_CHOICES:
        return f"N|{names}" if _is_number(option.kind) else names
    return "N" if _is_number(option.kind) else "VALUE"


def _is_number(kind: Any) -> bool:
    return any(getattr(member, "__origin__", member) in (int, float) for member in union_members(kind))


def _default(option: Option, key: str = "") -> str:
    value = option.default.get(key) if key else option.default
    if value is REQUIRED:
        return "required" if not option.is_positional else ""
    if value is None or value is False or value in ("", [], (), {}):
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    return str(value).lower() if value is True else str(value)
