"""Pictures of a study: learning curves, paired differences, and what accuracy costs."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from vit.report.style import decades, log_axis, look, plain, size_axis
from vit.study.findings import Comparison, Difference, Findings, Fit, Interval, Series

NAME = 40  # letters of a series' name on a picture

_PERCENT = tuple(decades(steps, -3, 2) for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)))
_TIMES = tuple(decades(steps, -3, 3) for steps in ((1, 2, 5), (1, 1.5, 2, 3, 5, 7)))
_SECONDS = {
    **{1: "1 s", 3: "3 s", 10: "10 s", 30: "30 s", 60: "1 min", 180: "3 min", 600: "10 min", 1800: "30 min"},
    **{3600: "1 h", 3 * 3600: "3 h", 10 * 3600: "10 h", 30 * 3600: "30 h", 100 * 3600: "100 h"},
}


def learning_curves(findings: Findings) -> Figure:
    """Test error (%) against training images, both logarithmic: seeds, means with intervals, fits, crossings.

    An error of nothing has no place on a logarithmic axis; it is drawn at half a test image.
    """
    figure = Figure(figsize=(9, 5.2), layout="constrained")
    axes = figure.subplots()
    least = 0.5 / findings.test_images
    sizes = sorted({point.images for series in findings.series for point in series.points})
    fits = [series.fit for series in findings.series if series.fit is not None and series.fit.supported]
    end = max([sizes[-1], *(fit.sizes[-1] for fit in fits)])
    size_axis(axes, sizes, end)
    if fits:
        axes.set_xticks(
            [*axes.get_xticks(), end], [*(tick.get_text() for tick in axes.get_xticklabels()), f"{end:,.0f}"]
        )
        axes.get_xticklabels()[-1].set_color("gray")
    seen: list[float] = []
    for place, series in enumerate(findings.series):
        # beside each other, or one interval would hide another
        width = end / sizes[0]
        shift = width ** (0.007 * (place - (len(findings.series) - 1) / 2))
        seen += _curve(axes, series, place, shift, width**0.011, least)
    log_axis(axes, "y", min(seen) / 1.3, max(seen) * 1.25, _PERCENT, lambda value: f"{value:g}")
    for place, comparison in enumerate(found for found in findings.comparisons if found.crossing is not None):
        _crossing(axes, comparison, place, sizes, len(findings.series) > 2)
    handles, labels = axes.get_legend_handles_labels()
    if fits:
        axes.axvline(sizes[-1], color="gray", linewidth=0.7, linestyle=":")
        handles.append(Line2D([], [], color="gray", linestyle="--"))
        labels.append("estimated beyond the measured sizes")
    axes.legend(handles, labels, frameon=False, loc="lower left")
    axes.set(ylabel="test error (%)")
    length = budget(findings.protocol)
    title = "Test error by number of training images" + (f"; budget: {length}" if length else "")
    axes.set_title(_wrapped(title, 120), loc="left", fontsize=10)
    return figure


def gaps(findings: Findings) -> Figure:
    """For each comparison the paired gap (points of error), and beside it the error ratio; there must be one.

    The color is that of the series that is ahead; a filled mark has a corrected p below 0.05.
    """
    compared = [comparison for comparison in findings.comparisons if comparison.differences]
    figure = Figure(figsize=(9, 3.1 * len(compared)), layout="constrained")
    colors = {series.name: look(place)[0] for place, series in enumerate(findings.series)}
    panels = figure.subplots(len(compared), 2, squeeze=False)
    for (left, right), comparison in zip(panels, compared, strict=True):
        pair = (colors[comparison.first], colors[comparison.second])
        _gap_panel(left, comparison, pair)
        _ratio_panel(right, comparison, pair)
    return figure


def price(findings: Findings) -> Figure:
    """Test accuracy (%) against training seconds, logarithmic: a line per series, sizes beside its points."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    spent = [max(point.seconds, 0.1) for series in findings.series for point in series.points]
    for place, series in enumerate(findings.series):
        color, marker = look(place)
        points = sorted(series.points, key=lambda point: point.images)
        seconds = [max(point.seconds, 0.1) for point in points]
        accuracy = [100 - 100 * point.mean.value for point in points]
        axes.plot(seconds, accuracy, color=color, marker=marker, label=_label(series.name), linewidth=1.2)
        above = place % 2 == 0
        for point, x, y in zip(points, seconds, accuracy, strict=True):
            axes.annotate(
                f"{point.images:,}",
                (x, y),
                xytext=(-2, 5) if above else (2, -5),  # the curves rise: there is room above to the left
                textcoords="offset points",
                ha="right" if above else "left",
                va="bottom" if above else "top",
                color=color,
                fontsize=7.5,
            )
    log_axis(axes, "x", min(spent) / 1.4, max(spent) * 1.4, [list(_SECONDS)], _seconds)
    axes.margins(y=0.12)
    axes.grid(axis="y", color="0.92")
    axes.set(xlabel="time to train (log scale); the number at a point: training images", ylabel="test accuracy (%)")
    axes.legend(frameon=False, loc="lower right")
    return figure


def said(value: Any) -> str:
    """A value of a study's protocol in words; None says nothing."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {said(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(said(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)


def budget(protocol: Mapping[str, Any]) -> str:
    """How long every cell trained, in words."""
    return said(protocol.get("budget_words") or protocol.get("budget"))


def counted(value: float) -> str:
    """An estimated number of images, to two digits: an estimate has no more."""
    digits = 1 - math.floor(math.log10(value)) if 0 < value < math.inf else 0
    return f"{round(value, digits):,.0f}"


def _curve(axes: Axes, series: Series, place: int, shift: float, aside: float, least: float) -> list[float]:
    """Draw one series, its seeds a little aside of their mean; the percentages that the axis must show."""
    color, marker = look(place)
    points = sorted(series.points, key=lambda point: point.images)
    seen = []
    for point in points:
        errors = [100 * max(error, least) for error in point.errors]
        beside = [point.images * shift * aside] * len(errors)
        axes.plot(beside, errors, ".", color=color, alpha=0.4, markersize=5, markeredgewidth=0)
        seen += errors
    means = [100 * max(point.mean.value, least) for point in points]
    images = [point.images * shift for point in points]
    # the interval of two seeds can be as wide as the axis: it may leave the frame
    ends = [100 * max(end, least) for point in points for end in _ends(point.mean)]
    seen += [min(max(end, min(means) / 4), 4 * max(means)) for end in ends]
    around = np.array([_reach(point.mean, least) for point in points]).T
    axes.errorbar(images, means, around, fmt=marker, color=color, markersize=5, capsize=2.5, label=_label(series.name))
    if series.fit is not None and series.fit.supported:
        seen += _fitted(axes, series.fit, color, least)
    else:
        axes.plot(images, means, color=color, linewidth=0.8, alpha=0.5)  # only leads the eye
    return seen + means


def _fitted(axes: Axes, fit: Fit, color: str, least: float) -> list[float]:
    """Draw a fit: a line as far as there are measurements, dashed beyond, and a pale band around both."""
    sizes = np.array(fit.sizes)
    mean, low, high = (100 * np.maximum(values, least) for values in (fit.mean, fit.low, fit.high))
    inner = sizes <= fit.largest
    border = np.exp(np.interp(np.log(fit.largest), np.log(sizes), np.log(mean)))
    axes.plot([*sizes[inner], fit.largest], [*mean[inner], border], color=color, linewidth=1.3)
    axes.plot([fit.largest, *sizes[~inner]], [border, *mean[~inner]], color=color, linewidth=1.3, linestyle="--")
    axes.fill_between(sizes, low, high, color=color, alpha=0.12, linewidth=0)
    return [float(mean.min()), float(mean.max())]


def _crossing(axes: Axes, comparison: Comparison, place: int, sizes: Sequence[int], named: bool) -> None:
    """Mark where two series are equally good; an end that is not bounded is that of the measured sizes."""
    crossing = comparison.crossing
    assert crossing is not None
    axes.axvspan(crossing.low or sizes[0], crossing.high or sizes[-1], color="gray", alpha=0.15, linewidth=0, zorder=0)
    axes.axvline(crossing.value, color="0.35", linewidth=0.9, linestyle="-.")
    rightwards = crossing.value < np.sqrt(sizes[0] * sizes[-1])
    pair = f"{plain(comparison.first)} and {plain(comparison.second)}\n" if named else ""
    axes.annotate(
        f"{pair}equally good at about n* = {counted(crossing.value)} images",
        (crossing.value, 0.98 - 0.09 * place),
        xycoords=("data", "axes fraction"),
        xytext=(4 if rightwards else -4, 0),
        textcoords="offset points",
        ha="left" if rightwards else "right",
        va="top",
        fontsize=8,
        color="0.25",
    )


def _gap_panel(axes: Axes, comparison: Comparison, colors: tuple[str, str]) -> None:
    for difference in comparison.differences:
        gap = difference.gap
        color = colors[0] if gap.value < 0 else colors[1]
        _mark(axes, difference, Interval(100 * gap.value, _times(gap.low, 100), _times(gap.high, 100)), color)
    ends = [100 * end for difference in comparison.differences for end in _ends(difference.gap)]
    # the interval of two seeds can be far wider than all that is of interest: it may leave the frame
    widest = 5 * max([0.2, *(100 * abs(difference.gap.value) for difference in comparison.differences)])
    low, high = max(min([0, *ends]), -widest), min(max([0, *ends]), widest)
    room = 0.22 * (high - low or 1.0)  # for the words
    axes.set_ylim(low - room, high + room)
    _around(axes, comparison, 0.0, colors)
    axes.set(ylabel="gap (points of error)")
    title = f"Error of {plain(comparison.first, NAME)}\nminus error of {plain(comparison.second, NAME)}"
    axes.set_title(title, loc="left", fontsize=9)


def _ratio_panel(axes: Axes, comparison: Comparison, colors: tuple[str, str]) -> None:
    ratios = [
        (difference, difference.ratio)
        for difference in comparison.differences
        if np.isfinite(difference.ratio.value) and difference.ratio.value > 0
    ]
    for difference, ratio in ratios:
        _mark(axes, difference, ratio, colors[0] if ratio.value < 1 else colors[1])
    ends = [end for _, ratio in ratios for end in _ends(ratio) if end > 0]
    widest = 5 * max([np.log(1.05), *(abs(np.log(ratio.value)) for _, ratio in ratios)])
    low, high = max(min([0.95, *ends]), np.exp(-widest)), min(max([1.05, *ends]), np.exp(widest))
    room = (high / low) ** 0.22
    log_axis(axes, "y", low / room, high * room, _TIMES, lambda value: f"{value:g}")
    _around(axes, comparison, 1.0, colors)
    axes.set(ylabel="error ratio (log scale)")
    title = f"Error of {plain(comparison.first, NAME)}\nover error of {plain(comparison.second, NAME)}"
    axes.set_title(title, loc="left", fontsize=9)


def _mark(axes: Axes, difference: Difference, interval: Interval, color: str) -> None:
    around = np.array([_reach(interval)]).T / 100
    clear = difference.p_adjusted < 0.05
    axes.errorbar(
        [difference.images],
        [interval.value],
        around,
        fmt="o",
        color=color,
        markerfacecolor=color if clear else "white",
        capsize=2.5,
    )


def _around(axes: Axes, comparison: Comparison, zero: float, colors: tuple[str, str]) -> None:
    """The line where both are equal, who is ahead above and below it, and the sizes."""
    axes.axhline(zero, color="0.4", linewidth=0.9, zorder=0)
    for name, color, y, side in (
        (comparison.second, colors[1], 0.98, "top"),
        (comparison.first, colors[0], 0.02, "bottom"),
    ):
        axes.text(0.99, y, f"{plain(name, NAME)} is ahead", transform=axes.transAxes, ha="right", va=side, color=color)
    sizes = [difference.images for difference in comparison.differences]
    size_axis(axes, sorted(sizes), max(sizes))


def _reach(interval: Interval, least: float | None = None) -> tuple[float, float]:
    """How far an interval reaches below and above its value, times 100; nan where it has no end."""
    value, low, high = (
        end if least is None or end is None else max(end, least)
        for end in (interval.value, interval.low, interval.high)
    )
    assert value is not None
    return (
        100 * max(value - low, 0.0) if low is not None else np.nan,
        100 * max(high - value, 0.0) if high is not None else np.nan,
    )


def _ends(interval: Interval) -> list[float]:
    """Those of value, low and high that are numbers."""
    values = (interval.value, interval.low, interval.high)
    return [value for value in values if value is not None and np.isfinite(value)]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _seconds(value: float) -> str:
    return _SECONDS.get(int(value), f"{value:g} s") if value == int(value) else f"{value:g} s"


def _label(name: str) -> str:
    """A name for a legend, which would leave out one that starts with an underscore."""
    return f" {plain(name, NAME)}" if name.lstrip().startswith("_") else plain(name, NAME)


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(plain(text, 2 * width), width)
