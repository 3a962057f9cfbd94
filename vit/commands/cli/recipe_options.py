"""The options of a recipe: the parser of `vit train`, recipe files by path or shipped name, the config.yaml of a run"""

import os
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from vit.checkpoints.model_path import check_model, check_weights
from vit.commands.cli.command_line import Parser
from vit.commands.cli.help_text import OF_COMMAND
from vit.data.core.dataset_names import KNOWN, check_data
from vit.errors import DataError, ResourceError, UsageError, explained, nearest
from vit.models.catalog import check_image_size, check_network
from vit.options import Option, options_of
from vit.plain_files import DamagedFileError, parse_yaml, read_text
from vit.ranges import seconds
from vit.training.recipes.pretrain_recipe import UNUSED, PretrainRecipe
from vit.training.recipes.recipe import Recipe
from vit.training.tracking.tracker import check_trackers, chosen_trackers

if TYPE_CHECKING:
    from vit.data.core.samples import Source

T = TypeVar("T")

SHORT = {  # flags without their sections
    "--network": "--model.network.name", "--augment": "--augment.name",
    **{f"--{name.rpartition('.')[2]}": f"--{name}" for name in (
        "model.init_from", "model.preprocess.image_size", "model.preprocess.resize_mode", "model.freeze", "model.lora",
        "distill.teacher", "optim.epochs", "optim.time", "optim.patience", "optim.batch_size", "optim.lr",
        "trainer.precision", "trainer.devices", "trainer.num_nodes", "trainer.strategy", "trainer.checkpoint_every",
        "trainer.keep_state", "data.image_column", "data.label_column",
    )}, "--init": "--model.init_from",
}  # fmt: skip
MAIN = {  # the first help: groups of options with their values, and texts of one line
    "data": {
        "--image_size N": "side of the input in pixels; else the network's own",
        "--data.validation X": "fraction of images for validation, where DATA has none",
        "--data.groups REGEX": "finds the group in each path; no split divides a group",
    },
    "network": {
        "--network NAME": "a name of 'vit models'; auto: for the size of images",
        "--init_from WEIGHTS": "a run, a file, timm:NAME, hf:ORG/NAME, random or auto",
        "--freeze PART": "none, batch_stats, or backbone (a linear probe)",
    },
    "length": {
        "--epochs N": "passes over the training images, or auto",
        "--time TIME": "length as a time in place of epochs: 90s, 30min, 2h",
        "--patience N": "validations without a better one, then the end",
        "--batch_size N": "images of an optimizer step; else 128, or less",
        "--lr X": "learning rate after the warm-up",
        "--seed N": "seed of weights, order, augmentation and dropout",
    },
    "augmentation": {"--augment NAME": "none, light, standard or strong"},
    "hardware": {"--devices N": "devices of this machine", "--precision NAME": "auto, 32-true, bf16-mixed or 16-mixed"},
    "tracking": {
        "--out FOLDER": "parent folder of run folders",
        "--wandb MODE": "Weights & Biases: auto, online, offline or off",
    },
    "recipe": {
        "--config RECIPE": "a YAML file or a shipped recipe; later ones go above",
        "--resume RUN|auto": "continue an unfinished run",
        "--dry_run": "show the plan, and train nothing",
        "--print_config": "print the whole recipe, and train nothing",
    },
}
NO_TRIALS: dict[str, dict[str, Any]] = {  # help of commands that refuse the batch size that fits
    "optim.batch_size": {
        "about": "number of images of one optimizer step, over all processes; null: 128, or 64 with init_from, less "
        "for small data sets"
    }
}
_OF_PRETRAINING: dict[str, dict[str, Any]] = {
    "model.init_from": {
        "about": "pretrained weights to start from, as 'vit train' takes them. They bring a small learning rate and "
        "few epochs; random, none or null: random weights"
    },
    "trainer.strategy": {
        "about": "distribution over processes: auto or ddp, where every process holds the whole network"
    },
}
AUTO = "auto"  # as init_from: published weights where they fit and are available
RANDOM = "random"  # as init_from: random weights
FROM_RANDOM = (RANDOM, "none")  # and null
_NEWEST = "auto: the newest one below --out that has these options, else a new run"
_OF_COMMAND = (  # options beside those of the recipe
    Option("config", str, "recipe: a YAML file, or the name of a shipped recipe; repeatable", None, takes_several=True),
    Option("resume", str | None, f"unfinished run to resume; {_NEWEST}", None, "RUN|auto"),
    Option("dry_run", bool, "show the plan, and train nothing", False),
    Option("print_config", bool, "print the recipe with every value filled in, and train nothing", False),
)


def make_parser(kind: type[Recipe] = Recipe) -> Parser:
    """The parser of `vit train` or `vit pretrain`, which also checks recipe files."""
    return _parser(issubclass(kind, PretrainRecipe))


@cache
def _parser(is_pretraining: bool) -> Parser:
    kind = PretrainRecipe if is_pretraining else Recipe
    data = Option("data.source", str, "images, as above", None, "DATA", is_positional=True)
    parts = {name: part for name, part in get_type_hints(kind).items() if is_dataclass(part)}
    sections = {name: (part.__doc__ or "").partition("\n")[0] for name, part in parts.items()}
    parser = Parser(
        "train",
        "Train a classifier on DATA: a folder of class folders, a folder with train/ and test/, a CSV with "
        "path,label[,split], a parquet table, tar shards, hf:NAME of the Hugging Face hub, 'digits', or a torchvision "
        "data set by name. DATA may be a finished run, which is trained further.",
        "vit train photos/ --network vit_tiny_patch16_224 --epochs 30",
        (data, *options_of(kind), *_OF_COMMAND),
        SHORT,
        MAIN,
        sections,
    )
    if not is_pretraining:
        return parser.changed({"model.init_from": {"default": AUTO}})
    parser = replace(
        parser,
        command="pretrain",
        about="Learn from images without labels, and leave a backbone that 'vit train DATA --init_from RUN' starts "
        "from. DATA: a folder of images at any depth, a CSV with path, or labeled data as for 'vit train', of which "
        "only the training images are used. The shown defaults are those of --method diet from random weights; mae and "
        "--init_from have their own.",
        example="vit pretrain photos/ --network vit_tiny_patch16_224 --epochs 100",
        main={"method": {"--method NAME": "diet (each image is a class) or mae (hidden patches)"}, **MAIN},
    )
    first = read_config(f"pretrain_{PretrainRecipe().method}", parser)
    parser = parser.changed({name: {"default": value} for name, value in first.items()})
    return parser.without(UNUSED, ("distill", "mlflow")).changed(NO_TRIALS | _OF_PRETRAINING)


def to_recipe(kind: type[Recipe], values: dict[str, Any]) -> Recipe:
    """The recipe of some options by their dotted names; UsageError for a wrong time or tracker."""
    recipe = _built(kind, deepcopy(values), "")
    if recipe.model.init_from in FROM_RANDOM:
        recipe.model.init_from = None
    if recipe.optim.time is not None:
        seconds(recipe.optim.time, "--time")
    chosen_trackers(recipe)
    return recipe


def _built(kind: type[T], values: dict[str, Any], section: str) -> T:
    """A recipe, or a section of it by its name with a dot, with the defaults of all other options."""
    hints, arguments = get_type_hints(kind), {}
    for item in fields(kind):  # type: ignore[arg-type]
        name = f"{section}{item.name}"
        if is_dataclass(hints[item.name]):
            arguments[item.name] = _built(hints[item.name], values, f"{name}.")
        elif name in values:
            arguments[item.name] = values[name]
    return kind(**arguments)


def read_recipe(path: Path) -> Recipe:
    """The recipe in the config.yaml of a run; DataError where the file holds no recipe."""
    with explained(DataError, f"{path} holds no recipe", "restore it, or train again", (OSError, ValueError)):
        return parse_recipe(read_text(path))


def parse_recipe(text: str) -> Recipe:
    """The recipe of a text that `dump` wrote; ValueError for another text."""
    tree = parse_yaml(text)
    if not isinstance(tree, dict):
        raise ValueError("no options")
    kind = PretrainRecipe if "method" in tree else Recipe
    return to_recipe(kind, make_parser(kind).read_tree(tree))


def check_names(recipe: Recipe, is_resumed: bool = False) -> None:
    """Raise VitError for names, an --out, a fold or a pattern that cannot be used, before torch is imported."""
    network = recipe.model.network.get("name", "auto")
    if network != "auto":
        check_network(str(network))
        check_image_size(recipe.model.network, recipe.model.preprocess.image_size)
    if recipe.model.init_from is not None and not is_resumed:  # its checkpoint takes the place of first weights
        check_weights(recipe.model.init_from)
    if recipe.distill.teacher is not None:
        check_model(recipe.distill.teacher)
    check_data(recipe.data.source)
    path = Path(recipe.out).expanduser()
    if (file := next((one for one in (path, *path.parents) if os.path.isfile(one)), None)) is not None:
        raise ResourceError(f"cannot write to {path}: {file} is a file", "choose another folder with --out")
    check_trackers(recipe)
    if recipe.data.groups is not None:
        from vit.data.core.groups import group_pattern

        group_pattern(recipe.data.groups)
    if recipe.data.fold is not None:
        from vit.data.splits.split import read_fold

        read_fold(recipe.data.fold)


def listed_images(recipe: Recipe) -> "Source | None":
    """The image files of DATA, listed before torch is imported; None for data sets with a name."""
    from vit.training.planning.images import opened_data

    return None if recipe.data.source in KNOWN else opened_data(recipe.data)


def find_config(name: str) -> Path:
    """The file of --config: a path, or the name of a recipe that comes with the program; UsageError for neither."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    shipped = shipped_configs()
    if name in shipped:
        return shipped[name]
    raise UsageError(f"there is no config {name!r}", nearest(name, shipped))


def read_config(name: str, parser: Parser) -> dict[str, Any]:
    """The values of the file of --config; UsageError for anything else, a key twice, or an option not for files."""
    path, fix = find_config(name), "fix it, or give another file"
    try:
        with explained(UsageError, f"{path} cannot be read", fix):
            tree = parse_yaml(read_text(path), str(path))
    except DamagedFileError as error:
        raise UsageError(error.problem, fix) from error
    if not isinstance(tree, dict):
        raise UsageError(f"{path} holds no options", "give sections and options, as 'vit train --print_config' prints")
    for option in OF_COMMAND:
        if option in tree:
            raise UsageError(f"{path} has {option!r}, which is not an option of a file", f"give --{option} instead")
    try:
        return parser.read_tree(tree)
    except UsageError as error:
        raise UsageError(f"{path}: {error.problem}", error.fix) from error


def shipped_configs() -> dict[str, Path]:
    """Recipes, networks and studies by name; inside an installed package, or at the top of a checkout."""
    package = Path(__file__).parents[2]
    folders = (package / "configs", package.parent / "configs")
    return {
        str(path.relative_to(folder).with_suffix("")): path for folder in folders for path in folder.rglob("*.yaml")
    }
