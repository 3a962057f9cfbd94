"""The recipes that a study compares: from its options, and where they are open, for its images"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import floor, log, log10
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.recipe_layers import FINETUNE
from vit.commands.cli.recipe_options import AUTO, RANDOM, check_names, find_config, shipped_configs
from vit.commands.studies.study_options import StudyOptions, items
from vit.commands.training.train_options import PUBLISHED, read_words, unavailable
from vit.console import Reporter
from vit.data.core.dataset_names import KNOWN
from vit.errors import UsageError, explained
from vit.models.catalog import CATALOG, check_network
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import DistillConfig, Recipe
from vit.training.tracking.tracker import WandbMode, refuse_register
from vit.training.tracking.wandb_tracker import intended, logged_in

if TYPE_CHECKING:
    from vit.data.core.samples import Source
    from vit.study.folder import StudyDirectory

ONE_DEVICE = ("trainer.devices", "trainer.num_nodes")  # options that a cell and a fold do not follow
# EfficientNet-Lite0 of Google: Apache 2.0, 19 MB; beside PUBLISHED on photographs in docs/results.md
PUBLISHED_CNN = "timm:tf_efficientnet_lite0.in1k"
# DeiT-S and a ResNet-50 (Wightman et al. 2021, A1): Apache 2.0, 88 and 102 MB; 1.1 times its parameters, 1.0 its FLOPs
SECOND_PAIR = {"vit_small_patch16_224": "timm:deit_small_patch16_224.fb_in1k", "resnet50": "timm:resnet50.a1_in1k"}
# from random weights, on photographs of 64 pixels: 1.2 million parameters, 0.6 to 0.7 billion FLOPs each
SMALL = ("vit_mini_patch4_28 --model.preprocess.image_size=64", "resnet10_small --model.preprocess.image_size=64")
FROM_RANDOM = "steps:2000"  # length of a training
FEW_IMAGES = 300
FEW_TEST_IMAGES = 100
LEAST_FOLDS, MOST_FOLDS = 5, 10
_LEAST_IMAGES = 20
Series = dict[str, dict[str, Recipe]]  # {name: {tried values: recipe}}


def series_of(options: StudyOptions) -> Series:
    """The recipes of every series, whose names of networks and data are checked."""
    from vit.study.grid import of_cells
    from vit.study.spec import has_weights_pattern, make_series, without_cell_files

    def read(words: Sequence[str]) -> Recipe:
        """As `vit train` reads them, but for published weights that it finds by itself."""
        layers = read_words(words).layers
        recipe = of_cells(layers.recipe(), "a study", "leave it out, and give --budget in steps or epochs")
        if recipe.model.freeze != "backbone" and not layers.says("optim.best_metric"):
            recipe = replace(recipe, optim=replace(recipe.optim, best_metric="last"))  # needs no validation images
        is_open = recipe.model.init_from in (AUTO, RANDOM)
        return replace(recipe, model=replace(recipe.model, init_from=None)) if is_open else recipe

    data = {f"data.{key}": value for key, value in options.data.items()}
    if options.source is not None:
        data["data.source"] = options.source
    wandb = tracking_of_cells(options.wandb, options.tracker)
    shared = {**data, **options.set, "wandb": wandb, "tracker": options.tracker}
    vary, tune = ({key: items(values) for key, values in grid.items()} for grid in (options.vary, options.tune))
    series = make_series(networks_of(options), shared, vary, tune, read)
    recipes = recipes_of(series)
    for recipe in recipes:
        refuse_register(recipe, "a study")
        if has_weights_pattern(recipe) and recipe.model.network.get("name", "auto") == "auto":
            raise UsageError(f"model.init_from {recipe.model.init_from} for the network auto", "name the network")
        check_names(replace(without_cell_files(recipe), out=options.out))  # cells have the names
    sources = {recipe.data.source for recipe in recipes}
    if len(sources) > 1:
        raise UsageError(f"the recipes name different data: {', '.join(sorted(sources))}", "give DATA")
    return series


def recipes_of(series: Series) -> list[Recipe]:
    """All recipes of all series."""
    return [recipe for choices in series.values() for recipe in choices.values()]


def networks_of(options: StudyOptions) -> dict[str, list[str]]:
    """{name: words of a command line that choose a network or a recipe, and further options of `vit train`}."""
    named = options.networks
    networks: dict[str, list[str]] = {}
    for label, words in named.items() if isinstance(named, dict) else ((word, word) for word in items(named)):
        if str(label) in networks:
            raise UsageError(f"--networks has {label} twice", "leave one out")
        # without options it is one word: a path may have spaces
        with explained(UsageError, f"--networks {words!r}", "name a network, and close quotation marks", ValueError):
            word, *further = shlex.split(str(words)) if " --" in str(words) else [str(words).strip()]
        is_recipe = word in shipped_configs() or Path(word).expanduser().suffix in (".yaml", ".yml")
        if not is_recipe and word != "auto":
            recipes = [name for name in shipped_configs() if not name.startswith("studies/")]
            check_network(word, recipes, "--networks, split at commas" if isinstance(named, str) else "--networks")
        beginning = f"--config={find_config(word)}" if is_recipe else f"--model.network.name={word}"
        networks[str(label)] = [beginning, *further]
    files = [] if options.is_open else options.init_from
    if files and len(files) != len(networks):
        problem = f"{len(files):,} files of --init_from for {len(networks)} networks ({', '.join(networks)})"
        raise UsageError(problem, "give one for each network, in their order")
    for (label, options_of_network), file in zip(networks.items(), files, strict=False):
        own = read_words(options_of_network).layers.options.get("model.init_from", file)
        if own != file:
            raise UsageError(f"--networks {label}: init_from={own} with --init_from {file}", "leave one out")
        options_of_network.append(f"--model.init_from={file}")
    if not networks:
        raise UsageError("--networks is empty", "give at least one; 'vit models' lists them")
    return networks


def tracking_of_cells(wandb: WandbMode, tracker: str | None) -> WandbMode:
    """Weights & Biases of cells: "auto" without a tracker is what WANDB_MODE says, else online if you are logged in."""
    if wandb != "auto" or tracker is not None:
        return wandb

    status, _ = intended(wandb)
    return status if status != "online" or logged_in() else "off"


def networks_for(
    options: StudyOptions, recipe: Recipe, source: "Source", folder: "StudyDirectory", reporter: Reporter
) -> tuple[dict[str, str], str]:
    """({name: words of its recipe}, reason for them) of networks for some images: a ViT and a CNN, or the ViT alone.

    They learn as `vit train` learns. The two are both recipes that are shipped for the images, or networks for images
    of their size. Photographs start from the weights of files, from published weights, or on demand from random ones.
    Small images start from random weights.
    """
    from vit.training.planning.images import CNN_BESIDE, FOR_PHOTOGRAPHS, SMALLER, automatic_network
    from vit.weights.hubs import fetch

    name, both = recipe.data.source, options.compares_both
    if options.init_from:
        return _of_files(options.init_from), "the files of --init_from"
    if both and {name, f"{name}_cnn"} <= set(shipped_configs()):
        return {name: name, f"{name}_cnn": f"{name}_cnn"}, ""
    vit, side = automatic_network(source.splits["train"])
    if vit == FOR_PHOTOGRAPHS and name not in KNOWN and options.init != "random":
        weights = {vit: PUBLISHED, CNN_BESIDE[vit]: PUBLISHED_CNN} if both else {vit: PUBLISHED}
        weights |= SECOND_PAIR if options.pairs == 2 and both else {}
        for file in weights.values():
            model = file.removeprefix("timm:")
            if obstacle := fetch(model, reporter.notice):
                has_begun = bool(folder.weights())
                what = "published weights" + ", with which this study began," * has_begun
                random = "small networks from random weights, which is another question"
                files = "FILE (once for each network)"
                raise unavailable(what, f"{file}: {obstacle}", files, f"timm/{model}", random)
        why = f"{' and '.join(weights.values())}; --networks {','.join(weights)} starts from random weights"
        return {network: _finetuned(network, file) for network, file in weights.items()}, why
    if options.pairs == 2:
        raise UsageError("--pairs 2 without published weights", "leave it out, or name the --networks")
    why = "random weights, as --init says" if options.init == "random" else ""
    if vit == FOR_PHOTOGRAPHS and options.init == "random":
        return {words.partition(" ")[0]: words for words in SMALL[: 1 + both]}, why
    at_side = f" --model.preprocess.image_size={side}" if side else ""
    cnn = CNN_BESIDE[vit]
    return {vit: vit + at_side, cnn: cnn + at_side + SMALLER.get(vit, "")} if both else {AUTO: AUTO}, why


def _finetuned(network: str, file: str) -> str:
    return shlex.join((FINETUNE, f"--model.network.name={network}", f"--model.init_from={file}"))


def _of_files(files: Iterable[str]) -> dict[str, str]:
    """The networks of files of weights: ViTs first, else in the order of the files."""
    from vit.weights.open import open_pretrained

    networks: dict[str, str] = {}
    for file in files:
        network = open_pretrained(file).own_network({}).name
        if network in networks:
            raise UsageError(f"--init_from {file}: another file is for {network} as well", "give one of them")
        networks[network] = _finetuned(network, file)
    return dict(sorted(networks.items(), key=lambda item: not (item[0] in CATALOG and item[0].startswith("vit"))))


def usual_length(recipes: Iterable[Recipe], pool: int) -> str:
    """The length of a training, short from weights: grows by one power to that of `vit train` with all images."""
    if not all(recipe.model.init_from for recipe in recipes):
        return FROM_RANDOM
    from vit.training.planning.schedule import fine_tuning_steps

    most, few = max(pool, 2), max(1, min(pool, FEW_IMAGES) // 2)
    steps = fine_tuning_steps(most)
    growth = log(steps / fine_tuning_steps(few)) / log(most / few)
    return f"steps:{steps}@{pool}^{growth:.2f}"


def starts_of(recipes: Mapping[str, Recipe]) -> list[tuple[str, str]]:
    """What each series starts from: (series, its weights or "random weights")."""
    from vit.study.answer.answer_warnings import RANDOM_WEIGHTS

    return [(name, recipe.model.init_from or RANDOM_WEIGHTS) for name, recipe in recipes.items()]


def num_folds(options: StudyOptions, source: "Source", listed: "Source | None") -> int:
    """The number of folds, of which each seed tests another, where few images are cut for a test; else 0."""
    seeds = options.seed_list()
    named = (*options.data, *options.set, *options.vary, *options.tune)
    decided = any(name.removeprefix("data.") in ("fold", "test", "groups") for name in named)
    is_cut = listed is not None and set(listed.splits) == {"train"} and source.splits["test"].groups is None
    is_few = len(source.splits["test"]) < FEW_TEST_IMAGES and source.task.is_exclusive  # data.fold needs one class
    is_open = options.is_by_time and seeds == list(range(len(seeds))) and len(seeds) <= MOST_FOLDS
    return max(LEAST_FOLDS, len(seeds)) if is_cut and is_few and is_open and not decided else 0


def fold_sources(data: "DataConfig", listed: "Source | None", folds: int) -> "list[Source]":
    """The images with the splits of each fold."""
    from vit.training.planning.images import divided, opened_data

    images = listed or opened_data(data)
    return [divided(images, replace(data, fold=f"{number}/{folds}")) for number in range(1, folds + 1)]


def sizes_for(pool: int, num_classes: int) -> list[str | int]:
    """Four sizes, as a curve of three parameters needs, in equal ratios of 1.25 or more; all but the largest rounded.

    A size has two images of each class on average, and no fewer than batches of several images need.
    """
    least = max(pool // 10, 2 * num_classes, _LEAST_IMAGES)
    steps = max(0, min(3, int(log(pool / least, 1.25))))
    between = [least * (pool / least) ** (step / steps) for step in range(steps)]
    return [*(min(pool, round(size, 1 - floor(log10(size)))) for size in map(round, between)), "all"]


def decided(series: Series, source: "Source") -> Series:
    """The series with every "auto" decided for these images: one kind of subset for all sizes, a network's name."""
    from vit.training.planning.images import at_revision, with_subset
    from vit.training.planning.plan import plan_of

    result: Series = {}
    for name, tried in series.items():
        choices = {}
        for choice, recipe in tried.items():
            data = with_subset(at_revision(recipe, source).data, source.splits["train"])
            choices[choice] = replace(recipe, data=data)
        network, space, values = name.partition(" ")
        if network == "auto":  # a network that weights of cells decide has a name
            network = plan_of(replace(next(iter(choices.values())), distill=DistillConfig())).spec.name
        label = network + space + values
        if label in result:
            raise UsageError(f"--networks: auto is {label} for these images, which is named as well", "leave one out")
        result[label] = choices
    return result
