"""Figures of a study's comparisons: paired gaps and error ratios at each size"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vit.report.study_style import NAME, bars, ends, scaled
from vit.report.style import decades, log_axis, look, plain, size_axis
from vit.study.findings import Comparison, Difference, Findings, Interval

_RATIOS = tuple(decades(steps, -3, 3) for steps in ((1, 2, 5), (1, 1.5, 2, 3, 5, 7)))


def gaps(findings: Findings) -> Figure:
    """For each comparison the paired gap (points of error) and the error ratio. At least one comparison is needed.

    The color is that of the series that is ahead. A filled mark has a corrected p below 0.05.
    """
    compared = [comparison for comparison in findings.comparisons if comparison.differences]
    figure = Figure(figsize=(9, 3.1 * len(compared)), layout="constrained")
    colors = {series.name: look(index)[0] for index, series in enumerate(findings.series)}
    panels = figure.subplots(len(compared), 2, squeeze=False)
    for (left, right), comparison in zip(panels, compared, strict=True):
        pair = (colors[comparison.first], colors[comparison.second])
        _gap_panel(left, comparison, pair)
        _ratio_panel(right, comparison, pair)
    return figure


def _gap_panel(axes: Axes, comparison: Comparison, colors: tuple[str, str]) -> None:
    shown = [scaled(difference.gap, 100) for difference in comparison.differences]
    for difference, gap in zip(comparison.differences, shown, strict=True):
        _mark(axes, difference, gap, colors[0] if gap.value < 0 else colors[1])
    # the interval of two seeds can be far wider than the gaps, so it may leave the frame
    widest = 5 * max([0.2, *(abs(gap.value) for gap in shown)])
    low = max(min([0, *(end for gap in shown for end in ends(gap))]), -widest)
    high = min(max([0, *(end for gap in shown for end in ends(gap))]), widest)
    room = 0.22 * (high - low or 1.0)  # for the words
    axes.set_ylim(low - room, high + room)
    _around(axes, comparison, 0.0, colors)
    axes.set(ylabel="gap (points of error)")
    title = f"Error of {plain(comparison.first, NAME)}\nminus error of {plain(comparison.second, NAME)}"
    axes.set_title(title, loc="left", fontsize=9)


def _ratio_panel(axes: Axes, comparison: Comparison, colors: tuple[str, str]) -> None:
    shown = [one for one in comparison.differences if np.isfinite(one.ratio.value) and one.ratio.value > 0]
    for difference in shown:
        _mark(axes, difference, difference.ratio, colors[0] if difference.ratio.value < 1 else colors[1])
    limits = [end for difference in shown for end in ends(difference.ratio) if end > 0]
    widest = 5 * max([np.log(1.05), *(abs(np.log(difference.ratio.value)) for difference in shown)])
    low, high = max(min([0.95, *limits]), np.exp(-widest)), min(max([1.05, *limits]), np.exp(widest))
    room = (high / low) ** 0.22
    log_axis(axes, "y", low / room, high * room, _RATIOS, lambda value: f"{value:g}")
    _around(axes, comparison, 1.0, colors)
    axes.set(ylabel="error ratio (log scale)")
    title = f"Error of {plain(comparison.first, NAME)}\nover error of {plain(comparison.second, NAME)}"
    axes.set_title(title, loc="left", fontsize=9)


def _mark(axes: Axes, difference: Difference, interval: Interval, color: str) -> None:
    axes.errorbar(
        [difference.num_images],
        [interval.value],
        bars(interval),
        fmt="o",
        color=color,
        markerfacecolor=color if difference.is_significant else "white",
        capsize=2.5,
    )


def _around(axes: Axes, comparison: Comparison, zero: float, colors: tuple[str, str]) -> None:
    """The line where both are equal, the names of those that are ahead above and below it, and the sizes."""
    axes.axhline(zero, color="0.4", linewidth=0.9, zorder=0)
    for name, color, y, side in (
        (comparison.second, colors[1], 0.98, "top"),
        (comparison.first, colors[0], 0.02, "bottom"),
    ):
        axes.text(0.99, y, f"{plain(name, NAME)} is ahead", transform=axes.transAxes, ha="right", va=side, color=color)
    sizes = [difference.num_images for difference in comparison.differences]
    size_axis(axes, sorted(sizes), max(sizes))
