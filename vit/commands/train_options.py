"""What a command line of `vit train` asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.recipe_options import make_parser, names_data, parse_options, to_recipe
from vit.commands.resuming import AUTO, recipe_for_all
from vit.training.recipe import Recipe

if TYPE_CHECKING:
    from vit.training.distributed.meeting import Meeting


@dataclass(frozen=True)
class Wanted:
    """What a command line asks for.

    Attributes:
        resumed: the run to go on with.
        meeting: of the processes, where they have met already to learn the recipe of the run.
        find: whether such a run is to be looked for.
        names_data: whether it says what to train on.
        dry_run: whether the plan is all that is wanted.
    """

    recipe: Recipe
    resumed: Path | None
    meeting: "Meeting | None"
    find: bool
    names_data: bool
    dry_run: bool


def wanted(arguments: Sequence[str]) -> Wanted:
    """Read a command line."""
    parser = make_parser()
    config = parse_options(parser, arguments)
    if config.resume and config.resume != AUTO:
        recipe, meeting = recipe_for_all(config.resume, arguments)
        return Wanted(recipe, Path(config.resume).expanduser(), meeting, False, True, config.dry_run)
    find = config.resume == AUTO
    return Wanted(to_recipe(parser, config), None, None, find, names_data(arguments), config.dry_run)
