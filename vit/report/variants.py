"""Figure of a study at one size: a row for every series"""

from matplotlib.figure import Figure

from vit.report.study_style import PERCENTS, bars, ends, least_error, scaled
from vit.report.style import log_axis, look, plain
from vit.study.findings import Findings

NAME = 60  # letters of a series' name beside its row


def variants(findings: Findings) -> Figure:
    """Test error (%), logarithmic, of every series at one size: its seeds, their mean and its interval.

    An error of zero is drawn at half a test image.
    """
    least, count = least_error(findings), len(findings.series)
    figure = Figure(figsize=(9, 1.1 + 0.42 * count), layout="constrained")
    axes = figure.subplots()
    shown: list[float] = []
    for row, series in enumerate(findings.series):
        color, marker = look(row)
        (point,) = series.points
        errors = [100 * max(error, least) for error in point.errors]
        mean = scaled(point.mean, 100, least)
        axes.plot(errors, [row + 0.2] * len(errors), ".", color=color, alpha=0.4, markeredgewidth=0)
        axes.errorbar([mean.value], [row], xerr=bars(mean), fmt=marker, color=color, capsize=2.5)
        shown += [*errors, mean.value, max(ends(mean))]
    log_axis(axes, "x", min(shown) / 1.5, max(shown) * 1.25, PERCENTS, lambda value: f"{value:g}")
    axes.set_yticks(range(count), [plain(series.name, NAME) for series in findings.series])
    axes.set_ylim(count - 0.5, -0.5)
    axes.grid(axis="x", color="0.92")
    (size,) = findings.sizes
    axes.set(xlabel=f"test error (%) with {size:,} training images (log scale)")
    return figure
