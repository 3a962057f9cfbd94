"""What `vit train` is asked for: by a command line, or by keyword arguments of Python"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vit.commands.arguments import StrPath, path_list, with_dry_run
from vit.commands.parser import Parser
from vit.commands.recipe_layers import AUTO, Given, first_values_of_pretraining
from vit.commands.recipe_options import SHORT, make_parser
from vit.errors import UsageError
from vit.training.recipes.recipe import Recipe

PRINT = "--print_config"


@dataclass(frozen=True)
class TrainOptions:
    """What a training is asked for.

    Attributes:
        given: values for the recipe.
        resume: run folder to resume; "auto": the newest unfinished run that fits; None: a new run.
        dry_run: whether only the plan is wanted.
        print_config: whether only the recipe is wanted.
    """

    given: Given
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
        return None if self.run is not None or self.given.kind is not Recipe else self.given.run

    @property
    def names_data(self) -> bool:
        """Whether the training data are named: by an option, a recipe file, or the run to resume."""
        return self.run is not None or self.given.says("data.source")


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
    if kind is Recipe:
        parser.set_defaults({"model.init_from": AUTO})
    else:
        parser.set_defaults(first_values_of_pretraining(parser))
    expanded = _expanded(words)
    configs = [word.partition("=")[2] for word in expanded if word.startswith("--config=")]
    plain = [word for word in expanded if word != PRINT and not word.startswith("--config=")]
    values = parser.parse_args(plain, defaults=False).as_dict()
    further = {name: values.pop(name) for name in others if name in values}
    resume, dry_run = values.pop("resume", None), values.pop("dry_run", False)
    given = Given(tuple(configs), values, kind)
    return TrainOptions(given, resume, dry_run, PRINT in expanded), further


def read_values(
    data: StrPath | None,
    config: StrPath | Sequence[StrPath] | None,
    resume: StrPath | None,
    values: Mapping[str, object],
    kind: type[Recipe] = Recipe,
) -> TrainOptions:
    """The options of keyword arguments of Python; UsageError for an unknown name."""
    parser = make_parser(kind)
    known = {*parser.get_defaults().keys(), *(flag.removeprefix("--") for flag in SHORT)}
    given = Given(tuple(os.fspath(one) for one in path_list(config or ())), kind=kind)
    for name, value in values.items():
        if name not in known and not name.startswith("model.network."):
            parser.error(f"unrecognized arguments: --{name}")
        given = given.with_option(name, value)
    if data is not None:
        given = given.with_option("data.source", data)
    dry_run = given.options.pop("dry_run", False) is True
    return TrainOptions(given, None if resume is None else os.fspath(resume), dry_run)


def _expanded(words: Sequence[str]) -> list[str]:
    """Each option as --name=value with its dotted name, also DATA.

    Every option but --help and --print_config takes a value. So a word that is neither an option nor a
    value is DATA.
    """
    result: list[str] = []
    positional: list[str] = []
    rest = iter(with_dry_run(words))
    for word in rest:
        if word in ("-h", "--help", PRINT):
            result.append("--help" if word == "-h" else word)
        elif word.startswith(f"{PRINT}="):  # the parser would print its own values, without those of shipped recipes
            raise UsageError(f"{word}: the option takes no value", f"give {PRINT}, which prints the whole recipe")
        elif not word.startswith("--"):
            positional.append(word)
        else:
            name, equals, value = word.partition("=")
            following = value if equals else next(rest, None)
            if following is None:
                raise UsageError(f"{word} needs a value", "see --help")
            result.append(f"{SHORT.get(name, name)}={following}")
    if len(positional) > 1:
        raise UsageError(
            f"DATA is given twice: {positional[0]!r} and {positional[1]!r}", "quote a path that has spaces"
        )
    return [*result, *(f"--data.source={word}" for word in positional)]
