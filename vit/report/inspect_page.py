"""The inside of a ViT as one self-contained HTML page, and its figures (figure 7 of Dosovitskiy et al. 2021) as PNG"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from vit.explain.cost import CostAtSize
from vit.explain.inspection import AttentionSpread, Inspection
from vit.layout import InspectionLayout
from vit.report.page.image_figures import image_grid
from vit.report.page.page import write_page
from vit.report.page.style import drawn, look, save

MOST_TILES = 14  # along each side of the figure of positions


def write_inspection(found: Inspection, folder: Path) -> None:
    """Write inspection.html and its figures into an existing folder."""
    figures: dict[str, Figure] = {"filters": filters(found.components, found.shares)}
    if found.similarity is not None:
        figures["positions"] = similarities(found.similarity)
    if found.reach is not None:
        figures["attention"] = attention_reach(found.reach)
    figures["cost"] = costs(found.parts, found.sizes)
    for name, figure in figures.items():
        save(figure, folder / f"{name}.png")
    content = {
        "found": found,
        "pictures": {name: drawn(figure) for name, figure in figures.items()},
        "parameters": sum(parameters for parameters, _ in found.parts.values()),
        "flops": sum(flops for _, flops in found.parts.values()),
        "variance": float(found.shares.sum()),
        "heads": _head_texts(found.reach),
    }
    write_page(InspectionLayout(folder).page_path, "inspect.html", content)


def _head_texts(reach: AttentionSpread | None) -> list[tuple[int, str, str]]:
    if reach is None:
        return []
    pairs = zip(reach.distance.tolist(), reach.entropy.tolist(), strict=True)
    return [(block, _few(distances, 1), _few(entropies, 2)) for block, (distances, entropies) in enumerate(pairs)]


def _few(values: list[float], digits: int) -> str:
    """The values in order; of more than six values the least, the median and the largest."""
    values = sorted(values)
    if len(values) <= 6:
        return ", ".join(f"{value:.{digits}f}" for value in values)
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    return f"{values[0]:.{digits}f} to {values[-1]:.{digits}f}, median {middle:.{digits}f}"


def filters(components: Tensor, shares: Tensor) -> Figure:
    """Principal components (k, 3, P, P) of the patch-embedding kernels as colors around gray, with their variance."""
    peaks = components.abs().amax(dim=(1, 2, 3), keepdim=True).clamp(min=1e-12)
    pictures = (255 * (0.5 + 0.5 * components / peaks)).round().to(torch.uint8)
    return image_grid(list(pictures), [f"{100 * share:.1f} %" for share in shares], columns=7)


def similarities(similarity: Tensor) -> Figure:
    """Cosine similarity (G, G, G, G) of positions: a tile for each patch, with its similarity to all patches."""
    grid = len(similarity)
    shown = torch.linspace(0, grid - 1, min(grid, MOST_TILES)).round().long().tolist()
    gap = max(1, grid // 7)
    side = len(shown) * (grid + gap) - gap
    canvas = np.full((side, side), np.nan)
    for row, y in enumerate(shown):
        for column, x in enumerate(shown):
            top, left = row * (grid + gap), column * (grid + gap)
            canvas[top : top + grid, left : left + grid] = similarity[y, x].numpy()
    figure = Figure(figsize=(6.4, 5.6), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(canvas, cmap="viridis", vmin=-1, vmax=1, interpolation="nearest")
    middle = [tile * (grid + gap) + (grid - 1) / 2 for tile in range(len(shown))]
    axes.set_xticks(middle, [str(number + 1) for number in shown])
    axes.set_yticks(middle, [str(number + 1) for number in shown])
    axes.tick_params(length=0, labelsize=7)
    axes.spines[:].set_visible(False)
    axes.set(xlabel="column of the patch", ylabel="row of the patch")
    figure.colorbar(image, ax=axes, label="cosine similarity", shrink=0.8)
    return figure


def attention_reach(reach: AttentionSpread) -> Figure:
    """Attention distance and entropy of every head by block, compared with uniform attention."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _heads(left, reach.distance, reach.uniform_distance, "mean attention distance (pixels)")
    _heads(right, reach.entropy, reach.uniform_entropy, "attention entropy (nats)")
    left.legend(frameon=False, loc="lower right", fontsize=8)
    return figure


def costs(parts: Mapping[str, tuple[int, int]], sizes: Sequence[CostAtSize]) -> Figure:
    """Parameters and FLOPs of each part, and the quadratic share against image size."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
    names = list(parts)[::-1]
    rows = np.arange(len(names))
    for index, (label, which) in enumerate((("FLOPs", 1), ("parameters", 0))):
        total = sum(part[which] for part in parts.values())
        shares = [100 * parts[name][which] / total for name in names]
        left.barh(rows + (index - 0.5) * 0.38, shares, height=0.36, color=look(1 - index)[0], label=label)
    left.set_yticks(rows, names)
    left.set(xlabel="share (%)")
    left.legend(frameon=False, loc="lower right", reverse=True)
    sides = [size.image_size for size in sizes]
    for index, (label, values, style) in enumerate(
        (
            ("N / ((2 + r) D + N), one block", [size.formula_share for size in sizes], "-"),
            ("counted, whole network", [size.counted_share for size in sizes], ""),
            ("of the time of a block, measured", [size.timed_share for size in sizes], ""),
        )
    ):
        color, marker = look(index)
        right.plot(sides, [100 * v for v in values], style, marker="" if style else marker, color=color, label=label)
    known = [size.timed_share for size in sizes if not math.isnan(size.timed_share)]
    right.set(xlabel="image size (pixels)", ylabel="share that is quadratic in tokens (%)")
    right.set_ylim(0, 100 * max([size.formula_share for size in sizes] + known) * 1.3)
    right.set_xticks(sides)
    right.legend(frameon=False, loc="upper left", fontsize=8)
    return figure


def _heads(axes: Axes, values: Tensor, uniform: float, label: str) -> None:
    depth, heads = values.shape
    for head in range(heads):
        axes.plot(range(depth), values[:, head], "o", color=look(0)[0], alpha=0.55, markersize=4.5, markeredgewidth=0,
                  label="a head" if head == 0 else None)  # fmt: skip
    axes.plot(range(depth), values.mean(dim=1), color=look(1)[0], linewidth=1.3, label="mean of the heads")
    axes.axhline(uniform, color="0.4", linestyle=":", label=f"uniform: {uniform:.4g}")
    axes.set(xlabel="block", ylabel=label, ylim=(0, None))
    axes.set_xticks(range(0, depth, max(1, depth // 12)))
