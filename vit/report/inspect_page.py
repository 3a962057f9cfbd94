"""A ViT's inside as one HTML page that needs nothing but itself, and its figures as PNG files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from torch import Tensor

from vit.atomic_files import atomic_write
from vit.explain.cost import CostAtSize
from vit.explain.distance import AttentionSpread
from vit.report.inspect_figures import attention_reach, costs, filters, similarities
from vit.report.page import drawn, templates
from vit.report.style import save


@dataclass(frozen=True)
class Inspection:
    """All that `vit inspect` found.

    Attributes:
        title: what was inspected.
        facts: names and values of the network.
        components: (k, 3, P, P) principal components of the patch kernels; shares: (k,) of their variance.
        similarity: (G, G, G, G) of positions, or None.
        reach: attention distance and entropy, or None without images.
        parts: parameters and FLOPs by part.
        sizes: cost over image sizes.
        timed_on: where the times were taken, in words.
    """

    title: str
    facts: Mapping[str, str]
    components: Tensor
    shares: Tensor
    similarity: Tensor | None
    reach: AttentionSpread | None
    parts: Mapping[str, tuple[int, int]]
    sizes: list[CostAtSize]
    timed_on: str


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
    html = templates.get_template("inspect.html").render(
        found=found,
        pictures={name: drawn(figure) for name, figure in figures.items()},
        parameters=sum(parameters for parameters, _ in found.parts.values()),
        flops=sum(flops for _, flops in found.parts.values()),
        variance=float(found.shares.sum()),
        heads=_heads(found.reach),
    )
    with atomic_write(folder / "inspection.html") as partial:
        partial.write_text(html, encoding="utf-8", errors="replace")


def _heads(reach: AttentionSpread | None) -> list[tuple[int, str, str]]:
    """For each block: its number, and distances and entropies of its heads, least first."""
    if reach is None:
        return []
    pairs = zip(reach.distance.tolist(), reach.entropy.tolist(), strict=True)
    return [(block, _few(distances, 1), _few(entropies, 2)) for block, (distances, entropies) in enumerate(pairs)]


def _few(values: list[float], digits: int) -> str:
    """The values in order; of more than six the least, the median and the most."""
    values = sorted(values)
    if len(values) <= 6:
        return ", ".join(f"{value:.{digits}f}" for value in values)
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    return f"{values[0]:.{digits}f} to {values[-1]:.{digits}f}, median {middle:.{digits}f}"
