"""What a command line of `vit train` asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vit.commands.recipe_options import make_parser, names_data, parse_options, to_recipe
from vit.commands.resuming import AUTO, recipe_of
from vit.training.recipe import Recipe


@dataclass(frozen=True)
class Wanted:
    """What a command line asks for.

    Attributes:
        resumed: the run to go on with.
        find: whether such a run is to be looked for.
        names_data: whether it says what to train on.
        dry_run: whether the plan is all that is wanted.
    """

    recipe: Recipe
    resumed: Path | None
    find: bool
    names_data: bool
    dry_run: bool


def wanted(arguments: Sequence[str]) -> Wanted:
    """Read a command line."""
    parser = make_parser()
    config = parse_options(parser, arguments)
    if config.resume and config.resume != AUTO:
        return Wanted(
            recipe_of(config.resume, arguments), Path(config.resume).expanduser(), False, True, config.dry_run
        )
    return Wanted(to_recipe(parser, config), None, config.resume == AUTO, names_data(arguments), config.dry_run)
