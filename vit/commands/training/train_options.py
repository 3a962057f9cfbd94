"""What a training is asked for, and the recipe that it carries out: given, of a run, or from published weights"""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.commands.cli.arguments import StrPath
from vit.commands.cli.help_text import OF_COMMAND
from vit.commands.cli.recipe_layers import RecipeLayers
from vit.commands.cli.recipe_options import AUTO, RANDOM, SHORT, check_names, listed_images, make_parser
from vit.commands.training.resuming import further_recipe, recipe_for_all, recipe_of, unfinished_runs
from vit.console import Reporter
from vit.data.core.dataset_names import PHOTOGRAPHS
from vit.errors import CheckpointError, UsageError
from vit.launch import is_launched
from vit.models.catalog import check_image_size
from vit.training.recipes.recipe import DistillConfig, Recipe
from vit.training.recipes.values import is_unused
from vit.training.tracking.tracker import SHARED, chosen_trackers

if TYPE_CHECKING:
    from vit.data.core.samples import Source
    from vit.training.distributed.processes import Rendezvous

# ViT-Ti/16 of DeiT: Apache 2.0, 23 MB; measured on photographs in docs/results.md
PUBLISHED = "timm:deit_tiny_patch16_224.fb_in1k"

FURTHER = "the best of this run, on its images and with its recipe, whose schedule begins again"
_FIX = "use the command line, which starts a process for each device, or start your program with torchrun"


@dataclass(frozen=True)
class TrainOptions:
    """What a training is asked for."""

    layers: RecipeLayers  # values for the recipe
    resume: str | None = None  # run folder to resume; "auto": the newest unfinished run that fits; None: a new run
    dry_run: bool = False  # whether only the plan is wanted
    print_config: bool = False  # whether only the recipe is wanted

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


def read_words(words: Sequence[str], kind: type[Recipe] = Recipe) -> TrainOptions:
    """The options of a command line; `--help` ends the program."""
    return to_options(make_parser(kind).read_words(words), kind)


def read_values(
    data: StrPath | None,
    config: StrPath | Sequence[StrPath] | None,
    resume: StrPath | None,
    values: Mapping[str, object],
    kind: type[Recipe] = Recipe,
) -> TrainOptions:
    """The options of keyword arguments of Python; UsageError for an unknown name."""
    of_function = {"data.source": data, "config": config, "resume": resume}
    by_name = {**values, **{name: value for name, value in of_function.items() if value is not None}}
    return to_options(make_parser(kind).read_values(by_name), kind)


def to_options(values: dict[str, Any], kind: type[Recipe] = Recipe) -> TrainOptions:
    """The options of a training from values by dotted name."""
    of_command = {name: values.pop(name) for name in OF_COMMAND if name in values}
    return TrainOptions(RecipeLayers(tuple(of_command.pop("config", ())), values, kind), **of_command)


def in_one_process(options: TrainOptions) -> TrainOptions:
    """The options with one device where the machine has several, or where a run may have begun on several.

    Lightning starts each further process with the words of this one, which are not those of a training: a notebook
    cannot run again, and a program would run all its lines. torchrun starts all processes alike, and takes all devices.
    """
    if is_launched() or options.print_config:
        return options
    recipe = options.layers.recipe()
    for name, count in (("devices", recipe.trainer.devices), ("num_nodes", recipe.trainer.num_nodes)):
        if count not in ("auto", 1):
            raise UsageError(f"trainer.{name} {count} in Python, which trains in one process", _FIX)

    from vit.training.distributed.devices import device_and_world_size

    _, num_devices = device_and_world_size(recipe.trainer)
    if num_devices == 1 and options.resume is None:
        return options
    if num_devices > 1:
        Reporter().notice(f"1 of {num_devices} devices trains: {_FIX}")
    layers = options.layers.with_option("trainer.devices", 1)
    return replace(options, layers=layers if options.resume is None else layers.with_option("trainer.num_nodes", 1))


@dataclass(frozen=True)
class InitialWeights:
    """A recipe whose initial weights are decided."""

    recipe: Recipe  # recipe whose init_from is a source of weights, or None for random weights
    listed: "Source | None"  # images of DATA, where they are listed already
    rendezvous: "Rendezvous | None" = None  # rendezvous of several processes that have already agreed on something
    why: str = ""  # reason for weights, or for random weights, that nothing asked for; empty: the user has decided


def find_start(options: TrainOptions, reporter: Reporter) -> InitialWeights:
    """Check the recipe's names, list the images, and decide what an open init_from means: the first process for all."""
    if (run := options.run or options.parent) is not None:
        find, why = (recipe_of, "") if options.run is not None else (further_recipe, FURTHER)
        recipe, rendezvous = recipe_for_all(run, options.layers, find)
        return InitialWeights(recipe, _listed(recipe, options.run is not None), rendezvous, why)
    network = options.layers.options.get("model.network") or {}
    if "name" in network:  # before torch is imported, which the choice of a shipped recipe may do
        check_image_size(network, options.layers.options.get("model.preprocess.image_size"))
    recipe = options.layers.recipe()
    reporter.notice(options.layers.replaced_recipe())
    _check_used(options.layers, recipe)
    if recipe.model.init_from != AUTO:
        return InitialWeights(recipe, _listed(recipe))
    recipe = options.layers.with_option("init_from", RANDOM).recipe()
    listed = _listed(recipe)
    if listed is None and recipe.data.source not in PHOTOGRAPHS:
        return InitialWeights(recipe, listed)

    from vit.training.distributed.devices import device_and_world_size
    from vit.training.distributed.processes import Rendezvous
    from vit.training.planning.images import FOR_PHOTOGRAPHS, automatic_network

    if listed is not None and automatic_network(listed.splits["train"])[0] != FOR_PHOTOGRAPHS:
        return InitialWeights(recipe, listed)
    rendezvous = Rendezvous(device_and_world_size(recipe.trainer)[1])
    weights = rendezvous.decided("start", lambda: _published_weights(options, recipe, listed, reporter))
    if weights == RANDOM:
        return InitialWeights(recipe, listed, rendezvous, "the unfinished run began with them")
    why = "because DATA are photographs; --init random starts from random weights"
    return InitialWeights(options.layers.with_option("init_from", weights).recipe(), listed, rendezvous, why)


def _listed(recipe: Recipe, is_resumed: bool = False) -> "Source | None":
    check_names(recipe, is_resumed)
    return listed_images(recipe)


def _check_used(layers: RecipeLayers, recipe: Recipe) -> None:
    """Raise UsageError for options that would change nothing: of a teacher without one, or beside a linear probe."""
    changed = [name for name, value in vars(recipe.distill).items() if value != getattr(DistillConfig(), name)]
    if recipe.distill.teacher is None and changed:
        raise UsageError(f"--distill.{changed[0]} without a teacher", "give --teacher, or leave it out")
    if recipe.model.freeze != "backbone":
        return
    for name in filter(is_unused, layers.options):  # a file, as of a run, may have them
        flag = next((short for short, long in SHORT.items() if long == f"--{name}"), f"--{name}")
        raise UsageError(f"{flag} with --freeze backbone, which fits the last layer to features alone", "leave it out")


def unused_options(names: Collection[str], recipe: Recipe, splits: Container[str]) -> dict[str, str]:
    """{name: sentence} of the options among these names that change nothing in a plan, for splits of DATA."""
    optim, data = recipe.optim, recipe.data
    untracked = "" if {"wandb", "mlflow"} & {*chosen_trackers(recipe)} else "without wandb or mlflow as a tracker"
    untaught = "without --teacher" * (recipe.distill.teacher is None)
    of_probe = filter(is_unused, names) if recipe.model.freeze == "backbone" else ()
    of_data = [split for split in ("validation", "test") if data.fold is None and split in splits]
    without, own_loss = "without --data.train_images", "with --optim.loss, which takes its place"
    reasons = {
        "optim.momentum": f"with {optim.optimizer}" * (optim.optimizer in ("adamw", "muon")),
        "augment.magnitude": "without --augment.randaugment" * (recipe.augment.randaugment == 0),
        **dict.fromkeys(("distill.kind", "distill.weight"), untaught),
        "distill.temperature": untaught or "with --distill.kind hard" * (recipe.distill.kind == "hard"),
        **dict.fromkeys(("optim.label_smoothing", "optim.multilabel_loss"), own_loss * (optim.loss is not None)),
        **dict.fromkeys(("data.subset", "data.subset_seed"), without * (data.train_images is None)),
        "data.test": "with --data.fold, which is the test part" * (data.fold is not None),
        **{f"data.{split}": f"because DATA has {split} images" for split in of_data},
        "data.split_seed": "because DATA has all splits" * (len(of_data) == 2 and data.calibration == 0),
        "data.allow_empty": "because DATA is not a folder" * (not Path(data.source).expanduser().is_dir()),
        **dict.fromkeys(SHARED, untracked),
        **dict.fromkeys(of_probe, "with --freeze backbone, which fits the last layer to features alone"),
    }
    return {name: f"--{name} changes nothing {why}" for name, why in reasons.items() if why and name in names}


def _published_weights(options: TrainOptions, recipe: Recipe, listed: "Source | None", reporter: Reporter) -> str:
    """The published weights that photographs start from, or `RANDOM`: the run that `--resume auto` may continue did."""
    from vit.training.planning.images import FOR_PHOTOGRAPHS, opened_data
    from vit.weights.hubs import fetch, published, repository_of

    name = str(recipe.model.network.get("name", "auto"))
    name = FOR_PHOTOGRAPHS if name == "auto" else name
    weights = PUBLISHED if name == FOR_PHOTOGRAPHS else published(name)
    if options.resume == AUTO:
        data = recipe.data.source if listed is None else listed.name
        for _, its_recipe in unfinished_runs(recipe, name, data):
            if its_recipe.model.init_from in (None, weights):
                return its_recipe.model.init_from or RANDOM
    repository = repository_of(weights.removeprefix("timm:")) if weights else ""
    obstacle = fetch(weights.removeprefix("timm:"), reporter.notice) if weights else f"timm has none for {name}"
    if not obstacle:
        from vit.training.planning.network_choice import choose_network, wanted_network

        model = options.layers.with_option("init_from", weights).recipe().model
        images = listed or opened_data(recipe.data)
        try:
            choose_network(model, wanted_network(model), images, len(images.class_names))
            return weights
        except CheckpointError as error:
            obstacle, repository = error.problem, ""
    obstacle = f"{weights}: {obstacle}" if weights else obstacle
    files = "WEIGHTS (a file, a folder, a run, hf:ORG/NAME)"
    raise unavailable(f"published weights for {name}", obstacle, files, repository, "a much weaker model")


def unavailable(what: str, obstacle: str, files: str, repository: str, random: str) -> UsageError:
    """The error where photographs lack published weights. `files`: what --init_from takes, `random`: what random gives.

    `repository` is where the hub has the weights; empty: they are of no use.
    """
    cache = f"fill the hub's cache ('hf download {repository} model.safetensors'; its folder is HF_HOME), "
    fix = f"give --init_from {files}, {cache * bool(repository)}or give --init random for {random}"
    problem = f"{what} are not available: {obstacle}. Photographs do not train from random weights without being asked"
    return UsageError(problem, fix)
