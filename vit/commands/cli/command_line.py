"""The command line of a function: flags and types from its signature, help from its docstring

A command is a typed function with a Google-style docstring. Parameters before the `*` are positional arguments, and
parameters after the `*` are options. The docstring's Args are the help, and its Example ends the help. Options that
several commands share are the attributes of a dataclass: `**where: Annotated[Any, ExecutorOptions]`.
"""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from operator import or_
from typing import Annotated, Any, ParamSpec, TypeVar, get_args, get_origin

from vit.commands.cli.help_text import ALL, help_text, indented
from vit.commands.cli.option_values import REQUIRED, union_members
from vit.commands.cli.options import Option, docstring_arguments, options_of
from vit.commands.cli.parser import Parser
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
        action, arguments = _split_action(command, arguments, name)
        run_command(command[action], arguments, f"{name} {action}")
    else:
        parser = command_parser(command, name)
        command(**parser.with_defaults(parser.read_words(arguments)))


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The same function for Python. A call with a wrong value raises the UsageError of the command line."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        signature = inspect.signature(function)
        values = dict(signature.bind(*args, **kwargs).arguments)
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                values |= values.pop(name, {})
        command_parser(function).read_values(values)
        return function(*args, **kwargs)

    return call


def quietable(function: Callable[..., R]) -> Callable[..., R]:
    """The same function with one more argument, `quiet`: print warnings alone."""

    @wraps(function)
    def call(*args: Any, quiet: bool = False, **kwargs: Any) -> R:
        with silenced(quiet):
            return function(*args, **kwargs)

    signature = inspect.signature(function)
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
    if arguments and arguments[0] in ("--help", "-h"):
        print(_help_of_actions(actions, name, is_whole=arguments[1:] == [ALL]))
        raise SystemExit(0)
    if arguments and arguments[0] in actions:
        return arguments[0], arguments[1:]
    problem = f"vit {name} has no action {arguments[0]!r}" if arguments else f"vit {name} needs an action"
    known = nearest(arguments[0] if arguments else "", actions)
    example = command_parser(next(iter(actions.values()))).example
    raise UsageError(problem, f"{known}, as in '{example}'")


def _help_of_actions(actions: Mapping[str, Function], name: str, is_whole: bool) -> str:
    parsers = [command_parser(function, f"{name} {action}") for action, function in actions.items()]
    if is_whole:
        return "\n\n".join(help_text(parser, ALL) for parser in parsers)
    lines = [f"usage: vit {name} ACTION ... [options]", ""]
    for action, parser in zip(actions, parsers, strict=True):
        lines += [f"vit {name} {action}:", *indented(parser.about), *indented(f"example: {parser.example}"), ""]
    return "\n".join([*lines, f"'vit {name} ACTION --help' shows the options of an action."])


def _option(parameter: inspect.Parameter, about: str) -> Option:
    """The argument of a parameter. A path is a text, and a sequence takes its items one after the other."""
    annotation, metavar = parameter.annotation, ""
    if get_origin(annotation) is Annotated and isinstance(get_args(annotation)[1], Metavar):
        annotation, metavar = get_args(annotation)[0], get_args(annotation)[1].word
    members = union_members(annotation)
    sequences = [get_args(member)[0] for member in members if get_origin(member) is Sequence]
    kinds = union_members(sequences[0]) if sequences else members
    return Option(
        parameter.name,
        reduce(or_, [kind for kind in kinds if get_origin(kind) is not os.PathLike]),
        about,
        [] if sequences and parameter.default is not REQUIRED else parameter.default,
        metavar,
        is_positional=parameter.kind is not parameter.KEYWORD_ONLY,
        takes_several=bool(sequences),
    )
