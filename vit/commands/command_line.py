"""The command line of a function: flags and types from its signature, help from its docstring

A command is a typed function with a Google-style docstring. Parameters before the `*` are positional arguments, and
parameters after the `*` are options. The docstring's Args are the help, and its Example ends the help. Options that
several commands share are the attributes of a dataclass: `**where: Annotated[Any, ExecutorOptions]`.
"""

import inspect
import os
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from operator import or_
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin

from vit.commands.parser import Parser
from vit.console import silenced
from vit.errors import UsageError, nearest

P = ParamSpec("P")
R = TypeVar("R")
Function = Callable[..., object]
Command = Function | Mapping[str, Function]  # one function, or one for each action, such as `vit data check`


@dataclass(frozen=True)
class Metavar:
    """The word for an argument in the help, given as `Annotated[type, Metavar("RUN|CKPT")]`."""

    word: str


def run_command(command: Command, arguments: Sequence[str], name: str = "") -> None:
    """Call a command with the values of a command line.

    Args:
        command: function of the command; or functions of its actions by name.
        arguments: words after the name of the command.
        name: name of the command; empty: name of the function.

    Raises:
        UsageError: an argument is unknown, missing, or has a wrong value.
        VitError: the command failed.
    """
    if isinstance(command, Mapping):
        action, arguments = _chosen(command, arguments, name)
        run_command(command[action], arguments, f"{name} {action}")
    else:
        command(**command_parser(command, name).values(arguments))


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The same function for Python. A call with a wrong value raises the UsageError of the command line."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        signature = inspect.signature(function)
        given = dict(signature.bind(*args, **kwargs).arguments)
        shared = [name for name, one in signature.parameters.items() if one.kind is one.VAR_KEYWORD]
        more = {name: value for group in shared for name, value in given.pop(group, {}).items()}
        values = {name: _as_words(signature.parameters[name].annotation, value) for name, value in given.items()} | more
        command_parser(function).parse_object(values)
        return function(*args, **kwargs)

    return call


def quietable(function: Callable[..., R]) -> Callable[..., R]:
    """The same function with one more argument, `quiet`: print warnings alone."""

    @wraps(function)
    def call(*args: Any, quiet: bool = False, **kwargs: Any) -> R:
        with silenced(quiet):
            return function(*args, **kwargs)

    signature = inspect.signature(function)
    mine = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    parameters = sorted([*signature.parameters.values(), mine], key=lambda one: one.kind)
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def command_parser(function: Function, name: str = "") -> Parser:
    """A parser with an argument for each parameter of a function."""
    text = _Documentation.of(function)
    parser = Parser(name or function.__name__, text.description, text.example)
    for parameter in inspect.signature(function).parameters.values():
        _add_argument(parser, parameter, text.arguments[parameter.name])
    return parser


@dataclass(frozen=True)
class _Documentation:
    """The parts of a docstring, each as one line."""

    description: str
    arguments: Mapping[str, str]
    example: str

    @classmethod
    def of(cls, function: Function) -> "_Documentation":
        from docstring_parser import DocstringStyle, parse

        text = parse(inspect.getdoc(function) or "", style=DocstringStyle.GOOGLE)
        arguments = {one.arg_name: _one_line(one.description) for one in text.params}
        return cls(
            _one_line(text.description), arguments, " ".join(_one_line(one.description) for one in text.examples)
        )


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _chosen(actions: Mapping[str, Function], arguments: Sequence[str], name: str) -> tuple[str, Sequence[str]]:
    """The action that the first word names, and the other words; where help is asked, it is printed."""
    first = next(iter(actions))
    if arguments and arguments[0] in ("--help", "-h"):
        for action, function in actions.items():
            print(command_parser(function, f"{name} {action}").format_help())
        raise SystemExit(0)
    if arguments and arguments[0] in actions:
        return arguments[0], arguments[1:]
    problem = f"vit {name} has no action {arguments[0]!r}" if arguments else f"vit {name} needs an action"
    known = nearest(arguments[0] if arguments else "", actions)
    raise UsageError(problem, f"{known}, as in '{_Documentation.of(actions[first]).example}'")


def _add_argument(parser: Parser, parameter: inspect.Parameter, about: str) -> None:
    """Add the argument of one parameter: positional, an option, or a flag; of a dataclass that of each attribute."""
    if parameter.kind is parameter.VAR_KEYWORD:
        parser.add_class_arguments(get_args(parameter.annotation)[1], None)
        return
    metavar = _metavar(parameter)
    kind, several = _accepted(parameter.annotation)
    options: dict[str, Any] = {"type": kind, "help": about}
    if metavar:
        options["metavar"] = metavar
    required = parameter.default is parameter.empty
    if parameter.kind is parameter.KEYWORD_ONLY:
        words = f"--{parameter.name}"
        options |= {"required": True} if required else {"default": parameter.default}
        if parameter.default is False:
            options |= {"nargs": "?", "const": True}
    else:
        words = parameter.name
        if several:
            options |= {"nargs": "+"} if required else {"nargs": "*", "default": []}
        elif not required:
            options |= {"nargs": "?", "default": parameter.default}
    parser.add_argument(words, **options)


def _metavar(parameter: inspect.Parameter) -> str | None:
    """The word for an argument in the help; None: the one that the parser chooses for the type of an option."""
    if get_origin(parameter.annotation) is Annotated:
        return str(get_args(parameter.annotation)[1].word)
    return None if parameter.kind is parameter.KEYWORD_ONLY else parameter.name.upper()


def _accepted(annotation: Any) -> tuple[Any, bool]:
    """(type of a value on the command line, whether several values are taken).

    A path is a text there, and a sequence is its items one after the other.
    """
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    sequences = [member for member in members if get_origin(member) is Sequence]
    if sequences:
        return _accepted(get_args(sequences[0])[0])[0], True
    return reduce(or_, (member for member in members if get_origin(member) is not os.PathLike)), False


def _as_words(annotation: Any, value: Any) -> Any:
    """A value of Python as the command line has it."""
    if _accepted(annotation)[1]:
        several = [value] if isinstance(value, str | os.PathLike) else value
        return [os.fspath(one) if isinstance(one, os.PathLike) else one for one in several]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
