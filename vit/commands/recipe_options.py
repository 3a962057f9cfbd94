"""The options of a recipe: the parser of `vit train`, and the config.yaml of a run"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from jsonargparse import ActionConfigFile, Namespace

from vit.checkpoints.model_path import check_model, check_weights
from vit.commands.parser import Parser
from vit.data.dataset_names import KNOWN, check_data
from vit.errors import DataError, UsageError
from vit.layout import is_of_pretraining
from vit.models.network_names import check_image_size, check_network
from vit.plain_files import parse_yaml, read_text
from vit.training.recipes.image_options import AugmentConfig, DataConfig
from vit.training.recipes.pretrain_recipe import UNUSED, Method, PretrainDataConfig, PretrainRecipe
from vit.training.recipes.ranges import seconds
from vit.training.recipes.recipe import DistillConfig, MlflowConfig, ModelConfig, OptimConfig, Recipe, TrainerConfig
from vit.training.recipes.trackers import check_trackers, chosen_trackers
from vit.training.recipes.values import plain_values, with_todays_names

if TYPE_CHECKING:
    from vit.data.samples import Source

SHORT = {
    "--network": "--model.network.name",
    "--image_size": "--model.preprocess.image_size",
    "--augment": "--augment.name",
    "--init_from": "--model.init_from",
    "--init": "--model.init_from",
    "--freeze": "--model.freeze",
    "--lora": "--model.lora",
    "--teacher": "--distill.teacher",
    "--epochs": "--optim.epochs",
    "--time": "--optim.time",
    "--batch_size": "--optim.batch_size",
    "--lr": "--optim.lr",
    "--precision": "--trainer.precision",
    "--devices": "--trainer.devices",
    "--num_nodes": "--trainer.num_nodes",
    "--strategy": "--trainer.strategy",
    "--checkpoint_every": "--trainer.checkpoint_every",
    "--keep_state": "--trainer.keep_state",
}
SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "model": ModelConfig,
    "augment": AugmentConfig,
    "optim": OptimConfig,
    "distill": DistillConfig,
    "trainer": TrainerConfig,
    "mlflow": MlflowConfig,
}
NO_TRIALS = {  # help of commands that refuse the batch size that fits
    "optim.batch_size": "number of images of one optimizer step, over all processes; null: 128, or 64 with init_from, "
    "less for small data sets",
}
_OF_PRETRAINING = {
    "model.init_from": "pretrained weights to start from, as 'vit train' takes them. They bring a small learning rate "
    "and few epochs; random, none or null: random weights",
    "trainer.strategy": "distribution over processes: auto or ddp, where every process holds the whole network",
}
RANDOM = "random"  # as init_from: the word for random weights
FROM_RANDOM = (RANDOM, "none")  # and null


def make_parser(kind: type[Recipe] = Recipe) -> Parser:
    """The parser of `vit train` or `vit pretrain`, which also checks recipe files.

    Args:
        kind: class of the recipes that it reads.
    """
    is_pretraining = issubclass(kind, PretrainRecipe)
    parser = _pretrain_parser() if is_pretraining else _train_parser()
    about = "recipe: a YAML file, or the name of a shipped recipe (fashion_mnist)"
    parser.add_argument("--config", action=ActionConfigFile, help=about)
    parser.describe_printing()
    about = "unfinished run to resume; auto: the newest one below --out that has these options, else a new run"
    parser.add_argument("--resume", type=str | None, default=None, metavar="RUN|auto", help=about)
    for name, section in SECTIONS.items():
        parser.add_class_arguments(PretrainDataConfig if is_pretraining and name == "data" else section, name)
    kinds, defaults = Recipe.__annotations__, Recipe()
    if is_pretraining:
        about = "what is learned. diet: which image it is, under augmentation. mae: the pixels of hidden patches"
        parser.add_argument("--method", type=Method, default=PretrainRecipe().method, help=about)
    about = "seed of initial weights, order of images, augmentation and dropout"
    parser.add_argument("--seed", type=kinds["seed"], default=defaults.seed, help=about)
    parser.add_argument("--out", type=str, default=defaults.out, help="parent folder of run folders")
    parser.add_argument("--name", type=str | None, default=None, help="last part of the run folder's name")
    about = (
        "trackers of the training, with commas: wandb, tensorboard, mlflow; null: wandb, unless --wandb off. "
        "metrics.csv is always written"
    )
    parser.add_argument("--tracker", type=str | None, default=None, help=about)
    about = "Weights & Biases; auto: online where you are logged in, else offline. off: only without wandb in --tracker"
    parser.add_argument("--wandb", type=kinds["wandb"], default=defaults.wandb, help=about)
    about = "whether W&B and an MLflow server also get pictures of your images, and file names with labels"
    parser.add_argument("--tracker_media", type=bool, default=defaults.tracker_media, help=about)
    about = "whether W&B and MLflow also get the best checkpoint"
    parser.add_argument("--tracker_model", type=bool, default=defaults.tracker_model, help=about)
    parser.add_argument("--dry_run", type=bool, default=False, help="show the plan, and train nothing")
    if is_pretraining:
        parser.hide((*UNUSED, "distill", "mlflow"))
        parser.describe({**NO_TRIALS, **_OF_PRETRAINING})
    return parser


def kept_parser(kind: type[Recipe]) -> Parser:
    """The parser of `make_parser` for many readings, which takes longer to make than to use. Nothing may be changed."""
    return _kept_parser(issubclass(kind, PretrainRecipe))


@cache
def _kept_parser(is_pretraining: bool) -> Parser:
    return make_parser(PretrainRecipe if is_pretraining else Recipe)


def _train_parser() -> Parser:
    return Parser(
        "train",
        "Train a classifier on DATA: a folder of class folders, a folder with train/ and test/, a CSV with "
        "path,label[,split], a parquet table, hf:NAME of the Hugging Face hub, 'digits', or a torchvision data set by "
        f"name. {_short_flags(SHORT)}",
        "vit train photos/ --network vit_tiny_patch16_224 --epochs 30",
        SHORT,
    )


def _pretrain_parser() -> Parser:
    short = {flag: dotted for flag, dotted in SHORT.items() if dotted.removeprefix("--") not in UNUSED}
    return Parser(
        "pretrain",
        "Learn from images without labels, and leave a backbone that 'vit train DATA --init_from RUN' starts from. "
        "DATA: a folder of images at any depth, a CSV with path, or labeled data as for 'vit train', of which only "
        "the training images are used. The shown defaults are those of --method diet from random weights; mae and "
        f"--init_from have their own. {_short_flags(short)}",
        "vit pretrain photos/ --network vit_tiny_patch16_224 --epochs 100",
        short,
    )


def _short_flags(short: Mapping[str, str]) -> str:
    return f"Short flags: {', '.join(f'{flag} ({dotted[2:]})' for flag, dotted in short.items())}."


def to_recipe(parser: Parser, config: Namespace) -> Recipe:
    """The recipe of parsed options, of the parser's kind; UsageError for a wrong time, tracker or None."""
    whole = parser.instantiate(config)
    kind = PretrainRecipe if "method" in whole else Recipe
    recipe = plain_values(kind(**{item.name: getattr(whole, item.name) for item in fields(kind)}))
    _refuse_none(recipe)
    if recipe.model.init_from in FROM_RANDOM:
        recipe.model.init_from = None
    if recipe.optim.time is not None:
        seconds(recipe.optim.time, "--time")
    chosen_trackers(recipe)
    return recipe


def _refuse_none(part: Any, beginning: str = "") -> None:
    """Raise UsageError for an option that is None and must have a value. The parser lets None pass from files.

    Args:
        part: a recipe, or a section of a recipe.
        beginning: name of the section with its dot.
    """
    for name, hint in get_type_hints(type(part)).items():
        value = getattr(part, name)
        if is_dataclass(value):
            _refuse_none(value, f"{beginning}{name}.")
        elif value is None and NoneType not in get_args(hint):
            raise UsageError(f"{beginning}{name} is None", "give a value, or leave it out")


def read_recipe(path: Path) -> Recipe:
    """The recipe in the config.yaml of a run, which an earlier version may have written.

    Raises:
        DataError: the file holds no recipe.
    """
    try:
        text = read_text(path)
        is_recipe = isinstance(parse_yaml(text), dict)
    except (OSError, ValueError):
        is_recipe = False
    if not is_recipe:
        raise DataError(f"{path} holds no recipe", "restore it, or train again")
    return parse_recipe(text)


def parse_recipe(text: str) -> Recipe:
    """The recipe of a text that `dump` wrote, in this version or an earlier one."""
    parser = kept_parser(PretrainRecipe if is_of_pretraining(text) else Recipe)
    recipe = to_recipe(parser, parser.parse_string(with_todays_names(text)))
    if "color_profiles:" not in text:
        recipe.model.preprocess.color_profiles = "ignore"  # what a run did before there was a choice
    return recipe


def check_names(recipe: Recipe) -> None:
    """Raise an error before torch is imported if the network, weights, teacher, DATA or a tracker do not exist.

    The same holds for a fold and a pattern of groups that cannot be read.
    """
    network = recipe.model.network.get("name", "auto")
    if network != "auto":
        check_network(str(network))
        check_image_size(recipe.model.network, recipe.model.preprocess.image_size)
    if recipe.model.init_from is not None:
        check_weights(recipe.model.init_from)
    if recipe.distill.teacher is not None:
        check_model(recipe.distill.teacher)
    check_data(recipe.data.source)
    check_trackers(recipe)
    if recipe.data.groups is not None or recipe.data.fold is not None:
        from vit.data.folds import read_fold
        from vit.data.groups import group_pattern

        if recipe.data.groups is not None:
            group_pattern(recipe.data.groups)
        if recipe.data.fold is not None:
            read_fold(recipe.data.fold)


def listed_images(recipe: Recipe) -> "Source | None":
    """The image files of DATA, listed before torch is imported; None for data sets with a name."""
    return None if recipe.data.source in KNOWN else opened_images(recipe)


def opened_images(recipe: Recipe) -> "Source":
    """The images of DATA, also of a data set with a name."""
    from vit.training.planning.images import opened_data

    return opened_data(recipe.data)
