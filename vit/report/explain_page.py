"""Self-contained pages of a network: explanations of images with their faithfulness, and the inside of a ViT"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from vit.checkpoints.run import unfinished_text
from vit.console import percent
from vit.explain.explainer import RANDOM_ORDERS, STEPS, Explanation, Faithfulness, MethodScore, score_method
from vit.explain.inspection import AttentionSpread, CostAtSize, Inspection
from vit.layout import InspectionLayout
from vit.report.page.image_figures import enlarged, image_grid, overlay
from vit.report.page.page import inline, write_page
from vit.report.page.style import drawn, look, plot, save
from vit.report.picture_page import encoded

ABOUT = {
    "attention": "attention of the last block, mean over heads; the same map for every class",
    "rollout": "product of the attention of all blocks and their residual connections (Abnar and Zuidema 2020); the "
    "same map for every class",
    "relevance": "attention weighted by its gradient, through all blocks (Chefer et al. 2021); a map for this class",
    "gradcam": "features weighted by their gradient, at the last layer with positions (Selvaraju et al. 2017); a map "
    "for this class",
}
MOST_TILES = 14  # along each side of the figure of positions


@dataclass
class ExplainPage:
    """Collects explanations as small pictures in memory, and writes them as a page."""

    title: str
    methods: Sequence[str]
    lacks: str = ""  # what the training of the model lacks; "" where it is finished
    cards: list[dict[str, object]] = field(default_factory=list)
    found: dict[str, list[Faithfulness]] = field(default_factory=dict)

    def add(self, explanation: Explanation, heads: bytes | None = None) -> None:
        """Add one image; `heads` is a PNG of its attention heads."""
        for name, one in explanation.faithfulness.items():
            self.found.setdefault(name, []).append(one)
        maps = [
            {
                "method": name,
                "picture": encoded(overlay(explanation.image, one)),
                "faithfulness": explanation.faithfulness.get(name),
            }
            for name, one in explanation.maps.items()
        ]
        self.cards.append({
            "path": explanation.path,
            "name": Path(explanation.path).name,
            "explained": explanation.explained,  # class that the maps explain
            "label": explanation.label,  # predicted class
            "probability": explanation.probability,  # of the explained class
            "picture": encoded(enlarged(explanation.image)),
            "maps": maps,
            "heads": inline(heads, "image/png") if heads else None,
        })  # fmt: skip

    def scores(self) -> list[MethodScore]:
        return [score_method(name, found) for name, found in self.found.items()]

    def write(self, path: Path, unreadable: Sequence[tuple[str, str]]) -> None:
        """Write the page, whole or not at all; `unreadable` are paths with reasons."""
        content = {
            "title": self.title,
            "warning": unfinished_text(self.lacks),
            "cards": self.cards,
            "scores": self.scores(),
            "methods": [(name, ABOUT[name]) for name in self.methods],
            "steps": STEPS,
            "orders": RANDOM_ORDERS,
            "unreadable": unreadable,
        }
        write_page(path, "explain.html", content)


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
    reach = found.reach  # distances and entropies of the heads of each block
    heads = zip(reach.distance.tolist(), reach.entropy.tolist(), strict=True) if reach else ()
    content = {
        "found": found,
        "pictures": {name: drawn(figure) for name, figure in figures.items()},
        "parameters": sum(parameters for parameters, _ in found.parts.values()),
        "flops": sum(flops for _, flops in found.parts.values()),
        "variance": float(found.shares.sum()),
        "heads": [
            (block, _few(distances, 1), _few(entropies, 2)) for block, (distances, entropies) in enumerate(heads)
        ],
    }
    write_page(InspectionLayout(folder).page_path, "inspect.html", content)


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
    return image_grid(list(pictures), [percent(share, 1) for share in shares.tolist()], columns=7)


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
    figure, axes = plot(6.4, 5.6)
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
