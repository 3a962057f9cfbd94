"""`vit --print_completion SHELL`: a script by which bash, zsh and fish complete command lines of vit

shtab writes the script from a parser of argparse, so the parsers of all commands are copied into one. The script holds
all words. Pressing TAB therefore starts no Python.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, get_args, get_origin

from vit.commands import study_options
from vit.commands.command_line import command_parser
from vit.commands.configs import shipped_configs
from vit.commands.crossval import crossval_parser
from vit.commands.parser import Parser
from vit.commands.recipe_options import SHORT, make_parser
from vit.data.dataset_names import KNOWN
from vit.errors import UsageError, install, nearest
from vit.models.network_names import OWN, timm_names
from vit.registry import command_module
from vit.training.recipes.pretrain_recipe import PretrainRecipe

SHELLS = ("bash", "zsh", "fish")
_LONGEST = 72  # characters of an option's help
_SAFE = re.compile(r"[\w./+-]+", re.ASCII)  # words that no shell expands
_FLAGS = ("dry_run", "print_config")  # options without a value, beside those that the parser knows
_Complete = dict[str, str]  # shell -> what completes a value there
_RECIPE_PARSERS: dict[str, Callable[[], Parser]] = {  # of commands whose options also come from files
    "train": make_parser,
    "pretrain": partial(make_parser, PretrainRecipe),
    "crossval": crossval_parser,
    "study": study_options.make_parser,
}


@dataclass(frozen=True)
class _Names:
    """Names that complete a value, beside the paths of files.

    Attributes:
        kind: what they name.
        names: the names.
    """

    kind: str
    names: tuple[str, ...]

    @property
    def complete(self) -> _Complete:
        """What completes a value, by shell."""
        return {"bash": f"_vit_{self.kind}", "zsh": f"_vit_{self.kind}", "fish": f"(_vit_{self.kind})"}

    @property
    def functions(self) -> dict[str, str]:
        """The functions that `complete` names, by shell."""
        words, name = " ".join(word for word in self.names if _SAFE.fullmatch(word)), f"_vit_{self.kind}"
        return {
            "bash": f'{name}() {{ compgen -W "{words}" -- "$1"; compgen -f -- "$1"; }}',
            "zsh": f"{name}() {{ local -a names=({words}); compadd -a names; _files }}",
            "fish": f"function {name}\n    printf '%s\\n' {words}\n    __fish_complete_path (commandline -ct)\nend",
        }


def completion_script(shell: str, commands: Mapping[str, str]) -> str:
    """The script that completes the command lines of vit.

    Args:
        shell: bash, zsh or fish.
        commands: what each command does, by its name.

    Raises:
        UsageError: the shell is another one, or shtab is not installed.
    """
    if shell not in SHELLS:
        raise UsageError(f"--print_completion {shell or 'without a shell'}", nearest(shell, SHELLS))
    if find_spec("shtab") is None:
        raise UsageError("completion needs shtab", install("completion"))
    import shtab

    whole, known = _whole(commands), _known()
    functions = "\n".join(names.functions[shell] for names in known.values())
    return shtab.complete(whole, shell, root_prefix="_vit", preamble=functions)


def _known() -> dict[str, _Names]:
    """The names that options and arguments take, by what they name."""
    configs = sorted(shipped_configs())
    found = {
        "config": [name for name in configs if not name.startswith("studies/")],
        "study": [name.removeprefix("studies/") for name in configs if name.startswith("studies/")],
        "data": sorted(KNOWN),
        "network": [*OWN, *sorted(timm_names())],
    }
    return {kind: _Names(kind, tuple(names)) for kind, names in found.items()}


def _whole(commands: Mapping[str, str]) -> argparse.ArgumentParser:
    """A parser of argparse with all commands, and with all actions of those that have some."""
    known = _known()
    whole = argparse.ArgumentParser("vit", add_help=False, allow_abbrev=False)
    whole.add_argument("--help", action="store_true", help="show the commands")
    whole.add_argument("--version", action="store_true", help="show the version")
    whole.add_argument("--print_completion", choices=SHELLS, help="print the script of completion for a shell")
    below = whole.add_subparsers()
    for name, about in commands.items():
        one = below.add_parser(name, help=_short(about), add_help=False, allow_abbrev=False)
        parsers = _parsers(name)
        if isinstance(parsers, Parser):
            _copy(name, parsers, one, known)
            continue
        actions = one.add_subparsers()
        for action, parser in parsers.items():
            about = _short(parser.description or "")
            _copy(name, parser, actions.add_parser(action, help=about, add_help=False, allow_abbrev=False), known)
    return whole


def _parsers(name: str) -> Parser | dict[str, Parser]:
    """The parser of a command, or those of its actions."""
    if name in _RECIPE_PARSERS:
        return _RECIPE_PARSERS[name]()
    command = getattr(command_module(name), name)
    if isinstance(command, Mapping):
        return {action: command_parser(function, f"{name} {action}") for action, function in command.items()}
    return command_parser(command, name)


def _copy(name: str, parser: Parser, to: argparse.ArgumentParser, known: Mapping[str, _Names]) -> None:
    """Copy the arguments of a command."""
    takes_recipes = bool(parser.short)
    for action in parser._actions:
        is_section = action.metavar == "CONFIG"  # jsonargparse's `--optim FILE`
        if is_section or action.help == argparse.SUPPRESS or "--help" in action.option_strings:
            continue
        if action.option_strings:
            short = [word for word, dotted in SHORT.items() if takes_recipes and dotted in action.option_strings]
            _add(to, [*short, *action.option_strings], action, _kind(name, action.dest, known))
        else:
            _add(to, [action.dest], action, known["data"] if action.dest in ("data", "source") else None)
    if takes_recipes:
        network = ["--network", SHORT["--network"]]
        _add(to, network, argparse.Action(network, "network", help="network: a name of 'vit models'"), known["network"])
        _add(to, ["data"], argparse.Action([], "data", nargs="?", help="images"), known["data"])
    to.add_argument("--help", action="store_true", help="show the options")
    to.add_argument("--debug", action="store_true", help="show the place of an error in the program")


def _kind(name: str, dest: str, known: Mapping[str, _Names]) -> _Names | None:
    """The names that an option takes; None: those of its type, or paths."""
    if dest == "config":
        return known["study" if name == "study" else "config"]
    return known["network"] if dest in ("networks", "backbones") else None


def _add(to: argparse.ArgumentParser, words: Sequence[str], action: Any, names: _Names | None) -> None:
    """Add one argument, with what completes its value."""
    import shtab

    options: dict[str, Any] = {"help": _short(action.help or "")}
    words = [word for word in words if not word.endswith("+")]  # jsonargparse's `--sizes+` appends to a file's value
    is_option = words[0].startswith("-")
    if is_option and (action.const is True or action.dest in _FLAGS):
        to.add_argument(*words, action="store_true", **options)
        return
    if not is_option and action.nargs is not None:
        options["nargs"] = action.nargs
    choices = _choices(getattr(action, "_typehint", None))
    if names is None and choices:
        to.add_argument(*words, choices=choices, **options)
        return
    added: Any = to.add_argument(*words, **options)
    added.complete = shtab.FILE if names is None else names.complete


def _choices(kind: Any) -> list[str]:
    """The words that a type takes, if they are few."""
    if kind is bool:
        return ["true", "false"]
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [word for member in get_args(kind) if get_origin(member) is Literal for word in _choices(member)]


def _short(text: str) -> str:
    """The first part of a help text, as one line that argparse does not format."""
    first = re.split(r"[;:.]\s|\.$", " ".join(text.split()))[0]
    shown = first if len(first) <= _LONGEST else f"{first[: first.rindex(' ', 0, _LONGEST)]} ..."
    return shown.replace("%", "%%")
