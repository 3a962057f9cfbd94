"""Explanations of single images: importance maps by every method, and how faithful each map is

Deletion and insertion tell whether a map marks the patches that the network uses. Patches of an image are removed, or
added, in the order of a map (Petsiuk et al. 2018, "RISE", arXiv 1806.07421). With a faithful map the probability of the
class falls early when the marked patches are removed first, and rises early when they are added first. Both measures
are areas between 0 and 1 under the curve of the probability over the share of changed patches.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from scipy.special import stdtrit
from torch import Tensor
from torch.nn import functional as F

from vit.data.pixels.decode import read_image
from vit.errors import UsageError, nearest
from vit.explain.methods import attention_weights, choose_methods, num_readable_blocks, patch_map
from vit.inference.devices import full_float32
from vit.inference.engine import Engine
from vit.inference.predictor import Predictor
from vit.inference.scores.scored_images import above
from vit.models.vision_transformer import VisionTransformer
from vit.tasks.label_text import SEPARATOR

STEPS = 10
RANDOM_ORDERS = 4
MAX_GRID_SIZE = 14  # for a network without patches
MIN_GRID_SIZE = 4  # with fewer squares an order says little


@dataclass(frozen=True)
class Faithfulness:
    """How well a map's order does on one image."""

    deletion: float  # area when the most important squares are removed first; lower is better
    insertion: float  # area when the most important squares are added first; higher is better
    random: float  # mean area of random orders, whose expectation is the same for deletion and insertion


@dataclass(frozen=True)
class MethodScore:
    """Faithfulness of a method over some images: means, and gains over random orders with 95 % t intervals.

    A gain above 0 means that the map is better than chance.
    """

    method: str
    num_images: int  # number of images
    deletion: float  # mean area under the deletion curve
    insertion: float  # mean area under the insertion curve
    random: float  # mean area for random orders
    deletion_gain: float  # random minus deletion
    deletion_half: float  # half the width of the gain's interval, or NaN with one image
    deletion_better: int  # number of images with a gain
    insertion_gain: float  # insertion minus random
    insertion_half: float  # half the width of the gain's interval, or NaN with one image
    insertion_better: int  # number of images with a gain


@dataclass(frozen=True)
class Explanation:
    """The maps of one image, and their faithfulness."""

    path: str  # path of the image, as given
    label: str  # name of the most probable class; of a model that gives several labels, those of the image as "a|b"
    explained: str  # name of the class that the maps explain
    probability: float  # probability of the class `explained`
    image: Tensor  # input of the network before normalization (3, S, S) uint8
    maps: Mapping[str, Tensor]  # importance (h, w) by method, at least 0
    faithfulness: Mapping[str, Faithfulness]  # deletion and insertion by method, or empty if not measured
    heads: Tensor | None = None  # maps of single attention heads (layers, H, G, G), or None


class Explainer:
    """Explains images one by one, in float32.

    Args:
        methods: comma-separated names, "all" or "best" (see vit/explain/methods.py).
        label: name of the class or label to explain; None: the most probable one of each image.
        layers: comma-separated numbers of blocks, from 0, for maps of single heads; "all", or "" for none.
        with_faithfulness: whether to measure deletion and insertion, by about a hundred predictions for each image.

    Raises:
        UsageError: a method, class or block is unknown, or the network does not have attention heads.
    """

    def __init__(
        self,
        predictor: Predictor,
        methods: str = "all",
        label: str | None = None,
        layers: str = "",
        with_faithfulness: bool = True,
    ) -> None:
        self.predictor, self.with_faithfulness, engine = predictor, with_faithfulness, predictor.engine
        if not isinstance(engine, Engine):
            problem = "vit explain cannot read the layers of an exported file"
            raise UsageError(problem, "give the run or checkpoint of the export")
        if engine.precision != "32-true":  # the maps are computed in float32, too
            network, preprocess, device = engine.network, engine.preprocess, engine.device
            engine = Engine(network, preprocess, device, "32-true", engine.temperature, engine.rules)
        self.engine, self.network = engine, engine.network
        self.methods = choose_methods(methods, self.network)
        if label is not None and label not in predictor.class_names:
            raise UsageError(f"the model has no class {label!r}", nearest(label, predictor.class_names))
        self.number = None if label is None else predictor.class_names.index(label)
        self.layers = self._blocks(layers)

    @full_float32()
    def explain(self, path: str) -> Explanation:
        """The explanation of one file. Raises ImageError if the file cannot be read."""
        engine, class_names = self.engine, self.predictor.class_names
        image = self.predictor.preprocess(read_image(path, self.predictor.preprocess.decoding))
        probabilities = engine.probabilities(image[None])[0]
        top = int(probabilities.argmax())
        number = top if self.number is None else self.number
        normalized = self.predictor.preprocess.normalize(image[None].to(engine.device))
        asked = torch.tensor([number], device=engine.device)
        maps = {name: method(self.network, normalized, asked)[0].cpu() for name, method in self.methods.items()}
        heads = None
        if self.layers:
            weights = attention_weights(self.network, normalized)
            heads = torch.stack([patch_map(self.network, weights[layer])[0] for layer in self.layers]).cpu()
        measured: Mapping[str, Faithfulness] = {}
        if self.with_faithfulness:
            patch_grid_size = self.network.config.grid_size if isinstance(self.network, VisionTransformer) else None
            grid_size = grid_size_for(self.network.image_size, patch_grid_size)
            measured = faithfulness(
                lambda images: engine.probabilities(images)[:, number], image, mean_color(image), maps, grid_size
            )
        label, explained = self._answer(probabilities, top), class_names[number]
        return Explanation(path, label, explained, float(probabilities[number]), image, maps, measured, heads)

    def _answer(self, probabilities: Tensor, top: int) -> str:
        """The predicted class, or all labels above their thresholds."""
        rules, class_names = self.predictor.multilabel, self.predictor.class_names
        if rules is None:
            return class_names[top]
        (has_label,) = above(probabilities[None].numpy(), rules.thresholds)
        return SEPARATOR.join(name for name, has in zip(class_names, has_label, strict=True) if has)

    def _blocks(self, layers: str) -> Sequence[int]:
        if not layers:
            return ()
        depth = num_readable_blocks(self.network)
        if not depth:
            raise UsageError("the attention heads of this network cannot be read", "leave --layers out")
        if layers == "all":
            return range(depth)
        numbers = [part.strip() for part in layers.split(",")]
        if not all(part.isdecimal() and int(part) < depth for part in numbers):
            raise UsageError(f"--layers is {layers!r}", f"give all, or numbers from 0 to {depth - 1} with commas")
        return [int(part) for part in numbers]


def faithfulness(
    probability: Callable[[Tensor], Tensor],
    image: Tensor,
    background: Tensor,
    maps: Mapping[str, Tensor],
    grid_size: int,
    num_steps: int = STEPS,
    seed: int = 0,
) -> dict[str, Faithfulness]:
    """Deletion and insertion of several maps of one image (3, S, S) uint8, beside random orders.

    Args:
        probability: function from images (B, 3, S, S) uint8 to the probability of the class that is explained (B,).
        background: what replaces removed squares (3, S, S) uint8, from `mean_color`.
        maps: importance (h, w) by the map's name, of any resolution.
        grid_size: number of squares along a side, which divides S.
        num_steps: number of equal parts in which squares are removed. The curves are straight between them.
        seed: seed of the random orders, and of the order of equally important squares.
    """
    draw = torch.Generator().manual_seed(seed)
    random = [torch.randperm(grid_size**2, generator=draw) for _ in range(RANDOM_ORDERS)]
    ranked = [_order(importance, grid_size, draw) for importance in maps.values()]
    falling = [_shown(order, grid_size, num_steps) for order in [*random, *ranked]]
    # whether each square shows the image (num_orders * (num_steps - 1), grid_size, grid_size)
    shown = torch.cat([*falling, *(~order for order in falling[RANDOM_ORDERS:])])
    masks = F.interpolate(shown[:, None].to(torch.uint8), size=image.shape[-2:], mode="nearest-exact")
    between = torch.where(masks.bool(), image, background)
    values = probability(torch.cat((image[None], background[None], between)))
    curves = values[2:].view(-1, num_steps - 1)  # between the image and the background
    # areas under curves with the same first and last value, by trapezoids of equal width
    areas = (curves.sum(dim=1) + (values[0] + values[1]) / 2) / num_steps
    by_chance, falls, rises = (part.tolist() for part in areas.split([RANDOM_ORDERS, len(maps), len(maps)]))
    chance = sum(by_chance) / RANDOM_ORDERS
    return {name: Faithfulness(fall, rise, chance) for name, fall, rise in zip(maps, falls, rises, strict=True)}


def grid_size_for(image_size: int, patch_grid_size: int | None) -> int:
    """Number of squares along a side: a ViT's patches, else the largest number up to 14 that divides the side.

    A side such as 331, which no number from 4 to 14 divides, has 14 squares whose widths differ by a pixel.
    """
    largest = max(size for size in range(1, MAX_GRID_SIZE + 1) if image_size % size == 0)
    return patch_grid_size or (largest if largest >= MIN_GRID_SIZE else min(MAX_GRID_SIZE, image_size))


def mean_color(image: Tensor) -> Tensor:
    """Image (3, S, S) uint8 -> an image of the same size, all of the mean color."""
    return image.float().mean(dim=(1, 2), keepdim=True).round().to(torch.uint8).expand_as(image)


def _order(importance: Tensor, grid_size: int, draw: torch.Generator) -> Tensor:
    """Numbers of squares, the most important first, and equally important squares in random order."""
    mean = F.adaptive_avg_pool2d(importance.float()[None], grid_size).flatten()
    shuffled = torch.randperm(grid_size**2, generator=draw)
    return shuffled[mean[shuffled].argsort(descending=True, stable=True)]


def _shown(order: Tensor, grid_size: int, num_steps: int) -> Tensor:
    """Whether squares still show the image while an order removes them (num_steps - 1, grid_size, grid_size)."""
    rank = order.argsort()
    removed = torch.arange(1, num_steps)[:, None] * len(order) / num_steps
    return (rank >= removed.round()).view(-1, grid_size, grid_size)


def score_method(method: str, found: Sequence[Faithfulness]) -> MethodScore:
    """The score of a method over one image or more."""
    falls = [one.random - one.deletion for one in found]
    rises = [one.insertion - one.random for one in found]
    deletion = statistics.fmean(one.deletion for one in found)
    insertion = statistics.fmean(one.insertion for one in found)
    random = statistics.fmean(one.random for one in found)
    return MethodScore(method, len(found), deletion, insertion, random, *_gain(falls), *_gain(rises))


def _gain(gains: Sequence[float]) -> tuple[float, float, int]:
    """The mean, half the width of its 95 % t interval, and the number of gains above 0."""
    half = math.nan
    if len(gains) > 1:
        half = float(stdtrit(len(gains) - 1, 0.975)) * statistics.stdev(gains) / math.sqrt(len(gains))
    return statistics.fmean(gains), half, sum(gain > 0 for gain in gains)
