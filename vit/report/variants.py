"""A picture of a study at one size: a row for every series."""

from matplotlib.figure import Figure

from vit.report.style import decades, log_axis, look, plain
from vit.study.findings import Findings, Interval

NAME = 60  # letters of a series' name beside its row

_PERCENT = tuple(decades(steps, -3, 2) for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)))


def variants(findings: Findings) -> Figure:
    """Test error (%), logarithmic, of every series at one size: its seeds, their mean and its interval.

    An error of nothing has no place on a logarithmic axis; it is drawn at half a test image.
    """
    least = 0.5 / findings.test_images
    count = len(findings.series)
    figure = Figure(figsize=(9, 1.1 + 0.42 * count), layout="constrained")
    axes = figure.subplots()
    seen: list[float] = []
    for place, series in enumerate(findings.series):
        color, marker = look(place)
        (point,) = series.points
        errors = [100 * max(error, least) for error in point.errors]
        mean, low, high = (100 * max(end, least) for end in _ends(point.mean))
        axes.plot(errors, [place + 0.2] * len(errors), ".", color=color, alpha=0.4, markeredgewidth=0)
        axes.errorbar([mean], [place], xerr=[[mean - low], [high - mean]], fmt=marker, color=color, capsize=2.5)
        seen += [*errors, mean, high]
    log_axis(axes, "x", min(seen) / 1.5, max(seen) * 1.25, _PERCENT, lambda value: f"{value:g}")
    axes.set_yticks(range(count), [plain(series.name, NAME) for series in findings.series])
    axes.set_ylim(count - 0.5, -0.5)
    axes.grid(axis="x", color="0.92")
    images = findings.series[0].points[0].images
    axes.set(xlabel=f"test error (%) with {images:,} training images (log scale)")
    return figure


def _ends(mean: Interval) -> tuple[float, float, float]:
    """Value, low and high; the value itself where one seed gives no interval."""
    return mean.value, mean.value if mean.low is None else mean.low, mean.value if mean.high is None else mean.high
