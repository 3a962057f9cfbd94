"""Figures of a study: learning curves, all series at one size, and paired gaps"""

import textwrap
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from vit.report.page.style import look, plain, plot, size_axis
from vit.study.answer.answer_warnings import num_choosing
from vit.study.answer.wording import describe_budget, two_digits
from vit.study.findings import Comparison, Findings, Interval, Series

NAME = 40  # letters of a series' name on a figure
_STEPS = ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8))
PERCENTS = tuple([step * 10.0**power for power in range(-3, 3) for step in steps] for steps in _STEPS)
_LONG_NAME = 60  # beside its row


def learning_curves(findings: Findings) -> Figure:
    """Test error (%) against training images, both logarithmic: seeds, means with intervals, forecasts, crossings.

    An error of zero is drawn at half a test image.
    """
    figure, axes = plot(9, 5.2)
    sizes, least = findings.sizes, 0.5 / findings.num_test_images
    forecasts = [series.forecast for series in findings.series if series.forecast.sizes]
    end = max([sizes[-1], *(one.sizes[-1] for one in forecasts)])
    size_axis(axes, sizes, end)
    if forecasts:  # a gray label at the end of all estimates
        labels = [tick.get_text() for tick in axes.get_xticklabels()]
        axes.set_xticks([*axes.get_xticks(), end], [*labels, f"{end:,.0f}"])
        axes.get_xticklabels()[-1].set_color("gray")
    shown: list[float] = []
    for index, series in enumerate(findings.series):
        # side by side, because one interval would hide another
        width = end / sizes[0]
        shift = width ** (0.007 * (index - (len(findings.series) - 1) / 2))
        shown += _curve(axes, series, look(index), (shift, shift * width**0.011), least)
    _log_axis(axes, "y", min(shown) / 1.3, max(shown) * 1.25)
    for index, comparison in enumerate(pair for pair in findings.comparisons if pair.crossing is not None):
        _crossing(axes, comparison, index, sizes, len(findings.series) > 2)
    handles, labels = axes.get_legend_handles_labels()
    if forecasts:
        axes.axvline(sizes[-1], color="gray", linewidth=0.7, linestyle=":")
        handles.append(Line2D([], [], color="gray", linestyle="--"))
        labels.append("forecast, with its 95 % band")
    widest = max((len(text) for text in labels), default=0)
    columns = max(1, min(len(labels), 120 // (widest + 8)))
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=columns)  # it hides no mark
    count = num_choosing(findings.protocol)
    choosing = f", and {count:,} validation images that choose the weights" if count else ""
    axes.set(ylabel="test error (%)", xlabel=f"training images (log scale){choosing}")
    length = describe_budget(findings.protocol)
    title = "Test error by number of training images" + (f"; budget: {length}" if length else "")
    axes.set_title(textwrap.fill(plain(title, 240), 105), loc="left", fontsize=10)
    return figure


def variants(findings: Findings) -> Figure:
    """Test error (%), logarithmic, of every series at one size: its seeds, their mean and its interval.

    An error of zero is drawn at half a test image.
    """
    least, count = 0.5 / findings.num_test_images, len(findings.series)
    figure, axes = plot(9, 1.1 + 0.42 * count)
    shown: list[float] = []
    for row, series in enumerate(findings.series):
        color, marker = look(row)
        (point,) = series.points
        errors = [100 * max(error, least) for error in point.errors]
        mean = in_percent(point.mean, least)
        axes.plot(errors, [row + 0.2] * len(errors), ".", color=color, alpha=0.4, markeredgewidth=0)
        axes.errorbar([mean.value], [row], xerr=bars(mean), fmt=marker, color=color, capsize=2.5)
        shown += [*errors, mean.value, max(mean.ends or (mean.value,))]
    _log_axis(axes, "x", min(shown) / 1.5, max(shown) * 1.25)
    axes.set_yticks(range(count), [plain(series.name, _LONG_NAME) for series in findings.series])
    axes.set_ylim(count - 0.5, -0.5)
    axes.grid(axis="x", color="0.92")
    (size,) = findings.sizes
    axes.set(xlabel=f"test error (%) with {size:,} training images (log scale)")
    return figure


def gaps(findings: Findings) -> Figure:
    """For each comparison the paired gap in points of error, at each size. At least one comparison is needed.

    The color is that of the series that is ahead. A filled mark has a corrected p below 0.05.
    """
    compared = [comparison for comparison in findings.comparisons if comparison.differences]
    figure = Figure(figsize=(9, 3.1 * len(compared)), layout="constrained")
    colors = {series.name: look(index)[0] for index, series in enumerate(findings.series)}
    for (axes,), pair in zip(figure.subplots(len(compared), 1, squeeze=False), compared, strict=True):
        first, second = (plain(name, NAME) for name in (pair.first, pair.second))
        shown = [in_percent(difference.gap) for difference in pair.differences]
        for difference, gap in zip(pair.differences, shown, strict=True):
            color = colors[pair.first if gap.value < 0 else pair.second]
            fill = color if difference.is_significant else "white"
            at = ([difference.num_images], [gap.value], bars(gap))
            axes.errorbar(*at, fmt="o", color=color, markerfacecolor=fill, capsize=2.5)
        # the interval of two seeds can be far wider than the gaps, so it may leave the frame
        widest = 5 * max([0.2, *(abs(gap.value) for gap in shown)])
        low = max(min([0, *(end for gap in shown for end in (gap.value, *(gap.ends or ())))]), -widest)
        high = min(max([0, *(end for gap in shown for end in (gap.value, *(gap.ends or ())))]), widest)
        margin = 0.22 * (high - low or 1.0)  # for the words
        axes.set_ylim(low - margin, high + margin)
        axes.axhline(0, color="0.4", linewidth=0.9, zorder=0)
        for name, color, y, side in (
            (second, colors[pair.second], 0.98, "top"),
            (first, colors[pair.first], 0.02, "bottom"),
        ):
            axes.text(0.99, y, f"{name} is ahead", transform=axes.transAxes, ha="right", va=side, color=color)
        sizes = sorted(difference.num_images for difference in pair.differences)
        size_axis(axes, sizes, max(sizes))
        axes.set(ylabel="gap (points of error)")
        axes.set_title(f"Error of {first} minus error of {second}", loc="left", fontsize=9)
    return figure


def _log_axis(axes: Axes, which: str, low: float, high: float) -> None:
    """A logarithmic axis of percentages from low to high, with labels of the first steps that three values fit."""
    for ladder in [*PERCENTS, list(MaxNLocator(4).tick_values(low, high))]:
        ticks = [value for value in ladder if low <= value <= high]
        if len(ticks) >= 3:
            break
    axes.set(**{f"{which}scale": "log"})
    axes.set(**{f"{which}lim": (low, high), f"{which}ticks": ticks, f"{which}ticklabels": [f"{t:g}" for t in ticks]})
    axes.minorticks_off()


def _curve(
    axes: Axes, series: Series, style: tuple[str, str], shifts: tuple[float, float], least: float
) -> list[float]:
    """Draw one series, means and seeds at `shifts` times their sizes; returns percentages that the axis must show."""
    color, marker = style
    points = sorted(series.points, key=lambda point: point.num_images)
    shown = []
    for point in points:
        errors = [100 * max(error, least) for error in point.errors]
        beside = [point.num_images * shifts[1]] * len(errors)
        axes.plot(beside, errors, ".", color=color, alpha=0.4, markersize=5, markeredgewidth=0)
        shown += errors
    around = [in_percent(point.mean, least) for point in points]
    means = [interval.value for interval in around]
    sizes = [point.num_images * shifts[0] for point in points]
    # the interval of two seeds can be as wide as the axis, so it may leave the frame
    shown += [min(max(end, min(means) / 4), 4 * max(means)) for interval in around for end in interval.ends or ()]
    reach = np.hstack([bars(interval) for interval in around])
    axes.errorbar(sizes, means, reach, fmt=marker, color=color, markersize=5, capsize=2.5, label=label(series.name))
    axes.plot(sizes, means, color=color, linewidth=0.8, alpha=0.5)  # a guide for the eye
    forecast = series.forecast
    if forecast.sizes:  # a wide band may leave the frame
        mean, low, high = (100 * np.maximum(values, least) for values in (forecast.mean, forecast.low, forecast.high))
        axes.plot(forecast.sizes, mean, color=color, linewidth=1.3, linestyle="--")
        axes.fill_between(forecast.sizes, low, high, color=color, alpha=0.12, linewidth=0)
        shown += [float(mean.min()), float(mean.max()), float(max(low.min(), mean.min() / 2))]
    return shown + means


def _crossing(axes: Axes, comparison: Comparison, index: int, sizes: Sequence[int], named: bool) -> None:
    """Mark where two series are equally good."""
    crossing = comparison.crossing
    assert crossing is not None
    axes.axvspan(crossing.low, crossing.high, color="gray", alpha=0.15, linewidth=0, zorder=0)
    axes.axvline(crossing.value, color="0.35", linewidth=0.9, linestyle="-.")
    rightwards = crossing.value < np.sqrt(sizes[0] * sizes[-1])
    pair = f"{plain(comparison.first)} and {plain(comparison.second)}\n" if named else ""
    axes.annotate(
        f"{pair}equally good at about n* = {two_digits(crossing.value)} images",
        (crossing.value, 0.98 - 0.09 * index),
        xycoords=("data", "axes fraction"),
        xytext=(4 if rightwards else -4, 0),
        textcoords="offset points",
        ha="left" if rightwards else "right",
        va="top",
        fontsize=8,
        color="0.25",
    )


def in_percent(interval: Interval, least: float = -np.inf) -> Interval:
    """The interval times 100, each number of at least `least` before."""
    low, high = (None if end is None else 100 * max(end, least) for end in (interval.low, interval.high))
    return Interval(100 * max(interval.value, least), low, high)


def bars(interval: Interval) -> npt.NDArray[np.float64]:
    """(2, 1) lengths of an error bar below and above the value, or NaN without an interval."""
    low, high = interval.ends or (np.nan, np.nan)
    return np.array([[interval.value - low], [high - interval.value]])


def label(name: str) -> str:
    """A name for a legend. matplotlib leaves out names that start with an underscore, so these get a space."""
    return f" {plain(name, NAME)}" if name.lstrip().startswith("_") else plain(name, NAME)
