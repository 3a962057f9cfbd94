"""The recipe that `vit train` carries out: given, of a run, or with published weights that photographs start from"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vit.commands.recipe_layers import AUTO, Given
from vit.commands.recipe_options import SHORT, check_names, listed_images
from vit.commands.resuming import further_recipe, newest_of_starts, recipe_for_all
from vit.commands.train_options import TrainOptions
from vit.console import Reporter
from vit.errors import UsageError
from vit.training.recipes.probe_options import is_unused
from vit.training.recipes.recipe import DistillConfig, Recipe

if TYPE_CHECKING:
    from vit.data.samples import Source
    from vit.training.distributed.meeting import Meeting

# ViT-Ti/16 of DeiT: Apache 2.0, 23 MB; on photographs measured in docs/measurements.md
PUBLISHED = "timm:deit_tiny_patch16_224.fb_in1k"

FURTHER = "the best of this run, on its images and with its recipe, whose schedule begins again"


@dataclass(frozen=True)
class Start:
    """A recipe whose initial weights are decided.

    Attributes:
        recipe: recipe whose init_from is a source of weights, or None for random weights.
        listed: images of DATA, where they are files.
        meeting: meeting of several processes that have already agreed on something.
        why: reason for weights, or for random weights, that nothing asked for; empty: the user has decided.
    """

    recipe: Recipe
    listed: "Source | None"
    meeting: "Meeting | None" = None
    why: str = ""


def find_start(options: TrainOptions, reporter: Reporter) -> Start:
    """Check the recipe's names, list the images, and decide what an open init_from means.

    Published weights are the start where DATA is a folder or CSV of photographs, no network is chosen, and the weights
    are in the cache or can be fetched. The first process decides for all.
    """
    if options.run is not None:
        recipe, meeting = recipe_for_all(options.run, options.given)
        check_names(recipe)
        return Start(recipe, listed_images(recipe), meeting)
    if options.parent is not None:
        recipe, meeting = recipe_for_all(options.parent, options.given, further_recipe)
        check_names(recipe)
        return Start(recipe, listed_images(recipe), meeting, FURTHER)
    recipe = options.given.recipe()
    if note := options.given.replaced_recipe():
        reporter.notice(note)
    _check_taught(recipe)
    _check_probed(options.given, recipe)
    is_open = recipe.model.init_from == AUTO
    if is_open:
        recipe = replace(recipe, model=replace(recipe.model, init_from=None))
    check_names(recipe)
    listed = listed_images(recipe)
    if not is_open or listed is None or not _could_use_published(recipe, listed):
        return Start(recipe, listed)

    from vit.training.distributed.devices import device_and_world_size
    from vit.training.distributed.meeting import Meeting

    _, world_size = device_and_world_size(recipe)
    meeting = Meeting(world_size)
    obstacle = meeting.decided("start", lambda: _obstacle(options, recipe, listed, reporter))
    if obstacle:
        why = (
            f"{PUBLISHED} cannot be had ({obstacle}); --init_from WEIGHTS starts from other weights, "
            "--init_from none does not ask the hub"
        )
        return Start(recipe, listed, meeting, why)
    why = "because DATA are photographs and no network is chosen; --init_from none starts from random weights"
    return Start(options.given.with_option("init_from", PUBLISHED).recipe(), listed, meeting, why)


def _check_taught(recipe: Recipe) -> None:
    """Raise UsageError for options of a teacher without a teacher, which would change nothing."""
    given = [name for name, value in vars(recipe.distill).items() if value != getattr(DistillConfig(), name)]
    if recipe.distill.teacher is None and given:
        raise UsageError(f"--distill.{given[0]} without a teacher", "give --teacher, or leave it out")


def _check_probed(given: Given, recipe: Recipe) -> None:
    """Raise UsageError for given options that a linear probe does not use. A file, as of a run, may have them."""
    if recipe.model.freeze != "backbone":
        return
    for name in filter(is_unused, given.names()):
        flag = next((short for short, long in SHORT.items() if long == f"--{name}"), f"--{name}")
        raise UsageError(f"{flag} with --freeze backbone, which fits the last layer to features alone", "leave it out")


def _could_use_published(recipe: Recipe, listed: "Source") -> bool:
    """Whether the network is left open, and is the published one for these images."""
    if recipe.model.network != {"name": "auto"}:
        return False

    from vit.training.planning.automatic_network import FOR_PHOTOGRAPHS, automatic_network

    return automatic_network(listed.splits["train"], recipe.model.preprocess.channels)[0] == FOR_PHOTOGRAPHS


def _obstacle(options: TrainOptions, recipe: Recipe, listed: "Source", reporter: Reporter) -> str:
    """Why the training does not start from the published weights; empty: it does.

    A run that `--resume auto` may continue has decided already.
    """
    from vit.training.planning.automatic_network import FOR_PHOTOGRAPHS
    from vit.weights.hub_cache import fetch

    if options.resume == AUTO:
        before = newest_of_starts(recipe, FOR_PHOTOGRAPHS, listed.name, (None, PUBLISHED))
        if before is not None:
            return "" if before.model.init_from else "the unfinished run began without them"
    return fetch(PUBLISHED.removeprefix("timm:"), reporter.notice)
