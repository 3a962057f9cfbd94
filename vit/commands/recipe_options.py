"""The options of a recipe: the parser of `vit train`, and the config.yaml of a run"""

from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import ActionConfigFile, Namespace

from vit.checkpoints.model_path import check_model, check_weights
from vit.commands.parser import Parser
from vit.data.dataset_names import KNOWN, check_data
from vit.models.network_names import check_network
from vit.training.recipes.ranges import seconds
from vit.training.recipes.recipe import (
    AugmentConfig,
    DataConfig,
    DistillConfig,
    ModelConfig,
    OptimConfig,
    Recipe,
    TrainerConfig,
)
from vit.training.recipes.values import plain_values, with_todays_names

if TYPE_CHECKING:
    from vit.data.samples import Source

SHORT = {
    "--network": "--model.network.name",
    "--image_size": "--model.preprocess.image_size",
    "--augment": "--augment.name",
    "--init_from": "--model.init_from",
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
}
SECTIONS = {
    "data": DataConfig,
    "model": ModelConfig,
    "augment": AugmentConfig,
    "optim": OptimConfig,
    "distill": DistillConfig,
    "trainer": TrainerConfig,
}
RANDOM = "none"  # as init_from: the word for random weights, beside null


def make_parser() -> Parser:
    """The parser of `vit train`, which also checks recipe files."""
    flags = ", ".join(f"{short} ({dotted[2:]})" for short, dotted in SHORT.items())
    parser = Parser(
        "train",
        "Train a classifier on DATA: a folder of class folders, a folder with train/ and test/, a CSV with "
        f"path,label[,split], 'digits', or a torchvision data set by name. Short flags: {flags}.",
        "vit train photos/ --network vit_tiny_patch16_224 --epochs 30",
        SHORT,
    )
    about = "recipe: a YAML file, or the name of a shipped recipe (fashion_mnist)"
    parser.add_argument("--config", action=ActionConfigFile, help=about)
    about = "unfinished run to resume; auto: the newest one below --out that has these options, else a new run"
    parser.add_argument("--resume", type=str | None, default=None, metavar="RUN|auto", help=about)
    for name, section in SECTIONS.items():
        parser.add_class_arguments(section, name)
    kinds, defaults = Recipe.__annotations__, Recipe()
    about = "seed of initial weights, order of images, augmentation and dropout"
    parser.add_argument("--seed", type=kinds["seed"], default=defaults.seed, help=about)
    parser.add_argument("--out", type=str, default=defaults.out, help="parent folder of run folders")
    parser.add_argument("--name", type=str | None, default=None, help="last part of the run folder's name")
    about = "Weights & Biases tracking; auto: online where you are logged in, else offline"
    parser.add_argument("--wandb", type=kinds["wandb"], default=defaults.wandb, help=about)
    about = "whether Weights & Biases also gets pictures of your images, and file names with labels"
    parser.add_argument("--wandb_media", type=bool, default=defaults.wandb_media, help=about)
    about = "whether Weights & Biases also gets the best checkpoint"
    parser.add_argument("--wandb_model", type=bool, default=defaults.wandb_model, help=about)
    parser.add_argument("--dry_run", type=bool, default=False, help="show the plan, and train nothing")
    return parser


def to_recipe(parser: Parser, config: Namespace) -> Recipe:
    """The Recipe of parsed options; UsageError for a time that is not one."""
    whole = parser.instantiate(config)
    recipe = plain_values(Recipe(**{key: getattr(whole, key) for key in Recipe.__annotations__}))
    if recipe.model.init_from == RANDOM:
        recipe.model.init_from = None
    if recipe.optim.time is not None:
        seconds(recipe.optim.time, "--time")
    return recipe


def read_recipe(path: Path) -> Recipe:
    """The recipe in the config.yaml of a run, which an earlier version may have written."""
    return parse_recipe(path.read_text(encoding="utf-8"))


def parse_recipe(text: str) -> Recipe:
    """The recipe of a text that `dump` wrote, in this version or an earlier one."""
    parser = make_parser()
    return to_recipe(parser, parser.parse_string(with_todays_names(text)))


def check_names(recipe: Recipe) -> None:
    """Raise an error before torch is imported if the network, weights, teacher or DATA do not exist.

    The same holds for a fold and a pattern of groups that cannot be read.
    """
    network = recipe.model.network.get("name", "auto")
    if network != "auto":
        check_network(str(network))
    if recipe.model.init_from is not None:
        check_weights(recipe.model.init_from)
    if recipe.distill.teacher is not None:
        check_model(recipe.distill.teacher)
    check_data(recipe.data.source)
    if recipe.data.groups is not None or recipe.data.fold is not None:
        from vit.data.folds import read_fold
        from vit.data.groups import group_pattern

        if recipe.data.groups is not None:
            group_pattern(recipe.data.groups)
        if recipe.data.fold is not None:
            read_fold(recipe.data.fold)


def listed_images(recipe: Recipe) -> "Source | None":
    """The image files of DATA, listed before torch is imported; None for data sets with a name."""
    from vit.data.sources import open_source

    data = recipe.data
    return None if data.source in KNOWN else open_source(data.source, data.root, allow_empty=data.allow_empty)
