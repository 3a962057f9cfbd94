"""The recipes that a study compares, from its options; and what it refuses before it trains"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.configs import find_config, shipped_configs
from vit.commands.cli.recipe_options import AUTO, RANDOM, SHORT, check_names, make_parser
from vit.commands.studies.study_options import StudyOptions, items
from vit.commands.training.train_options import read_with
from vit.errors import UsageError
from vit.models.network_names import check_network
from vit.training.recipes.recipe import Recipe, as_trained
from vit.training.tracking.tracker import WandbMode, refuse_register

if TYPE_CHECKING:
    from vit.data.core.samples import Source
    from vit.study.grid import Budget, Cell, Inputs

_NETWORK = ("model.network", "model.init_from")  # options that choose a network or its initial weights
_OF_CELLS = {"seed": "--seeds", "data.subset_seed": "--seeds", "data.train_images": "--sizes"}
ONE_DEVICE = ("trainer.devices", "trainer.num_nodes")  # options that a cell and a fold do not follow
_OF_LENGTH = ("optim.steps", "optim.epochs")
Series = dict[str, dict[str, Recipe]]  # {name: {tried values: recipe}}


def series_of(options: StudyOptions) -> Series:
    """The recipes of every series, whose names of networks and data are checked.

    Raises:
        UsageError: a name or a value is wrong, or the recipes name different data.
    """
    from vit.study.cell_files import has_weights_pattern, without_cell_files
    from vit.study.grid import of_cells
    from vit.study.spec import make_series

    parser = make_parser()

    def read(words: Sequence[str]) -> Recipe:
        """As `vit train` reads them, but for published weights that it finds by itself."""
        given = read_with(parser, words)[0].layers
        recipe = of_cells(given.recipe(), "a study", "leave it out, and give --budget in steps or epochs")
        if recipe.model.freeze != "backbone" and not given.says("optim.best_metric"):
            recipe = replace(recipe, optim=replace(recipe.optim, best_metric="last"))  # needs no validation images
        is_open = recipe.model.init_from in (AUTO, RANDOM)
        return replace(recipe, model=replace(recipe.model, init_from=None)) if is_open else recipe

    data = {f"data.{key}": value for key, value in options.data.items()}
    if options.source is not None:
        data["data.source"] = options.source
    wandb = tracking_of_cells(options.wandb, options.tracker)
    shared = {**data, **options.set, "wandb": wandb, "tracker": options.tracker}
    assert not isinstance(options.tune, str)
    vary, tune = ({key: items(values) for key, values in grid.items()} for grid in (options.vary, options.tune))
    series = make_series(_networks(options), shared, vary, tune, read)
    recipes = [recipe for choices in series.values() for recipe in choices.values()]
    for recipe in recipes:
        refuse_register(recipe, "a study")
        if has_weights_pattern(recipe) and recipe.model.network.get("name", "auto") == "auto":
            raise UsageError(f"model.init_from {recipe.model.init_from} for the network auto", "name the network")
        check_names(without_cell_files(recipe))  # cells have the names
    sources = {recipe.data.source for recipe in recipes}
    if len(sources) > 1:
        raise UsageError(f"the recipes name different data: {', '.join(sorted(sources))}", "give DATA")
    return series


def is_open(options: StudyOptions) -> bool:
    """Whether no option chooses a network or its initial weights, beside --init_from."""
    given = (*options.set, *options.tune, *options.vary)
    return options.networks == AUTO and not any(name.startswith(_NETWORK) for name in given)


def _networks(options: StudyOptions) -> dict[str, list[str]]:
    """{name: words of a command line that choose a network or a recipe, and further options of `vit train`}."""
    given = options.networks
    found: dict[str, list[str]] = {}
    for label, words in given.items() if isinstance(given, dict) else ((word, word) for word in items(given)):
        if str(label) in found:
            raise UsageError(f"--networks has {label} twice", "leave one out")
        word, *further = str(words).split()
        is_recipe = word in shipped_configs() or Path(word).expanduser().suffix in (".yaml", ".yml")
        if not is_recipe and word != "auto":
            check_network(word, [name for name in shipped_configs() if not name.startswith("studies/")])
        beginning = f"--config={find_config(word)}" if is_recipe else f"--model.network.name={word}"
        found[str(label)] = [beginning, *further]
    if options.init_from and not is_open(options):
        if len(options.init_from) != len(found):
            problem = f"{len(options.init_from)} files of --init_from for {len(found)} networks ({', '.join(found)})"
            raise UsageError(problem, "give one for each network, in their order")
        for options_of_network, file in zip(found.values(), options.init_from, strict=True):
            options_of_network.append(f"--model.init_from={file}")
    if not found:
        raise UsageError("--networks is empty", "give at least one; 'vit models' lists them")
    return found


def tracking_of_cells(wandb: WandbMode, tracker: str | None) -> WandbMode:
    """Weights & Biases of the cells.

    Where no tracker is named, "auto" is what WANDB_MODE says, or else online only if you are logged in.
    """
    if wandb != "auto" or tracker is not None:
        return wandb

    from vit.training.tracking.wandb_tracker import intended, logged_in

    status, _ = intended(wandb)
    return status if status != "online" or logged_in() else "off"


def check_given(options: StudyOptions, budget: "Budget") -> None:
    """Raise UsageError for an option of cells that the study itself decides, and would overwrite."""
    for name in _given(options):
        if name in _OF_CELLS:
            raise UsageError(f"a study decides {name} of every cell", f"leave it out, and give {_OF_CELLS[name]}")
        if name in ONE_DEVICE:
            raise UsageError(f"{name} in a study, whose cells train on one device each", "leave it out")
        if name in _OF_LENGTH and (budget.steps or budget.epochs):
            raise UsageError(
                f"--budget {budget} decides the length of every training, so {name} would do nothing",
                f"leave {name} out, or give --budget recipe for trainings as long as their own options say",
            )


def _given(options: StudyOptions) -> Iterator[str]:
    """Dotted names of all options that the user gave for the cells, also beside the name of a network."""
    assert not isinstance(options.tune, str)
    yield from (*options.set, *options.vary, *options.tune, *(f"data.{name}" for name in options.data))
    if isinstance(options.networks, Mapping):
        for words in options.networks.values():
            flags = (word.partition("=")[0] for word in str(words).split() if word.startswith("--"))
            yield from (SHORT.get(flag, flag).removeprefix("--") for flag in flags)


def check_different(cells: Iterable["Cell"], inputs: "Inputs") -> None:
    """Raise UsageError where two series, or two values to tune, are one training: their comparison says nothing."""
    from vit.study.grid import key_of

    found: dict[str, Cell] = {}
    for cell in cells:
        same = found.setdefault(key_of(as_trained(cell.recipe), inputs), cell)  # with its number of images and its seed
        if same is not cell:
            cut = same.recipe.optim.batch_size == cell.num_images
            raise UsageError(
                f"{same.describe()} and {cell.describe()} are the same training",
                "give larger --sizes: a batch has no more images than there are" if cut else "leave one of them out",
            )


def check_same_images(series: str, source: "Source", first: str, expected: "Source") -> None:
    """Raise UsageError where two series validate or test on different images or groups, which cannot be paired."""
    for split in sorted((expected.splits.keys() | source.splits.keys()) - {"train"}):
        own, other = (found.splits.get(split) for found in (source, expected))
        if own is None or other is None or own.fingerprint() != other.fingerprint():
            raise UsageError(
                f"{first} and {series} have different {split} images, and a study compares series on the same ones",
                "give options that split the images (data.split_seed, data.test, data.validation) once for all: --set",
            )
        if own.groups != other.groups:
            raise UsageError(
                f"{first} and {series} have different groups of the {split} images, and intervals count one kind",
                "give data.groups once for all: --set",
            )
