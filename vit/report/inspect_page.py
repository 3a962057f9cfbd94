"""The inside of a ViT as one self-contained HTML page, and its figures as PNG files"""

from pathlib import Path

from matplotlib.figure import Figure

from vit.explain.inspection import AttentionSpread, Inspection
from vit.layout import InspectionLayout
from vit.report.inspect_figures import attention_reach, costs, filters, similarities
from vit.report.page.page import write_page
from vit.report.page.style import drawn, save


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
        "heads": _heads(found.reach),
    }
    write_page(InspectionLayout(folder).page_path, "inspect.html", content)


def _heads(reach: AttentionSpread | None) -> list[tuple[int, str, str]]:
    """Number of each block, and distances and entropies of its heads, ascending."""
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
