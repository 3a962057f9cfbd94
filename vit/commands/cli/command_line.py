"""Command lines: values of options from words, YAML and Python, and the command line of a function

A command is a typed function with a Google-style docstring. Parameters before the `*` are positional arguments, and
parameters after the `*` are options. The docstring's Args are the help, and its Example ends the help. Options that
several commands share are the attributes of a dataclass: `**where: Annotated[Any, ExecutorOptions]`.
"""

import inspect
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from operator import or_
from typing import Annotated, Any, TypeVar, get_args, get_origin

from vit.commands.cli.help_text import ALL, CommandOptions, help_text, indented, schema_text
from vit.console import silenced
from vit.errors import UsageError, close_name, explained, nearest
from vit.options import (
    REQUIRED,
    Option,
    docstring_arguments,
    mapping_type,
    options_of,
    read_value,
    read_word,
    union_members,
)

R = TypeVar("R")
Function = Callable[..., object]
Command = Function | Mapping[str, Function]  # one function, or one for each action, such as `vit data check`
SCHEMA = "--print_schema"
_ONE_FOLDER = "give one folder DATA, with train/, val/ and test/ in it, or a CSV with the column split"
_OF_OTHERS = dict.fromkeys(("val_dir", "val_data", "test_dir"), _ONE_FOLDER)  # options that have no counterpart here
_SAME = {  # options of other programs, and their names here
    "imgsz": "image_size", "img_size": "image_size", "batch": "batch_size", "arch": "network", "model": "network",
    "pretrained": "init_from", "workers": "num_workers", "output_dir": "out", "val": "validation", "opt": "optimizer",
    "early_stopping": "patience", "sort": "sort_into",
}  # fmt: skip


class Parser(CommandOptions):
    """Reads the options of a command."""

    def read_words(self, words: Sequence[str]) -> dict[str, Any]:
        """The values that a command line gives, by name; `--help` and `--print_schema` print and end the program."""
        values: dict[str, Any] = {}
        rest = deque(words)
        flag_before: Option | None = None  # an option without a value directly before the word
        waiting = deque(option for option in self.options if option.is_positional)
        while rest:
            word = rest.popleft()
            if word in ("--help", "-h"):
                print(help_text(self, rest.popleft() if rest and not rest[0].startswith("-") else ""))
                raise SystemExit(0)
            if word == SCHEMA and self.takes_files:
                print(schema_text(self))
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
            has_value = bool(equals)
            if not has_value:
                following = rest[0] if rest else "--"
                has_value = following in ("true", "false") if option.is_flag else not following.startswith("--")
                if not has_value and not option.is_flag:
                    raise UsageError(f"{flag} needs a value", self.hint)
                text = rest.popleft() if has_value else "true"
            flag_before = None if has_value else option
            _store(values, option, key, text)
        return values

    def read_tree(self, tree: Mapping[str, Any], beginning: str = "") -> dict[str, Any]:
        """The values of a YAML file by name, below a section that ends with a dot; an empty section has none."""
        values: dict[str, Any] = {}
        for key, value in tree.items():
            name = f"{beginning}{key}"
            option = self.by_name.get(name)
            is_section = option is None and any(other.startswith(f"{name}.") for other in self.by_name)
            if value is None and (is_section or (option is not None and mapping_type(option.kind) is not None)):
                continue
            if option is not None:
                inner = {name: read_value(option.kind, value, name)}
            elif not is_section:
                first = next(iter(value), "") if isinstance(value, dict) else ""
                raise self.unknown(f"{name}.{first}" if first else name)
            elif isinstance(value, dict):
                inner = self.read_tree(value, f"{name}.")
            else:
                raise UsageError(f"{name} is {value}", "give its options one by one")
            for twice in values.keys() & inner.keys():  # once in its section, once with a dot
                raise UsageError(f"{twice} is given twice", "keep one of the two")
            values |= inner
        return values

    def read_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of Python by name, also of keys of mappings ("data.root"); errors as those of `read_tree`."""

        def read(kind: Any, value: object, name: str) -> Any:
            return read_value(kind, value, f"vit.{self.command}: {name}")

        checked: dict[str, Any] = {}
        for name, value in values.items():
            option, key = self.find(name) or (None, "")
            if option is None:
                raise self.unknown(f"--{name}" if self.short else name)
            is_list = not isinstance(value, str | os.PathLike) and isinstance(value, Iterable)
            if option.takes_several and is_list:
                checked[option.name] = [read(option.kind, item, option.name) for item in value]
            else:
                _store(checked, option, key, value, read)
        return checked

    def with_defaults(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values with the defaults of all other options; UsageError where a value is missing."""
        required = [option for option in self.options if option.default is REQUIRED and option.name not in values]
        missing = ["--" * (not option.is_positional) + option.name for option in required]
        if missing:
            raise UsageError(f"the following arguments are required: {', '.join(missing)}", self.hint)
        return {option.name: values.get(option.name, option.default) for option in self.options}

    def unknown(self, given: str) -> UsageError:
        """The error for an unknown option, a flag or the key of a file, with the nearest one."""
        name, is_flag = given.removeprefix("--"), given.startswith("-")
        above = self.by_name.get(name.rpartition(".")[0])
        if above is not None and not above.is_positional:
            return UsageError(f"{above.name} has no options of its own", f"give its value: --{above.name} VALUE")
        dotted = self.short.get(f"--{name}", "").removeprefix("--")
        fix = _OF_OTHERS.get(name) or self._nearest(given, is_flag)
        if name in self.sections:
            fix = f"see 'vit {self.command} --help {name}'"
        elif dotted and not is_flag:
            *sections, key = dotted.split(".")
            below = " and ".join(f"'{section}:'" for section in sections)
            fix = f"give {dotted}, in a file the key {key!r} below {below}"
        return UsageError(f"vit {self.command} has no option {given}", fix)

    def _nearest(self, typed: str, is_flag: bool) -> str:
        """The option that is spelled almost as a word, whole or after its last dot; else where all options are."""
        names = [option.name for option in self.shown if not option.is_positional]
        if is_flag:
            hidden = {f"--{option.name}" for option in self.options if option.is_hidden}
            names = [f"--{name}" for name in names] + [flag for flag, long in self.short.items() if long not in hidden]
        word = typed.removeprefix("--").rpartition(".")[2]
        ends = {name.removeprefix("--").rpartition(".")[2]: name for name in sorted(names, key=len, reverse=True)}
        close = ends.get(_SAME.get(word, word)) or close_name(typed, names) or ends.get(close_name(word, ends) or "")
        return self.hint if close in (None, typed) else f"did you mean {close!r}?"

    def _take(self, word: str, waiting: "deque[Option]", values: dict[str, Any]) -> None:
        if not waiting:
            data = next((option for option in self.options if option.is_positional and option.metavar == "DATA"), None)
            problem = f"vit {self.command} cannot use the word {word!r}"
            if data is not None and data.name in values:
                problem = f"DATA is given twice: {values[data.name]!r} and {word!r}"
            raise UsageError(problem, "quote a path with spaces; further values follow a comma, or the option again")
        _store(values, waiting[0] if waiting[0].takes_several else waiting.popleft(), "", word)


def _store(
    values: dict[str, Any], option: Option, key: str, value: Any, read: Callable[[Any, Any, str], Any] = read_word
) -> None:
    """Store the value of an option, as `read` takes it; a key adds to the mapping of the option."""
    name = option.name
    shown = f"--{name}" if read is read_word and not option.is_positional else name
    if key:
        mapping = values.get(name)
        item = read(mapping_type(option.kind), value, f"{shown}.{key}")
        values[name] = {**(mapping if isinstance(mapping, dict) else {}), key: item}
    elif option.takes_several:
        values.setdefault(name, []).append(read(option.kind, value, shown))
    else:
        values[name] = read(option.kind, value, shown)


@dataclass(frozen=True)
class Metavar:
    """The word for an argument in the help, given as `Annotated[type, Metavar("RUN|CKPT")]`."""

    word: str


def run_command(command: Command, arguments: Sequence[str], name: str = "") -> None:
    """Call a command with the values of the words after its name; empty: the name of the function."""
    if isinstance(command, Mapping):
        action, arguments = _split_action(command, arguments, name)
        run_command(command[action], arguments, f"{name} {action}")
    else:
        parser = command_parser(command, name)
        command(**parser.with_defaults(parser.read_words(arguments)))


def for_python(function: Callable[..., R], is_checked: bool) -> Callable[..., R]:
    """The same function with one more argument, `quiet`: print warnings alone.

    With `is_checked`, a call with a wrong value raises the UsageError of the command line, and the function gets plain
    values. Other functions check their values themselves.
    """
    signature = inspect.signature(function)
    positional = [name for name, one in signature.parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    fix = f"give {', '.join(positional)}, and options by name"

    @wraps(function)
    def call(*args: Any, quiet: bool = False, **kwargs: Any) -> R:
        parser = command_parser(function) if is_checked else None
        if parser is not None:
            kwargs = parser.read_values(kwargs)  # names the option that is meant, where Python would raise a TypeError
        with explained(UsageError, f"vit.{function.__name__}", fix, TypeError):
            values = dict(signature.bind(*args, **kwargs).arguments)
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                values |= values.pop(name, {})
        if parser is not None:
            values = parser.read_values(values)
        with silenced(quiet):
            return function(**values)

    quiet_parameter = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    parameters = sorted([*signature.parameters.values(), quiet_parameter], key=lambda parameter: parameter.kind)
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def command_parser(function: Function, name: str = "") -> Parser:
    """A parser with an argument for each parameter of a function."""
    text = inspect.getdoc(function) or ""
    about, example = " ".join(text.partition("\nArgs:")[0].split()), " ".join(text.partition("Example:\n")[2].split())
    abouts = docstring_arguments(text)
    options: list[Option] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            options += options_of(get_args(parameter.annotation)[1])
        else:
            options.append(_option(parameter, abouts[parameter.name]))
    return Parser(name or function.__name__, about, example, tuple(options))


def _split_action(actions: Mapping[str, Function], arguments: Sequence[str], name: str) -> tuple[str, Sequence[str]]:
    """The action that the first word names, and the other words; where help is asked, it is printed."""
    if arguments and arguments[0] in actions:
        return arguments[0], arguments[1:]
    parsers = {action: command_parser(function, f"{name} {action}") for action, function in actions.items()}
    if not arguments or arguments[0] not in ("--help", "-h"):
        problem = f"vit {name} has no action {arguments[0]!r}" if arguments else f"vit {name} needs an action"
        known = nearest(arguments[0] if arguments else "", actions)
        raise UsageError(problem, f"{known}, as in '{next(iter(parsers.values())).example}'")
    if arguments[1:] == [ALL]:
        print("\n\n".join(help_text(parser, ALL) for parser in parsers.values()))
        raise SystemExit(0)
    lines = [f"usage: vit {name} ACTION ... [options]", ""]
    for action, parser in parsers.items():
        lines += [f"vit {name} {action}:", *indented(parser.about), *indented(f"example: {parser.example}"), ""]
    print("\n".join([*lines, f"'vit {name} ACTION --help' shows the options of an action."]))
    raise SystemExit(0)


def _option(parameter: inspect.Parameter, about: str) -> Option:
    """The argument of a parameter. A path is a text, and a sequence takes its items one after the other."""
    annotation, metavar = parameter.annotation, ""
    if get_origin(annotation) is Annotated and isinstance(get_args(annotation)[1], Metavar):
        annotation, metavar = get_args(annotation)[0], get_args(annotation)[1].word
    members = union_members(annotation)
    sequences = [get_args(member)[0] for member in members if get_origin(member) is Sequence]
    kinds = union_members(sequences[0]) if sequences else members
    kind = reduce(or_, [one for one in kinds if get_origin(one) is not os.PathLike])
    default = [] if sequences and parameter.default is not REQUIRED else parameter.default
    is_positional = parameter.kind is not parameter.KEYWORD_ONLY
    return Option(parameter.name, kind, about, default, metavar, is_positional, takes_several=bool(sequences))
