"""A recipe as options: the command line of `vit train`, recipe files, and the config.yaml of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from jsonargparse import ActionConfigFile, Namespace

from vit.checkpoints.model_path import check_weights
from vit.commands.arguments import expand, parse
from vit.commands.configs import find_config, shipped_configs
from vit.commands.parser import Parser
from vit.data.dataset_names import KNOWN, check_data
from vit.models.names import check_network
from vit.training.recipe import AugmentConfig, DataConfig, ModelConfig, OptimConfig, Recipe, TrainerConfig, plain_values

if TYPE_CHECKING:
    from vit.data.samples import Source

SHORT = {
    "--network": "--model.network.name",
    "--image_size": "--model.preprocess.image_size",
    "--augment": "--augment.name",
    "--init_from": "--model.init_from",
    "--freeze": "--model.freeze",
    "--lora": "--model.lora",
    "--epochs": "--optim.epochs",
    "--batch_size": "--optim.batch_size",
    "--lr": "--optim.lr",
    "--precision": "--trainer.precision",
    "--devices": "--trainer.devices",
    "--num_nodes": "--trainer.num_nodes",
    "--strategy": "--trainer.strategy",
    "--checkpoint_every": "--trainer.checkpoint_every",
}
FINETUNE, LORA = "finetune", "lora"
SECTIONS = {
    "data": DataConfig,
    "model": ModelConfig,
    "augment": AugmentConfig,
    "optim": OptimConfig,
    "trainer": TrainerConfig,
}


def make_parser() -> Parser:
    """The command line of `vit train`; recipes are checked by it too."""
    flags = ", ".join(f"{short} ({dotted[2:]})" for short, dotted in SHORT.items())
    parser = Parser(
        "train",
        "Train a classifier on DATA: a folder of class folders, a folder with train/ and test/, a CSV with "
        f"path,label[,split], 'digits', or a torchvision data set by name. Short flags: {flags}.",
        "vit train photos/ --network vit_tiny_patch16_224 --epochs 30",
        SHORT,
    )
    about = "a recipe: a YAML file, or a shipped one by name (fashion_mnist)"
    parser.add_argument("--config", action=ActionConfigFile, help=about)
    about = "go on with an unfinished run; auto: the newest one below --out that has these options, or a new one"
    parser.add_argument("--resume", type=str | None, default=None, metavar="RUN|auto", help=about)
    for name, section in SECTIONS.items():
        parser.add_class_arguments(section, name)
    kinds, defaults = Recipe.__annotations__, Recipe()
    parser.add_argument("--seed", type=kinds["seed"], default=defaults.seed, help="of everything random")
    parser.add_argument("--out", type=str, default=defaults.out, help="folder that run folders are made in")
    parser.add_argument("--name", type=str | None, default=None, help="last part of the run folder's name")
    parser.add_argument("--wandb", type=kinds["wandb"], default=defaults.wandb, help="Weights & Biases")
    about = "whether it also gets pictures that show your images, and file names with labels"
    parser.add_argument("--wandb_media", type=bool, default=defaults.wandb_media, help=about)
    about = "whether it also gets the best checkpoint"
    parser.add_argument("--wandb_model", type=bool, default=defaults.wandb_model, help=about)
    about = "show the plan, and train nothing"
    parser.add_argument("--dry_run", type=bool, default=False, help=about)
    return parser


def parse_options(parser: Parser, arguments: Sequence[str]) -> Namespace:
    """A command line, with short flags written out and shipped recipes found.

    Where it starts from weights, the shipped recipes for that, and for LoRA, lie beneath all that is given.
    """
    expanded = expand(arguments, SHORT, "data.source")
    given = [token.partition("=")[::2] for token in expanded]
    beneath: list[str] = []
    if not {"--config", "--help"} & {name for name, _ in given} and dict(given).get("--resume", "auto") == "auto":
        sources = [value for name, value in given if name == "--data.source"]
        source = sources[-1] if sources else Recipe().data.source
        if source in shipped_configs():  # a data set that comes with a recipe is trained by it
            beneath.append(source)
    asked = [token.partition("=")[2] for token in expanded if _is_config(token)]
    # recipes first, so that an option beats one wherever it stands
    options = [token for token in expanded if not _is_config(token)]
    if "--help" not in options:
        beneath += _beneath(parser, [*_configs(asked), *options])
    config: Namespace = parse(parser, [*_configs(beneath), *_configs(asked), *options])
    return config


def names_data(arguments: Sequence[str]) -> bool:
    """Whether a command line says what to train on: itself, by a recipe, or by the run that it goes on with."""
    tokens = expand(arguments, SHORT, "data.source")
    if any(token.startswith("--data.source=") for token in tokens):
        return True
    if any(token.startswith("--resume=") and not token.endswith("=auto") for token in tokens):
        return True
    recipes = [find_config(token.partition("=")[2]) for token in tokens if _is_config(token)]
    contents = [yaml.safe_load(path.read_text(encoding="utf-8")) or {} for path in recipes]
    return any("source" in (content.get("data") or {}) for content in contents)


def _configs(names: Sequence[str]) -> list[str]:
    return [f"--config={find_config(name)}" for name in names]


def _beneath(parser: Parser, whole: Sequence[str]) -> list[str]:
    """The recipes that come with weights to start from, and with LoRA, where an option or a recipe says so."""
    said: Namespace = parse(parser, [token for token in whole if token != "--print_config"])
    model = said.model
    return [name for name, value in ((FINETUNE, model.init_from), (LORA, model.lora)) if value is not None]


def _is_config(token: str) -> bool:
    return token.startswith("--config=")


def to_recipe(parser: Parser, config: Namespace) -> Recipe:
    """A parsed command line or file as a Recipe."""
    whole = parser.instantiate(config)
    return plain_values(Recipe(**{key: getattr(whole, key) for key in Recipe.__annotations__}))


def check_names(recipe: Recipe) -> None:
    """Raise an error if the network, the weights to start from or DATA are not there: before torch is imported."""
    network = recipe.model.network.get("name", "auto")
    if network != "auto":
        check_network(str(network))
    if recipe.model.init_from is not None:
        check_weights(recipe.model.init_from)
    check_data(recipe.data.source)


def listed_images(recipe: Recipe) -> "Source | None":
    """The images of DATA where they are files, also before torch is imported; None for data sets with a name."""
    from vit.data.sources import open_source

    data = recipe.data
    return None if data.source in KNOWN else open_source(data.source, data.root, allow_empty=data.allow_empty)


def read_recipe(path: Path) -> Recipe:
    """The recipe of a YAML file."""
    parser = make_parser()
    return to_recipe(parser, parse(parser, [f"--config={path}"]))
