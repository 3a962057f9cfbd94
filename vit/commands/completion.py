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
from typing import Any

from vit.commands.cli.command_line import command_parser
from vit.commands.cli.configs import shipped_configs
from vit.commands.cli.option_values import REQUIRED, choices
from vit.commands.cli.options import Option
from vit.commands.cli.parser import Parser
from vit.commands.cli.recipe_options import SHORT, make_parser
from vit.commands.cli.schema import SCHEMA
from vit.commands.comparing.crossval import crossval_parser
from vit.commands.studies import study_options
from vit.data.core.dataset_names import KNOWN
from vit.errors import UsageError, install, nearest
from vit.models.catalog import CATALOG
from vit.models.network_names import timm_names
from vit.registry import command_module
from vit.training.recipes.pretrain_recipe import PretrainRecipe

SHELLS = ("bash", "zsh", "fish")
_LONGEST = 72  # characters of an option's help
_SAFE = re.compile(r"[\w./+-]+", re.ASCII)  # words that no shell expands
_Complete = dict[str, str]  # shell -> what completes a value there
_RECIPE_PARSERS: dict[str, Callable[[], Parser]] = {  # of commands whose options also come from files
    "train": make_parser,
    "pretrain": partial(make_parser, PretrainRecipe),
    "crossval": crossval_parser,
    "study": study_options.make_parser,
}


@dataclass(frozen=True)
class _Names:
    """Names that complete a value, beside the paths of files."""

    kind: str  # what they name
    names: tuple[str, ...]  # the names

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
        "network": [*CATALOG, *sorted(timm_names())],
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
            about = _short(parser.about)
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
    for option in parser.options:
        if option.is_hidden:
            continue
        short = [flag for flag, dotted in parser.short.items() if dotted == f"--{option.name}"]
        words = [option.metavar.lower() if option.metavar == "DATA" else option.name]
        if not option.is_positional:
            words = [*short, f"--{option.name}"]
        _add(to, words, option, _names_of(name, option, known))
    if parser.short:
        network = Option("model.network.name", str, "network: a name of 'vit models'")
        _add(to, ["--network", SHORT["--network"]], network, known["network"])
    to.add_argument("--help", action="store_true", help="show the options")
    if parser.takes_files:
        to.add_argument(SCHEMA, action="store_true", help="print a JSON schema of files for --config")
    to.add_argument("--debug", action="store_true", help="show the place of an error in the program")


def _names_of(name: str, option: Option, known: Mapping[str, _Names]) -> _Names | None:
    """The names that an option takes; None: those of its type, or paths."""
    if option.is_positional:
        return known["data"] if option.metavar == "DATA" or option.name in ("data", "source") else None
    if option.name == "config":
        return known["study" if name == "study" else "config"]
    return known["network"] if option.name in ("networks", "backbones") else None


def _add(to: argparse.ArgumentParser, words: Sequence[str], option: Option, names: _Names | None) -> None:
    """Add one argument, with what completes its value."""
    import shtab

    settings: dict[str, Any] = {"help": _short(option.about)}
    if option.is_flag:
        to.add_argument(*words, action="store_true", **settings)
        return
    if option.is_positional:
        several = ("+" if option.default is REQUIRED else "*") if option.takes_several else "?"
        settings["nargs"] = None if several == "?" and option.default is REQUIRED else several
    of_type = choices(option.kind)
    if names is None and of_type:
        to.add_argument(*words, choices=of_type, **settings)
        return
    added: Any = to.add_argument(*words, **settings)
    added.complete = shtab.FILE if names is None else names.complete


def _short(text: str) -> str:
    """The first part of a help text, as one line that argparse does not format."""
    first = re.split(r"[;:.]\s|\.$", " ".join(text.split()))[0]
    shown = first if len(first) <= _LONGEST else f"{first[: first.rindex(' ', 0, _LONGEST)]} ..."
    return shown.replace("%", "%%")
