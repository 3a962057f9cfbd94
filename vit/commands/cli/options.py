"""Options of a command: what a signature or a dataclass says of each, and what its docstring tells"""

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Self, get_type_hints

from vit.commands.cli.option_values import REQUIRED, mapping_type


@dataclass(frozen=True)
class Option:
    """An option of a command, or a positional argument."""

    name: str  # name with the sections before it, such as "optim.lr"
    kind: Any  # type of its values
    about: str = ""  # text of the help
    default: Any = REQUIRED  # its value where none is given; REQUIRED: it must be given
    metavar: str = ""  # word for its value in the help; empty: one that its type says
    is_positional: bool = False  # whether it is given without its name
    takes_several: bool = False  # whether each word is one item of a list; an option is then repeated
    is_hidden: bool = False  # whether the command refuses it, so that the help does not show it

    @property
    def is_flag(self) -> bool:
        """Whether its value may be left out, and is then true."""
        return self.kind is bool and self.default is False

    @property
    def section(self) -> str:
        """The section of a recipe that the option belongs to; empty: none."""
        return self.name.partition(".")[0] if "." in self.name else ""


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


def docstring_arguments(text: str) -> dict[str, str]:
    """The texts of arguments or attributes of a Google-style docstring without indentation, each as one line."""
    texts: dict[str, str] = {}
    name = ""
    is_inside = False
    for line in text.splitlines():
        if line.strip() and not line.startswith(" "):
            is_inside = line in ("Args:", "Attributes:")
        elif is_inside and (found := re.match(r" {4}(\w+): (.*)", line)):
            name = found[1]
            texts[name] = found[2].strip()
        elif is_inside and line.strip():
            texts[name] += f" {line.strip()}"
    return texts


def options_of(kind: type, section: str = "") -> list[Option]:
    """An option for each attribute of a dataclass and of the dataclasses in it, with the text of its docstring.

    Args:
        section: name before each option with its dot; empty: none.
    """
    abouts: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        abouts |= docstring_arguments(inspect.getdoc(base) or "")
    hints = get_type_hints(kind, include_extras=True)
    options: list[Option] = []
    for item in fields(kind):
        name, default = f"{section}{item.name}", REQUIRED if item.default is MISSING else item.default
        if is_dataclass(hints[item.name]):
            options += options_of(hints[item.name], f"{name}.")
            continue
        if item.default_factory is not MISSING:
            default = item.default_factory()
        options.append(Option(name, hints[item.name], abouts.get(item.name, ""), default))
    return options
