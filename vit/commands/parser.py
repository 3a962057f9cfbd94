"""Options of a command: their values from words, YAML and Python, and errors that name the nearest option"""

import inspect
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, get_type_hints

from vit.commands.help_text import docstring_arguments, help_text
from vit.commands.option_values import REQUIRED, mapping_type, read_value, read_word
from vit.errors import UsageError, close_name

_NO_STOPPING = "there is no early stopping: best.ckpt keeps the best weights of all epochs; give --epochs or --time"
_ONE_FOLDER = "give one folder DATA, with train/, val/ and test/ in it, or a CSV with the column split"
OF_OTHERS = {  # options of other programs that have no counterpart here, and what to do
    "patience": _NO_STOPPING, "early_stopping": _NO_STOPPING,
    "val_dir": _ONE_FOLDER, "val_data": _ONE_FOLDER, "test_dir": _ONE_FOLDER,
}  # fmt: skip
SAME = {  # options of other programs, and their names here
    "imgsz": "image_size", "img_size": "image_size", "batch": "batch_size", "arch": "network", "model": "network",
    "pretrained": "init_from", "workers": "num_workers", "output_dir": "out", "val": "validation", "opt": "optimizer",
}  # fmt: skip
OF_SECTION = "give its options one by one"  # the fix for a section with a value


@dataclass(frozen=True)
class Option:
    """An option of a command, or a positional argument.

    Attributes:
        name: name with the sections before it, such as "optim.lr".
        kind: type of its values.
        about: text of the help.
        default: its value where none is given; REQUIRED: it must be given.
        metavar: word for its value in the help; empty: one that its type says.
        is_positional: whether it is given without its name.
        takes_several: whether each word is one item of a list; an option is then repeated.
        is_hidden: whether the command refuses it, so that the help does not show it.
    """

    name: str
    kind: Any
    about: str = ""
    default: Any = REQUIRED
    metavar: str = ""
    is_positional: bool = False
    takes_several: bool = False
    is_hidden: bool = False

    @property
    def is_flag(self) -> bool:
        """Whether its value may be left out, and is then true."""
        return self.kind is bool and self.default is False

    @property
    def section(self) -> str:
        """The section of a recipe that the option belongs to; empty: none."""
        return self.name.partition(".")[0] if "." in self.name else ""


@dataclass(frozen=True)
class Parser:
    """The arguments of a command.

    Attributes:
        command: name of the command, with its action.
        about: what the command does.
        example: a command line.
        options: positional arguments in their order, and options.
        short: other spellings of options on the command line, and the flags that they stand for.
        main: groups of options of the first help, with texts of one line by flag; empty: all options.
        sections: texts of sections of options, by name.
    """

    command: str
    about: str
    example: str
    options: tuple[Option, ...]
    short: Mapping[str, str] = field(default_factory=dict)
    main: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> dict[str, Option]:
        """Options and positional arguments by name."""
        return {option.name: option for option in self.options}

    @property
    def hint(self) -> str:
        """Where all options are, for the `fix` of an error."""
        return f"see 'vit {self.command} --help{' all' * bool(self.main)}'"

    def changed(self, changes: Mapping[str, Mapping[str, Any]]) -> "Parser":
        """The same parser where options have other attributes, by name."""
        options = tuple(replace(option, **changes.get(option.name, {})) for option in self.options)
        return replace(self, options=options)

    def without(self, names: Iterable[str], sections: Iterable[str] = ()) -> "Parser":
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

    def read_words(self, words: Sequence[str]) -> dict[str, Any]:
        """The values that a command line gives, by name; `--help` prints the help and ends the program.

        Raises:
            UsageError: a word is unknown, or not a value of its option.
        """
        values: dict[str, Any] = {}
        rest = deque(words)
        flag_before: Option | None = None  # an option without a value directly before the word
        waiting = deque(option for option in self.options if option.is_positional)
        while rest:
            word = rest.popleft()
            if word in ("--help", "-h"):
                print(help_text(self, rest.popleft() if rest and not rest[0].startswith("-") else ""))
                raise SystemExit(0)
            if word == "--":
                for text in rest:
                    self._take(text, waiting, values)
                break
            if not word.startswith("-") or word == "-":
                if flag_before and not waiting:
                    raise UsageError(f"{flag_before.name} is {word}", "give true or false, or no value")
                self._take(word, waiting, values)
                flag_before = None
                continue
            if waiting and waiting[0].takes_several and waiting[0].name in values:
                waiting.popleft()  # words after an option are not further items
            flag, equals, text = word.partition("=")
            option, key = self.find(flag.removeprefix("--")) or (None, "")
            if option is None or option.is_positional or not flag.startswith("--"):
                raise self.unknown(flag)
            is_next = False
            if not equals:
                is_next = bool(rest) and (
                    rest[0] in ("true", "false") if option.is_flag else not rest[0].startswith("--")
                )
                if not is_next and not option.is_flag:
                    raise UsageError(f"{flag} needs a value", self.hint)
                text = rest.popleft() if is_next else "true"
            flag_before = option if option.is_flag and not equals and not is_next else None
            _store(values, option, key, text)
        return values

    def read_tree(self, tree: Mapping[str, Any], beginning: str = "") -> dict[str, Any]:
        """The values of a YAML file by name, where an empty section has none.

        Args:
            tree: sections and options with their values.
            beginning: name of the section with its dot.

        Raises:
            UsageError: an option is unknown or has a wrong value.
        """
        values: dict[str, Any] = {}
        for key, value in tree.items():
            name = f"{beginning}{key}"
            option = self.by_name.get(name)
            is_section = any(other.startswith(f"{name}.") for other in self.by_name)
            if value is None and (is_section or (option is not None and mapping_type(option.kind) is not None)):
                continue
            if option is not None:
                values[name] = read_value(option.kind, value, name)
            elif not is_section:
                inner = next(iter(value), "") if isinstance(value, dict) else ""
                raise self.unknown(f"{name}.{inner}" if inner else name)
            elif isinstance(value, dict):
                values |= self.read_tree(value, f"{name}.")
            else:
                raise UsageError(f"{name} is {value}", OF_SECTION)
        return values

    def read_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of Python by name, also of keys of mappings ("data.root"); errors as those of `read_tree`."""
        checked: dict[str, Any] = {}
        for given, value in values.items():
            option, key = self.find(given) or (None, "")
            if option is None:
                raise self.unknown(f"--{given}")
            if key:
                item = read_value(mapping_type(option.kind), value, f"{option.name}.{key}")
                checked[option.name] = {**checked.get(option.name, {}), key: item}
            elif option.takes_several:
                items = [value] if isinstance(value, str | os.PathLike) else value
                checked[option.name] = [read_value(option.kind, item, option.name) for item in items]
            else:
                checked[option.name] = read_value(option.kind, value, option.name)
        return checked

    def with_defaults(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values with the defaults of all other options; UsageError where a value is missing."""
        missing = [option.name for option in self.options if option.default is REQUIRED and option.name not in values]
        if missing:
            raise UsageError(f"the following arguments are required: {', '.join(missing)}", self.hint)
        return {option.name: values.get(option.name, option.default) for option in self.options}

    def unknown(self, given: str) -> UsageError:
        """The error for an unknown option, a flag or the key of a file, with the nearest one."""
        name, is_flag = given.removeprefix("--"), given.startswith("-")
        above = self.by_name.get(name.rpartition(".")[0])
        if above is not None and not above.is_positional:
            return UsageError(f"{above.name} has no options of its own", f"give its value: --{above.name} VALUE")
        if name in self.sections:
            return UsageError(f"vit {self.command} has no option {given}", f"see 'vit {self.command} --help {name}'")
        fix = OF_OTHERS.get(name) or self._nearest(given, is_flag)
        dotted = self.short.get(f"--{name}", "").removeprefix("--")
        if dotted and not is_flag:
            *sections, key = dotted.split(".")
            below = " and ".join(f"'{section}:'" for section in sections)
            fix = f"give {dotted}, in a file the key {key!r} below {below}"
        return UsageError(f"vit {self.command} has no option {given}", fix)

    def _nearest(self, given: str, is_flag: bool) -> str:
        """The option that is spelled almost as a word, whole or after its last dot; else where all options are."""
        names = [option.name for option in self.options if not option.is_positional and not option.is_hidden]
        if is_flag:
            hidden = {f"--{option.name}" for option in self.options if option.is_hidden}
            names = [f"--{name}" for name in names] + [flag for flag, own in self.short.items() if own not in hidden]
        word = given.removeprefix("--").rpartition(".")[2]
        ends = {name.removeprefix("--").rpartition(".")[2]: name for name in sorted(names, key=len, reverse=True)}
        close = ends.get(SAME.get(word, word)) or close_name(given, names) or ends.get(close_name(word, ends) or "")
        return self.hint if close in (None, given) else f"did you mean {close!r}?"

    def _take(self, word: str, waiting: "deque[Option]", values: dict[str, Any]) -> None:
        """Store a positional argument."""
        if not waiting:
            data = next((option for option in self.options if option.is_positional and option.metavar == "DATA"), None)
            problem = f"vit {self.command} cannot use the word {word!r}"
            if data is not None and data.name in values:
                problem = f"DATA is given twice: {values[data.name]!r} and {word!r}"
            raise UsageError(problem, "quote a path that has spaces")
        _store(values, waiting[0] if waiting[0].takes_several else waiting.popleft(), "", word)


def _store(values: dict[str, Any], option: Option, key: str, word: str) -> None:
    """Store the value of a word; a key adds to the mapping of its option."""
    if key:
        item = read_word(mapping_type(option.kind), word, f"{option.name}.{key}")
        mapping = values.get(option.name)
        values[option.name] = {**(mapping if isinstance(mapping, dict) else {}), key: item}
    elif option.takes_several:
        values.setdefault(option.name, []).append(read_word(option.kind, word, option.name))
    else:
        values[option.name] = read_word(option.kind, word, option.name)


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
