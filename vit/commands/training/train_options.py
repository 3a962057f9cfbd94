"""What `vit train` is asked for: by a command line, or by keyword arguments of Python"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vit.commands.cli.arguments import StrPath, path_list
from vit.commands.cli.parser import Parser
from vit.commands.cli.recipe_layers import RecipeLayers
from vit.commands.cli.recipe_options import AUTO, OF_COMMAND, make_parser
from vit.console import Reporter
from vit.errors import UsageError
from vit.launch import is_launched
from vit.training.recipes.recipe import Recipe

_FIX = "use the command line, which starts a process for each device, or start your program with torchrun"


@dataclass(frozen=True)
class TrainOptions:
    """What a training is asked for.

    Attributes:
        layers: values for the recipe.
        resume: run folder to resume; "auto": the newest unfinished run that fits; None: a new run.
        dry_run: whether only the plan is wanted.
        print_config: whether only the recipe is wanted.
    """

    layers: RecipeLayers
    resume: str | None = None
    dry_run: bool = False
    print_config: bool = False

    @property
    def run(self) -> Path | None:
        """The run folder to resume, where one is named."""
        return None if self.resume in (None, AUTO) else Path(str(self.resume)).expanduser()

    @property
    def parent(self) -> Path | None:
        """The finished run to train further, in a new run; None: DATA are images."""
        return None if self.run is not None or self.layers.kind is not Recipe else self.layers.run

    @property
    def names_data(self) -> bool:
        """Whether the training data are named: by an option, a recipe file, or the run to resume."""
        return self.run is not None or self.layers.says("data.source")


def read_words(words: Sequence[str]) -> TrainOptions:
    """The options of a command line; `--help` ends the program."""
    return read_with(make_parser(), words)[0]


def read_with(
    parser: Parser, words: Sequence[str], others: Sequence[str] = (), kind: type[Recipe] = Recipe
) -> tuple[TrainOptions, dict[str, Any]]:
    """The options of a command line, and the given values of a parser's options that are not those of a training.

    Args:
        parser: the parser of `vit train`, with further options.
        others: names of the further options.
        kind: class of the recipe.
    """
    values = parser.read_words(words)
    further = {name: values.pop(name) for name in others if name in values}
    return _options(values, kind), further


def read_values(
    data: StrPath | None,
    config: StrPath | Sequence[StrPath] | None,
    resume: StrPath | None,
    values: Mapping[str, object],
    kind: type[Recipe] = Recipe,
) -> TrainOptions:
    """The options of keyword arguments of Python; UsageError for an unknown name."""
    given = {**values, "config": [os.fspath(path) for path in path_list(config or ())], "resume": resume}
    if data is not None:
        given["data.source"] = data
    return _options(make_parser(kind).read_values(given), kind)


def _options(values: dict[str, Any], kind: type[Recipe]) -> TrainOptions:
    """The options of a training from values by dotted name."""
    of_command = {name: values.pop(name) for name in OF_COMMAND if name in values}
    return TrainOptions(RecipeLayers(tuple(of_command.pop("config", ())), values, kind), **of_command)


def in_one_process(options: TrainOptions) -> TrainOptions:
    """The options with one device where the machine has several, or where a run may have begun on several.

    Lightning starts each further process with the words of this one. Of a program that calls `vit.train` it would
    run every line again; it cannot run a notebook or `python -c` again. torchrun starts all processes alike, so that
    it takes as many devices as it has started.

    Raises:
        UsageError: several devices are asked for, and no launcher has started this process.
    """
    if is_launched() or options.print_config:
        return options
    recipe = options.layers.recipe()
    for name, count in (("devices", recipe.trainer.devices), ("num_nodes", recipe.trainer.num_nodes)):
        if count not in ("auto", 1):
            raise UsageError(f"trainer.{name} {count} in Python, which trains in one process", _FIX)

    from vit.training.distributed.devices import device_and_world_size

    _, num_devices = device_and_world_size(recipe)
    if num_devices == 1 and options.resume is None:
        return options
    if num_devices > 1:
        Reporter().notice(f"1 of {num_devices} devices trains: {_FIX}")
    layers = options.layers.with_option("trainer.devices", 1)
    return replace(options, layers=layers if options.resume is None else layers.with_option("trainer.num_nodes", 1))
