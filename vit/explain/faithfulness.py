"""Deletion and insertion: whether a map marks the patches that the network uses

Patches of an image are removed, or added, in the order of a map (Petsiuk et al. 2018, "RISE", arXiv 1806.07421). A
faithful map makes the probability of the class fall early when the marked patches are removed first. It makes the
probability rise early when they are added first. Both measures are areas between 0 and 1 under the curve of the
probability over the share of changed patches.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from scipy.special import stdtrit
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms.v2.functional import gaussian_blur

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


def faithfulness(
    probability: Callable[[Tensor], Tensor],
    image: Tensor,
    background: Tensor,
    maps: Mapping[str, Tensor],
    grid_size: int,
    num_steps: int = STEPS,
    seed: int = 0,
) -> dict[str, Faithfulness]:
    """Deletion and insertion of several maps of one image, beside random orders.

    Args:
        probability: function from images (B, 3, S, S) uint8 to the probability of the class that is explained (B,).
        image: the image (3, S, S) uint8.
        background: what replaces removed squares (3, S, S) uint8, from `mean_color` or `blurred`.
        maps: importance (h, w) by the map's name, of any resolution.
        grid_size: number of squares along a side, which divides S.
        num_steps: number of equal parts in which squares are removed. The curves are straight between them.
        seed: seed of the random orders, and of the order of equally important squares.
    """
    draw = torch.Generator().manual_seed(seed)
    random = [torch.randperm(grid_size**2, generator=draw) for _ in range(RANDOM_ORDERS)]
    ranked = [_order(importance, grid_size, draw) for importance in maps.values()]
    shown = torch.cat(
        [_shown(order, grid_size, num_steps) for order in random]
        + [_shown(order, grid_size, num_steps) for order in ranked]
        + [~_shown(order, grid_size, num_steps) for order in ranked]
    )  # whether each square shows the image (num_orders * (num_steps - 1), grid_size, grid_size)
    masks = F.interpolate(shown[:, None].to(torch.uint8), size=image.shape[-2:], mode="nearest-exact")
    between = torch.where(masks.bool(), image, background)
    values = probability(torch.cat((image[None], background[None], between)))
    of_image, of_background = values[0], values[1]
    curves = values[2:].view(-1, num_steps - 1)
    falls = _area(of_image, curves[: -len(maps)], of_background).tolist()
    rises = _area(of_background, curves[-len(maps) :], of_image).tolist()
    chance = sum(falls[:RANDOM_ORDERS]) / RANDOM_ORDERS
    return {
        name: Faithfulness(fall, rise, chance)
        for name, fall, rise in zip(maps, falls[RANDOM_ORDERS:], rises, strict=True)
    }


def grid_size_for(image_size: int, patch_grid_size: int | None) -> int:
    """Number of squares along a side: a ViT's patches, else the largest number up to 14 that divides the side.

    A side such as 331, which no number from 4 to 14 divides, has 14 squares whose widths differ by a pixel.
    """
    largest = max(size for size in range(1, MAX_GRID_SIZE + 1) if image_size % size == 0)
    return patch_grid_size or (largest if largest >= MIN_GRID_SIZE else min(MAX_GRID_SIZE, image_size))


def mean_color(image: Tensor) -> Tensor:
    """Image (3, S, S) uint8 -> an image of the same size, all of the mean color."""
    return image.float().mean(dim=(1, 2), keepdim=True).round().to(torch.uint8).expand_as(image)


def blurred(image: Tensor) -> Tensor:
    """Image (3, S, S) uint8 -> the image under a Gaussian of an eighth of its side, which keeps colors, not shapes."""
    side = image.shape[-1]
    kernel_size = min(2 * (side // 4) + 1, 2 * ((side - 1) // 2) - 1)
    return gaussian_blur(image, [max(kernel_size, 1)] * 2, [side / 8] * 2)


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


def _area(first: Tensor, curves: Tensor, last: Tensor) -> Tensor:
    """Areas (n,) under curves (n, num_steps - 1) with the same first and last value, by trapezoids of equal width."""
    return (curves.sum(dim=1) + (first + last) / 2) / (curves.shape[1] + 1)


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


def score_method(method: str, found: Sequence[Faithfulness]) -> MethodScore:
    """The score of a method over one image or more."""
    falls = [one.random - one.deletion for one in found]
    rises = [one.insertion - one.random for one in found]
    return MethodScore(
        method,
        len(found),
        statistics.fmean(one.deletion for one in found),
        statistics.fmean(one.insertion for one in found),
        statistics.fmean(one.random for one in found),
        statistics.fmean(falls),
        _half(falls),
        sum(gain > 0 for gain in falls),
        statistics.fmean(rises),
        _half(rises),
        sum(gain > 0 for gain in rises),
    )


def _half(gains: Sequence[float]) -> float:
    """Half the width of the mean's 95 % t interval."""
    if len(gains) < 2:
        return math.nan
    return float(stdtrit(len(gains) - 1, 0.975)) * statistics.stdev(gains) / math.sqrt(len(gains))
