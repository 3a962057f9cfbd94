"""Figure of paired differences of accuracy, each with its interval around the line where two runs are equal"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from vit.report.page.style import look, plain
from vit.report.studies.study_figures import NAME, bars, ends, scaled
from vit.study.findings import ALPHA, Interval


@dataclass(frozen=True)
class DifferenceBar:
    """A difference of accuracies and its corrected p."""

    name: str
    gap: Interval
    p: float


def difference_figure(first: str, found: Sequence[DifferenceBar]) -> Figure:
    """Accuracy of the first run minus that of each other run, in points. A filled mark has a corrected p below 0.05."""
    figure = Figure(figsize=(9, 1.4 + 0.42 * len(found)), layout="constrained")
    axes = figure.subplots()
    color, marker = look(0)
    for row, one in enumerate(found):
        gap = scaled(one.gap, 100)
        fill = color if one.p < ALPHA else "white"
        axes.errorbar([gap.value], [row], xerr=bars(gap), fmt=marker, color=color, markerfacecolor=fill, capsize=2.5)
    reach = max([1.0, *(abs(end) for one in found for end in ends(scaled(one.gap, 100)))])
    axes.axvline(0, color="0.4", linewidth=0.9, zorder=0)
    axes.set_yticks(range(len(found)), [plain(one.name, NAME) for one in found])
    axes.set(ylim=(len(found) - 0.4, -1.0), xlim=(-1.15 * reach, 1.15 * reach))
    axes.grid(axis="x", color="0.92")
    axes.text(0.99, 0.99, f"{plain(first, NAME)} is ahead", transform=axes.transAxes, ha="right", va="top", fontsize=8)
    axes.text(0.01, 0.99, "the other is ahead", transform=axes.transAxes, ha="left", va="top", fontsize=8)
    axes.set(xlabel=f"accuracy of {plain(first, NAME)} minus that of the other, in points")
    return figure
