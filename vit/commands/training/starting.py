"""The recipe that `vit train` carries out: given, of a run, or with published weights that photographs start from"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vit.commands.cli.recipe_layers import RecipeLayers
from vit.commands.cli.recipe_options import AUTO, RANDOM, SHORT, check_names, listed_images, opened_images
from vit.commands.training.resuming import further_recipe, newest_of_starts, recipe_for_all
from vit.commands.training.train_options import TrainOptions
from vit.console import Reporter
from vit.data.core.dataset_names import PHOTOGRAPHS
from vit.errors import CheckpointError, UsageError
from vit.models.catalog import check_image_size
from vit.training.recipes.recipe import DistillConfig, Recipe, is_unused

if TYPE_CHECKING:
    from vit.data.core.samples import Source
    from vit.training.distributed.rendezvous import Rendezvous

# ViT-Ti/16 of DeiT: Apache 2.0, 23 MB; on photographs measured in docs/measurements.md
PUBLISHED = "timm:deit_tiny_patch16_224.fb_in1k"

FURTHER = "the best of this run, on its images and with its recipe, whose schedule begins again"


@dataclass(frozen=True)
class InitialWeights:
    """A recipe whose initial weights are decided."""

    recipe: Recipe  # recipe whose init_from is a source of weights, or None for random weights
    listed: "Source | None"  # images of DATA, where they are listed already
    rendezvous: "Rendezvous | None" = None  # rendezvous of several processes that have already agreed on something
    why: str = ""  # reason for weights, or for random weights, that nothing asked for; empty: the user has decided


def find_start(options: TrainOptions, reporter: Reporter) -> InitialWeights:
    """Check the recipe's names, list the images, and decide what an open init_from means.

    Photographs start from published weights of the network. The first process decides for all.

    Raises:
        UsageError: such weights are not available or do not fit. Random weights are for those who ask for them.
    """
    if options.run is not None:
        recipe, rendezvous = recipe_for_all(options.run, options.layers)
        check_names(recipe)
        return InitialWeights(recipe, listed_images(recipe), rendezvous)
    if options.parent is not None:
        recipe, rendezvous = recipe_for_all(options.parent, options.layers, further_recipe)
        check_names(recipe)
        return InitialWeights(recipe, listed_images(recipe), rendezvous, FURTHER)
    network = options.layers.options.get("model.network") or {}
    if "name" in network:  # before torch is imported, which the choice of a shipped recipe may do
        check_image_size(network, options.layers.options.get("model.preprocess.image_size"))
    recipe = options.layers.recipe()
    if note := options.layers.replaced_recipe():
        reporter.notice(note)
    _check_distillation(recipe)
    _check_probe(options.layers, recipe)
    if recipe.model.init_from != AUTO:
        check_names(recipe)
        return InitialWeights(recipe, listed_images(recipe))
    recipe = options.layers.with_option("init_from", RANDOM).recipe()
    check_names(recipe)
    listed = listed_images(recipe)
    if not _are_photographs(recipe, listed):
        return InitialWeights(recipe, listed)

    from vit.training.distributed.devices import device_and_world_size
    from vit.training.distributed.rendezvous import Rendezvous

    _, world_size = device_and_world_size(recipe)
    rendezvous = Rendezvous(world_size)
    weights = rendezvous.decided("start", lambda: _published_weights(options, recipe, listed, reporter))
    if weights == RANDOM:
        return InitialWeights(recipe, listed, rendezvous, "the unfinished run began with them")
    why = "because DATA are photographs; --init random starts from random weights"
    return InitialWeights(options.layers.with_option("init_from", weights).recipe(), listed, rendezvous, why)


def _check_distillation(recipe: Recipe) -> None:
    """Raise UsageError for options of a teacher without a teacher, which would change nothing."""
    changed = [name for name, value in vars(recipe.distill).items() if value != getattr(DistillConfig(), name)]
    if recipe.distill.teacher is None and changed:
        raise UsageError(f"--distill.{changed[0]} without a teacher", "give --teacher, or leave it out")


def _check_probe(layers: RecipeLayers, recipe: Recipe) -> None:
    """Raise UsageError for given options that a linear probe does not use. A file, as of a run, may have them."""
    if recipe.model.freeze != "backbone":
        return
    for name in filter(is_unused, layers.options):
        flag = next((short for short, long in SHORT.items() if long == f"--{name}"), f"--{name}")
        raise UsageError(f"{flag} with --freeze backbone, which fits the last layer to features alone", "leave it out")


def _are_photographs(recipe: Recipe, listed: "Source | None") -> bool:
    """Whether the images are larger than those that the small networks are for."""
    if listed is None:
        return recipe.data.source in PHOTOGRAPHS

    from vit.training.planning.automatic_network import FOR_PHOTOGRAPHS, automatic_network

    return automatic_network(listed.splits["train"], recipe.model.preprocess.channels)[0] == FOR_PHOTOGRAPHS


def _published_weights(options: TrainOptions, recipe: Recipe, listed: "Source | None", reporter: Reporter) -> str:
    """The published weights that photographs start from, or `RANDOM`: the run that `--resume auto` may continue did.

    Raises:
        UsageError: the weights are not available, or do not fit the options of the network.
    """
    from vit.training.planning.automatic_network import FOR_PHOTOGRAPHS
    from vit.weights.hubs import fetch, published, repository_of

    name = str(recipe.model.network.get("name", "auto"))
    name = FOR_PHOTOGRAPHS if name == "auto" else name
    weights = PUBLISHED if name == FOR_PHOTOGRAPHS else published(name)
    if options.resume == AUTO:
        data = recipe.data.source if listed is None else listed.name
        before = newest_of_starts(recipe, name, data, (None, weights))
        if before is not None:
            return before.model.init_from or RANDOM
    obstacle, repository = f"timm has none for {name}", ""
    if weights:
        repository = repository_of(weights.removeprefix("timm:"))
        obstacle = fetch(weights.removeprefix("timm:"), reporter.notice)
    if not obstacle:
        from vit.training.planning.network_choice import choose_network, wanted_network

        model, images = options.layers.with_option("init_from", weights).recipe().model, listed or opened_images(recipe)
        try:
            choose_network(model, wanted_network(model), images, len(images.class_names))
        except CheckpointError as error:
            obstacle, repository = error.problem, ""
        else:
            return weights
    obstacle = f"{weights}: {obstacle}" if weights else obstacle
    files = "WEIGHTS (a file, a folder, a run, hf:ORG/NAME)"
    raise unavailable(f"published weights for {name}", obstacle, files, repository, "a much weaker model")


def unavailable(what: str, obstacle: str, files: str, repository: str, random: str) -> UsageError:
    """The error where photographs of a training or a study lack published weights.

    Args:
        what: the weights.
        obstacle: which weights, and why.
        files: what --init_from takes.
        repository: where the hub has the weights; empty: they are of no use.
        random: what random weights give.
    """
    cache = f"fill the hub's cache ('hf download {repository} model.safetensors'; its folder is HF_HOME), "
    return UsageError(
        f"{what} are not available: {obstacle}. Photographs do not train from random weights without being asked",
        f"give --init_from {files}, {cache * bool(repository)}or give --init random for {random}",
    )
