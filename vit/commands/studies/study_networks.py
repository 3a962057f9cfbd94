"""What a study does where its options leave it open: the networks to compare, sizes, and the length of a training"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import floor, log, log10
from typing import TYPE_CHECKING

from vit.commands.cli.configs import shipped_configs
from vit.commands.cli.recipe_layers import FINETUNE
from vit.commands.studies.study_options import AUTO, StudyOptions
from vit.commands.studies.study_series import Series, is_open
from vit.commands.training.starting import PUBLISHED, unavailable
from vit.console import Reporter
from vit.data.core.dataset_names import KNOWN
from vit.errors import UsageError
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import DistillConfig, Recipe

if TYPE_CHECKING:
    from vit.data.core.samples import Source
    from vit.models.spec import Cost
    from vit.study.folder import StudyDirectory

# EfficientNet-Lite0 of Google: Apache 2.0, 19 MB; beside PUBLISHED on photographs in docs/results.md
PUBLISHED_CNN = "timm:tf_efficientnet_lite0.in1k"
# DeiT-S and a ResNet-50 (Wightman et al. 2021, A1): Apache 2.0, 88 and 102 MB; 1.1 times its parameters, 1.0 its FLOPs
SECOND_PAIR = {
    "vit_small_patch16_224": "timm:deit_small_patch16_224.fb_in1k",
    "resnet50": "timm:resnet50.a1_in1k",
}
# from random weights, on photographs of 64 pixels: 1.2 million parameters, 0.6 to 0.7 billion FLOPs each
SMALL = ("vit_mini_patch4_28 --model.preprocess.image_size=64", "resnet10_small --model.preprocess.image_size=64")
FROM_RANDOM = "steps:2000"  # length of a training
FEW_IMAGES = 300
FEW_TEST_IMAGES = 100
LEAST_FOLDS, MOST_FOLDS = 5, 10
UNEQUAL = 2.0  # times the parameters or FLOPs
_LEAST_IMAGES = 20
_OF_NETWORKS, _OF_IMAGES = ("model.", "distill."), "model.preprocess."  # the first need not suit both networks


@dataclass(frozen=True)
class DefaultNetworks:
    """Networks that no option has chosen."""

    networks: dict[str, str]  # {name: words of its recipe}, the ViT first
    why: str = ""  # what they start from, and the reason; empty where no published weights are for these images


def compares_both(options: StudyOptions) -> bool:
    """Whether an open study compares a ViT and a CNN: it compares no values, and sets none that suits one of them."""
    given = [name for name in (*options.set, *options.tune) if not name.startswith(_OF_IMAGES)]
    return not options.vary and not any(name.startswith(_OF_NETWORKS) for name in given)


def networks_for(
    options: StudyOptions, recipe: Recipe, source: "Source", folder: "StudyDirectory", reporter: Reporter
) -> DefaultNetworks:
    """The networks for some images, which learn as `vit train` learns: a ViT and a CNN, or the ViT alone.

    The two are both recipes that are shipped for the images, or networks for images of their size. Photographs start
    from the weights of files, from published weights, or on demand from random ones. Small images start from random
    weights.

    Args:
        options: options that are open.
        folder: folder of the study, which need not exist.
        reporter: receives a line before a download.

    Raises:
        UsageError: the published weights are not available, or two files are for one network.
    """
    from vit.training.planning.automatic_network import CNN_BESIDE, FOR_PHOTOGRAPHS, SMALLER, automatic_network
    from vit.weights.hubs import fetch

    name, both = recipe.data.source, compares_both(options)
    if options.init_from:
        return _of_files(options.init_from)
    if both and {name, f"{name}_cnn"} <= set(shipped_configs()):
        return DefaultNetworks({name: name, f"{name}_cnn": f"{name}_cnn"})
    vit, side = automatic_network(source.splits["train"], recipe.model.preprocess.channels)
    if vit == FOR_PHOTOGRAPHS and name not in KNOWN and options.init != "random":
        weights = {vit: PUBLISHED, CNN_BESIDE[vit]: PUBLISHED_CNN} if both else {vit: PUBLISHED}
        weights |= SECOND_PAIR if options.pairs == 2 and both else {}
        has_begun = folder.description_path.is_file() and list(folder.weights())
        _check_available(weights.values(), partial(fetch, notice=reporter.notice), is_begun=bool(has_begun))
        why = f"{' and '.join(weights.values())}; --networks {','.join(weights)} starts from random weights"
        return DefaultNetworks({network: _finetuned(network, file) for network, file in weights.items()}, why)
    if options.pairs == 2:
        raise UsageError("--pairs 2 without published weights", "leave it out, or name the --networks")
    why = "random weights, as --init says" if options.init == "random" else ""
    if vit == FOR_PHOTOGRAPHS and options.init == "random":
        return DefaultNetworks({words.partition(" ")[0]: words for words in SMALL[: 1 + both]}, why)
    at_side = f" --model.preprocess.image_size={side}" if side else ""
    cnn = CNN_BESIDE[vit]
    found = {vit: vit + at_side, cnn: cnn + at_side + SMALLER.get(vit, "")} if both else {AUTO: AUTO}
    return DefaultNetworks(found, why)


def check_start(options: StudyOptions, recipe: Recipe, listed: "Source | None") -> None:
    """Raise UsageError within a second where photographs need published weights that are surely not available.

    `networks_for` finds the same. It imports torch and timm first, and this error should not wait for them.
    """
    if listed is None or not is_open(options) or options.init_from or options.init == "random":
        return
    from vit.training.planning.automatic_network import FOR_PHOTOGRAPHS, automatic_network
    from vit.weights.hubs import sure_obstacle

    if recipe.data.source in KNOWN:
        return
    network, _ = automatic_network(listed.splits["train"], recipe.model.preprocess.channels)
    if network != FOR_PHOTOGRAPHS:
        return
    wanted = (PUBLISHED, PUBLISHED_CNN) if compares_both(options) else (PUBLISHED,)
    _check_available(wanted, sure_obstacle)


def _check_available(weights: Iterable[str], obstacle_of: Callable[[str], str], is_begun: bool = False) -> None:
    """Raise UsageError for the first of several weights of timm that has an obstacle."""
    what = "published weights" + ", with which this study began," * is_begun
    random = "small networks from random weights, which is another question"
    for name in weights:
        model = name.removeprefix("timm:")
        if obstacle := obstacle_of(model):
            raise unavailable(what, f"{name}: {obstacle}", "FILE (once for each network)", f"timm/{model}", random)


def _finetuned(network: str, file: str) -> str:
    return f"{FINETUNE} --model.network.name={network} --model.init_from={file}"


def _of_files(files: Iterable[str]) -> DefaultNetworks:
    """The networks of files of weights: ViTs first, else in the order of the files."""
    from vit.models.catalog import CATALOG
    from vit.weights.open import open_pretrained

    found: dict[str, str] = {}
    for file in files:
        network = open_pretrained(file).own_network({}).name
        if network in found:
            raise UsageError(f"--init_from {file}: another file is for {network} as well", "give one of them")
        found[network] = _finetuned(network, file)
    ordered = sorted(found, key=lambda name: not (name in CATALOG and name.startswith("vit")))
    return DefaultNetworks({name: found[name] for name in ordered}, "the files of --init_from")


def usual_length(recipes: Iterable[Recipe], pool: int) -> str:
    """The length of a training, which is short where every network starts from weights.

    It is that of `vit train` with all images, and grows to it by one power, so that no kink is in the curve.
    """
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


def unequal_networks(costs: Mapping[str, "Cost"]) -> list[str]:
    """A sentence where networks differ by more than two times in parameters or FLOPs; none where they are matched."""
    found = []
    for what in ("parameters", "FLOPs"):
        of = {name: getattr(cost, what.lower()) for name, cost in costs.items()}
        small, large = min(of, key=lambda name: of[name]), max(of, key=lambda name: of[name])
        if of[large] > UNEQUAL * of[small]:
            found.append(f"{large} has {of[large] / of[small]:.1f} times the {what} of {small}")
    return [f"{' and '.join(found)}: the answer is about these networks, not about ViTs and CNNs"] if found else []


def num_folds(options: StudyOptions, source: "Source", listed: "Source | None") -> int:
    """The number of folds where each seed tests its own, because few images are cut for a test; else 0.

    The same trainings then test all images instead of one part of them.
    """
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

    found = listed or opened_data(data)
    return [divided(found, replace(data, fold=f"{number}/{folds}")) for number in range(1, folds + 1)]


def sizes_for(pool: int, num_classes: int) -> list[str | int]:
    """Four sizes, as a curve of three parameters needs, in equal ratios; all but the largest of two digits.

    A size has two images of each class on average, and no fewer than batches of several images need.
    """
    least = max(pool // 10, 2 * num_classes, _LEAST_IMAGES)
    between = [least * (pool / least) ** (step / 3) for step in range(3)] if least < pool else []
    return [*(min(pool, round(size, 1 - floor(log10(size)))) for size in map(round, between)), "all"]


def decided(series: Series, source: "Source") -> Series:
    """The series with every "auto" decided for these images: one kind of subset for all sizes, a network's name."""
    from vit.training.planning.images import with_subset
    from vit.training.planning.plan import make_plan

    def named(name: str, recipe: Recipe) -> str:
        network, space, values = name.partition(" ")
        alone = replace(recipe, distill=DistillConfig())  # a network that weights of cells decide has a name
        return make_plan(alone).spec.name + space + values if network == "auto" else name

    found: Series = {}
    for name, tried in series.items():
        own = {choice: with_subset(source, recipe) for choice, recipe in tried.items()}
        label = named(name, next(iter(own.values())))
        if label in found:
            raise UsageError(f"--networks: auto is {label} for these images, which is named as well", "leave one out")
        found[label] = own
    return found
