"""Is a map more than a picture? Patches are taken away, or brought in, in its order, and the probability is watched.

Deletion and insertion (Petsiuk et al. 2018, "RISE", arXiv 1806.07421): a map that marks what the network used makes the
probability of the class fall early when the marked patches go first, and rise early when they come first. Both are
areas under the curve of the probability against the share of patches that were treated, between 0 and 1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms.v2.functional import gaussian_blur

STEPS = 10
RANDOM_ORDERS = 4
MOST_CELLS = 14  # along a side, of a network without patches


@dataclass(frozen=True)
class Faithfulness:
    """How a map's order does on one image.

    Attributes:
        deletion: area when the most important cells go first; lower is better.
        insertion: area when they come first; higher is better.
        random: area of random orders, their mean; the expectation is the same for both.
    """

    deletion: float
    insertion: float
    random: float


def faithfulness(
    probabilities: Callable[[Tensor], Tensor],
    image: Tensor,
    background: Tensor,
    maps: Mapping[str, Tensor],
    cells: int,
    number: int,
    steps: int = STEPS,
    seed: int = 0,
) -> dict[str, Faithfulness]:
    """Deletion and insertion of several maps of one image, beside random orders.

    Args:
        probabilities: images (B, 3, S, S) uint8 -> (B, C).
        image: (3, S, S) uint8.
        background: (3, S, S) uint8, what stands where the image was taken away: `mean_color` or `blurred`.
        maps: importance (h, w) by name, of any resolution.
        cells: the image is taken away in this many squares along a side; divides S.
        number: the class that the maps explain.
        steps: equal parts that the cells are taken away in; between them the curves are straight.
        seed: of the random orders, and of the order within equal importance.
    """
    draw = torch.Generator().manual_seed(seed)
    random = [torch.randperm(cells**2, generator=draw) for _ in range(RANDOM_ORDERS)]
    falling = [_order(importance, cells, draw) for importance in maps.values()]
    shown = torch.cat(
        [_shown(order, cells, steps) for order in random]
        + [_shown(order, cells, steps) for order in falling]
        + [~_shown(order, cells, steps) for order in falling]
    )  # (orders * (steps - 1), cells, cells), whether a cell shows the image
    side = image.shape[-1] // cells
    masks = shown.repeat_interleave(side, dim=1).repeat_interleave(side, dim=2)[:, None]
    inner = torch.where(masks, image, background)
    values = probabilities(torch.cat((image[None], background[None], inner)))[:, number]
    whole, nothing = values[0], values[1]
    curves = values[2:].view(-1, steps - 1)
    falls = _area(whole, curves[: -len(maps)], nothing).tolist()
    rises = _area(nothing, curves[-len(maps) :], whole).tolist()
    chance = sum(falls[:RANDOM_ORDERS]) / RANDOM_ORDERS
    return {
        name: Faithfulness(fall, rise, chance)
        for name, fall, rise in zip(maps, falls[RANDOM_ORDERS:], rises, strict=True)
    }


def cells_of(image_size: int, patches: int | None) -> int:
    """Squares along a side that an image is taken away in: the patches of a ViT, else up to 14 that divide its side."""
    return patches or max(cells for cells in range(1, MOST_CELLS + 1) if image_size % cells == 0)


def mean_color(image: Tensor) -> Tensor:
    """(3, S, S) uint8 -> the same, all of its mean color."""
    return image.float().mean(dim=(1, 2), keepdim=True).round().to(torch.uint8).expand_as(image)


def blurred(image: Tensor) -> Tensor:
    """(3, S, S) uint8 -> the same, blurred by a Gaussian of an eighth of its side: colors stay, shapes go."""
    side = image.shape[-1]
    reach = min(2 * (side // 4) + 1, 2 * ((side - 1) // 2) - 1)
    return gaussian_blur(image, [max(reach, 1)] * 2, [side / 8] * 2)


def _order(importance: Tensor, cells: int, draw: torch.Generator) -> Tensor:
    """Numbers of cells, the most important first; what is equally important in random order, not row by row."""
    mean = F.adaptive_avg_pool2d(importance.float()[None], cells).flatten()
    shuffled = torch.randperm(cells**2, generator=draw)
    return shuffled[mean[shuffled].argsort(descending=True, stable=True)]


def _shown(order: Tensor, cells: int, steps: int) -> Tensor:
    """Whether each cell still shows the image while an order takes cells away: (steps - 1, cells, cells)."""
    rank = order.argsort()
    gone = torch.arange(1, steps)[:, None] * len(order) / steps
    return (rank >= gone.round()).view(-1, cells, cells)


def _area(first: Tensor, curves: Tensor, last: Tensor) -> Tensor:
    """Areas (n,) under curves (n, steps - 1) that all begin and end at the same values; trapezoids of equal width."""
    return (curves.sum(dim=1) + (first + last) / 2) / (curves.shape[1] + 1)
