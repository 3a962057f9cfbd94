"""`vit --print_completion SHELL`: a script by which bash, zsh and fish complete command lines of vit

shtab writes the script from a parser of argparse, so the parsers of all commands are copied into one. The script holds
all words. Pressing TAB therefore starts no Python.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from vit.commands.cli.command_line import SCHEMA, Parser, command_parser
from vit.commands.cli.recipe_options import SHORT, make_parser, shipped_configs
from vit.commands.comparing.crossval import crossval_parser
from vit.commands.studies import study_options
from vit.data.core.dataset_names import KNOWN
from vit.errors import UsageError, install, nearest
from vit.models.catalog import CATALOG
from vit.models.network_names import timm_names
from vit.options import REQUIRED, Option, choices
from vit.registry import command_module
from vit.training.recipes.pretrain_recipe import PretrainRecipe

_LONGEST = 72  # characters of an option's help
_SAFE = re.compile(r"[\w./+-]+", re.ASCII)  # words that no shell expands
_FUNCTIONS = {  # by shell: a function that completes names, and the paths of files
    "bash": '_vit_{kind}() {{ compgen -W "{words}" -- "$1"; compgen -f -- "$1"; }}',
    "zsh": "_vit_{kind}() {{ local -a names=({words}); compadd -a names; _files }}",
    "fish": "function _vit_{kind}\n    printf '%s\\n' {words}\n    __fish_complete_path (commandline -ct)\nend",
}
SHELLS = tuple(_FUNCTIONS)
_RECIPE_PARSERS: dict[str, Callable[[], Parser]] = {  # of commands whose options also come from files
    "train": make_parser,
    "pretrain": partial(make_parser, PretrainRecipe),
    "crossval": crossval_parser,
    "study": study_options.make_parser,
}


def completion_script(shell: str, commands: Mapping[str, str]) -> str:
    """The script that completes the command lines of vit in bash, zsh or fish; `commands` says what each does."""
    if shell not in SHELLS:
        raise UsageError(f"--print_completion {shell or 'without a shell'}", nearest(shell, SHELLS))
    if find_spec("shtab") is None:
        raise UsageError("completion needs shtab", install("completion"))
    import shtab

    configs = sorted(shipped_configs())
    names = {
        "config": [name for name in configs if not name.startswith("studies/")],
        "study": [name.removeprefix("studies/") for name in configs if name.startswith("studies/")],
        "data": sorted(KNOWN),
        "network": [*CATALOG, *sorted(timm_names())],
    }
    safe = {kind: " ".join(filter(_SAFE.fullmatch, words)) for kind, words in names.items()}
    functions = [_FUNCTIONS[shell].format(kind=kind, words=words) for kind, words in safe.items()]
    return shtab.complete(_whole(commands), shell, root_prefix="_vit", preamble="\n".join(functions))


def _whole(commands: Mapping[str, str]) -> argparse.ArgumentParser:
    """A parser of argparse with all commands, and with all actions of those that have some."""
    whole = argparse.ArgumentParser("vit", add_help=False, allow_abbrev=False)
    whole.add_argument("--help", action="store_true", help="show the commands")
    whole.add_argument("--version", action="store_true", help="show the version")
    whole.add_argument("--print_completion", choices=SHELLS, help="print the script of completion for a shell")
    below = whole.add_subparsers()
    for name, about in commands.items():
        one = below.add_parser(name, help=_short(about), add_help=False, allow_abbrev=False)
        command = None if name in _RECIPE_PARSERS else getattr(command_module(name), name)
        if isinstance(command, Mapping):
            actions = one.add_subparsers()
            for action, function in command.items():
                parser = command_parser(function, f"{name} {action}")
                short = _short(parser.about)
                _copy(name, parser, actions.add_parser(action, help=short, add_help=False, allow_abbrev=False))
        else:
            _copy(name, command_parser(command, name) if command else _RECIPE_PARSERS[name](), one)
    return whole


def _copy(name: str, parser: Parser, to: argparse.ArgumentParser) -> None:
    for option in parser.shown:
        short = [flag for flag, dotted in parser.short.items() if dotted == f"--{option.name}"]
        words, kind = [*short, f"--{option.name}"], ""
        if option.is_positional:
            words = ["data" if option.metavar == "DATA" else option.name]
            kind = "data" if words[0] in ("data", "source") else ""
        elif option.name == "config":
            kind = "study" if name == "study" else "config"
        elif option.name in ("networks", "backbones"):
            kind = "network"
        _add(to, words, option, kind)
    if parser.short:
        network = Option("model.network.name", str, "network: a name of 'vit models'")
        _add(to, ["--network", SHORT["--network"]], network, "network")
    to.add_argument("--help", action="store_true", help="show the options")
    if parser.takes_files:
        to.add_argument(SCHEMA, action="store_true", help="print a JSON schema of files for --config")
    to.add_argument("--debug", action="store_true", help="show the place of an error in the program")


def _add(to: argparse.ArgumentParser, words: Sequence[str], option: Option, names: str) -> None:
    """Add one argument. The names of a function complete its value; else those of its type, or paths."""
    import shtab

    settings: dict[str, Any] = {"help": _short(option.about)}
    if option.is_flag:
        to.add_argument(*words, action="store_true", **settings)
        return
    if option.is_positional:
        several = ("+" if option.default is REQUIRED else "*") if option.takes_several else "?"
        settings["nargs"] = None if several == "?" and option.default is REQUIRED else several
    of_type = choices(option.kind)
    if not names and of_type:
        to.add_argument(*words, choices=of_type, **settings)
        return
    added: Any = to.add_argument(*words, **settings)
    function = {"bash": f"_vit_{names}", "zsh": f"_vit_{names}", "fish": f"(_vit_{names})"}
    added.complete = function if names else shtab.FILE


def _short(text: str) -> str:
    """The first part of a help text, as one line that argparse does not format."""
    first = re.split(r"[;:.]\s|\.$", " ".join(text.split()))[0]
    shown = first if len(first) <= _LONGEST else f"{first[: first.rindex(' ', 0, _LONGEST)]} ..."
    return shown.replace("%", "%%")
