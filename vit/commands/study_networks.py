"""What a study does where its options leave it open: the networks to compare, sizes, and the length of a training"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import floor, log10
from typing import TYPE_CHECKING

from vit.commands.configs import shipped_configs
from vit.commands.recipe_layers import FINETUNE
from vit.commands.starting import PUBLISHED
from vit.commands.study_options import AUTO, StudyOptions
from vit.console import Reporter
from vit.data.dataset_names import KNOWN
from vit.errors import UsageError
from vit.training.recipes.recipe import Recipe

if TYPE_CHECKING:
    from vit.data.samples import Source
    from vit.study.folder import StudyDirectory

# EfficientNet-Lite0 of Google: Apache 2.0, 19 MB; beside PUBLISHED on photographs in docs/results.md
PUBLISHED_CNN = "timm:tf_efficientnet_lite0.in1k"
FROM_WEIGHTS, FROM_RANDOM = "steps:100,epochs:8", "steps:2000"  # lengths of a training
_LEAST_IMAGES = 20
_NETWORK = ("model.network", "model.init_from")  # options that choose a network or its initial weights
_OF_NETWORKS, _OF_IMAGES = ("model.", "distill."), "model.preprocess."  # the first need not suit both networks


@dataclass(frozen=True)
class Chosen:
    """Networks that no option has chosen.

    Attributes:
        networks: {name: words of its recipe}, the ViT first.
        why: what they start from, and the reason; empty where no published weights are for these images.
    """

    networks: dict[str, str]
    why: str = ""


def is_open(options: StudyOptions) -> bool:
    """Whether no option chooses a network or its initial weights."""
    given = (*options.set, *options.tune, *options.vary)
    return options.networks == AUTO and not any(name.startswith(_NETWORK) for name in given)


def compares_both(options: StudyOptions) -> bool:
    """Whether an open study compares a ViT and a CNN: it compares no values, and sets none that suits one of them."""
    given = [name for name in (*options.set, *options.tune) if not name.startswith(_OF_IMAGES)]
    return not options.vary and not any(name.startswith(_OF_NETWORKS) for name in given)


def networks_for(
    options: StudyOptions, recipe: Recipe, source: "Source", folder: "StudyDirectory", reporter: Reporter
) -> Chosen:
    """The networks for some images, which learn as `vit train` learns: a ViT and a CNN, or the ViT alone.

    The two are both recipes that are shipped for the images, or networks for images of their size. Photographs start
    from published weights where these can be had: those of all networks, or of none. A study that began is continued
    from what it began with.

    Args:
        options: options that are open.
        recipe: their recipe.
        source: images of all splits.
        folder: folder of the study, which need not exist.
        reporter: receives a line before a download.

    Raises:
        UsageError: the study began from published weights that cannot be had, or its other shards may have them.
    """
    from vit.training.planning.automatic_network import CNN_BESIDE, FOR_PHOTOGRAPHS, automatic_network

    name, both = recipe.data.source, compares_both(options)
    if both and {name, f"{name}_cnn"} <= set(shipped_configs()):
        return Chosen({name: name, f"{name}_cnn": f"{name}_cnn"})
    vit, side = automatic_network(source.splits["train"], recipe.model.preprocess.channels)
    cnn = CNN_BESIDE[vit]
    at_side = f" --model.preprocess.image_size={side}" if side else ""
    random = {vit: vit + at_side, cnn: cnn + at_side} if both else {AUTO: AUTO}
    if vit != FOR_PHOTOGRAPHS or name in KNOWN:
        return Chosen(random)

    weights = {vit: PUBLISHED, cnn: PUBLISHED_CNN} if both else {vit: PUBLISHED}
    began = folder.weights() if folder.description_path.is_file() else None
    obstacle = "the study began without them" if began == [] else _obstacle(weights.values(), reporter)
    if obstacle and set(began or ()) == set(weights.values()):
        raise UsageError(
            f"{folder.path} began from {' and '.join(weights.values())}, which cannot be had ({obstacle})",
            "make the weights available again, or give --name for a new folder",
        )
    if obstacle and began is None and options.part != (1, 1):
        raise UsageError(
            f"--shard {options.shard}: {obstacle}, and other shards may have them",
            f"make them available, or give --networks {','.join(weights)} to every shard for random weights",
        )
    if obstacle:
        why = f"random weights: {obstacle}; --networks with recipes starts from other weights"
        return Chosen(random, why)
    why = f"{' and '.join(weights.values())}; --networks {','.join(weights)} starts from random weights"
    start = "{recipe} --model.network.name={network} --model.init_from={file}"
    return Chosen(
        {network: start.format(recipe=FINETUNE, network=network, file=file) for network, file in weights.items()}, why
    )


def with_grid(options: StudyOptions, recipes: Iterable[Recipe], source: "Source") -> StudyOptions:
    """The options with decided sizes and a decided length, which is short where every network starts from weights."""
    starts = [recipe.model.init_from for recipe in recipes]
    length = FROM_WEIGHTS if all(starts) else FROM_RANDOM
    sizes = sizes_for(len(source.splits["train"]), len(source.class_names))
    return replace(
        options,
        sizes=sizes if options.sizes == AUTO else options.sizes,
        budget=length if options.budget == AUTO else options.budget,
    )


def sizes_for(pool: int, num_classes: int) -> list[str | int]:
    """Four sizes, as a curve of three parameters needs, in equal ratios; all but the largest of two digits.

    A size has two images of each class on average, and no fewer than batches of several images need.
    """
    least = max(pool // 10, 2 * num_classes, _LEAST_IMAGES)
    between = [least * (pool / least) ** (step / 3) for step in range(3)] if least < pool else []
    return [*(min(pool, round(size, 1 - floor(log10(size)))) for size in map(round, between)), "all"]


def _obstacle(weights: Iterable[str], reporter: Reporter) -> str:
    """Why one of several weights of timm cannot be had; empty: they are all in the cache."""
    from vit.weights.hub_cache import fetch

    for name in weights:
        found = fetch(name.removeprefix("timm:"), reporter.notice)
        if found:
            return f"{name} cannot be had ({found})"
    return ""
