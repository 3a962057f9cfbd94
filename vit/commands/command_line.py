"""The command line of a function: flags and types from its signature, help from its docstring

A command is a typed function with a Google-style docstring. Parameters before the `*` are positional arguments, and
parameters after the `*` are options. The docstring's Args are the help, and its Example ends the help.
"""

import inspect
import os
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Union, get_args, get_origin

from vit.commands.parser import Parser
from vit.errors import UsageError, nearest

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


def _chosen(actions: Mapping[str, Function], arguments: Sequence[str], name: str) -> tuple[str, Sequence[str]]:
    """The action that the first word names, and the other words; the help of the first action where help is asked."""
    first = next(iter(actions))
    if arguments and arguments[0] in ("--help", "-h"):
        return first, arguments
    if not arguments:
        raise UsageError(f"vit {name} needs an action", f"{nearest('', actions)}, as in 'vit {name} {first} photos/'")
    if arguments[0] not in actions:
        problem = f"vit {name} has no action {arguments[0]!r}"
        raise UsageError(problem, f"{nearest(arguments[0], actions)}, as in 'vit {name} {first} photos/'")
    return arguments[0], arguments[1:]


def command_parser(function: Function, name: str = "") -> Parser:
    """A parser with an argument for each parameter of a function.

    A dataclass as a parameter's type becomes a group of options: `--NAME.FIELD`.
    """
    from docstring_parser import DocstringStyle
    from docstring_parser import parse as parse_docstring

    text = parse_docstring(inspect.getdoc(function) or "", style=DocstringStyle.GOOGLE)
    about = {param.arg_name: _one_line(param.description).replace("%", "%%") for param in text.params}
    example = " ".join(_one_line(one.description) for one in text.examples)
    parser = Parser(name or function.__name__, _one_line(text.description), example)
    for parameter in inspect.signature(function).parameters.values():
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
            parser.add_class_arguments(parameter.annotation, parameter.name)
        else:
            _add_argument(parser, parameter, about[parameter.name])
    return parser


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _add_argument(parser: Parser, parameter: inspect.Parameter, about: str) -> None:
    """Add the argument of one parameter: positional, an option, or a flag."""
    annotation, metavar = parameter.annotation, None
    if get_origin(annotation) is Annotated:
        annotation, named = get_args(annotation)
        metavar = named.word
    kind, several = _accepted(annotation)
    options: dict[str, Any] = {"type": kind, "help": about}
    required = parameter.default is parameter.empty
    if parameter.kind is parameter.KEYWORD_ONLY:
        words = f"--{parameter.name}"
        options |= {"required": True} if required else {"default": parameter.default}
        if kind is bool:
            options |= {"nargs": "?", "const": True}
    else:
        words, metavar = parameter.name, metavar or parameter.name.upper()
        if several:
            options |= {"nargs": "+"} if required else {"nargs": "*", "default": []}
        elif not required:
            options |= {"nargs": "?", "default": parameter.default}
    parser.add_argument(words, **options, **({"metavar": metavar} if metavar else {}))


def _accepted(annotation: Any) -> tuple[Any, bool]:
    """(type of a value on the command line, whether several values are taken).

    A path is a text there, and a sequence is its items one after the other.
    """
    members = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    sequences = [member for member in members if get_origin(member) is Sequence]
    if sequences:
        return _accepted(get_args(sequences[0])[0])[0], True
    return reduce(or_, (member for member in members if get_origin(member) is not os.PathLike)), False
