"""The figures of scaling.py, and the lines of docs/performance.md that it writes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.optimize import nnls

from vit.report.page.style import look, save

Numbers = Mapping[str, Any]
EMBED_DIM, PATCH = 192, 16  # of the network whose resolution varies


def attention_share(tokens: float, width: int = EMBED_DIM) -> float:
    """Part of a block's FLOPs in the two products of attention: N / (6 D + N)."""
    return tokens / (6 * width + tokens)


def quadratic_fit(tokens: np.ndarray, milliseconds: np.ndarray) -> np.ndarray:
    """(c, a, b) >= 0 of c + a N + b N^2 with the smallest relative errors."""
    powers = np.stack([np.ones_like(tokens), tokens, tokens**2], axis=1)
    return nnls(powers / milliseconds[:, None], np.ones_like(milliseconds))[0]


def measured_shares(points: list[dict[str, Any]]) -> list[tuple[int, float, float]]:
    """(tokens, predicted share, measured share) of the part that grows with the square of the tokens."""
    tokens = np.array([(point["value"] // PATCH) ** 2 for point in points], dtype=float)
    constant, linear, square = quadratic_fit(tokens, np.array([point["milliseconds"] for point in points]))
    return [
        (int(count), attention_share(count), float(square * count**2 / (constant + linear * count + square * count**2)))
        for count in tokens
    ]


def draw(parts: Mapping[str, Numbers], folder: Path) -> list[str]:
    """Draw what was measured; the names of the files."""
    made = []
    files = sorted(
        (found for name, found in parts.items() if name.startswith("predict_")), key=lambda one: one["files"]
    )
    if len(files) > 1:
        save(_predict_figure(files), folder / "scaling_predict.png")
        made.append("scaling_predict.png")
    sweeps = {name.removeprefix("training_"): found["points"] for name, found in parts.items() if "points" in found}
    if len(sweeps) == 4:
        save(_training_figure(sweeps), folder / "scaling_training.png")
        made.append("scaling_training.png")
    return made


def _predict_figure(files: list[Numbers]) -> Figure:
    figure = Figure(figsize=(7.2, 2.8), layout="constrained")
    time, memory = figure.subplots(1, 2)
    counts = [found["files"] for found in files]
    for axes, heights, title, unit in (
        (time, [found["seconds"] for found in files], "Time of vit predict", "seconds"),
        (memory, [found["peak_bytes"] / 2**20 for found in files], "Peak memory of vit predict", "MiB"),
    ):
        _line(axes, counts, heights)
        axes.set(title=title, xlabel="files", ylabel=unit, xlim=(0, None), ylim=(0, 1.15 * max(heights)))
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def _training_figure(sweeps: Mapping[str, list[dict[str, Any]]]) -> Figure:
    figure = Figure(figsize=(7.2, 5.4), layout="constrained")
    titles = {
        "batch": "images of a batch (log scale)", "resolution": "side of the image in pixels", "depth": "blocks",
        "width": "width of a token",
    }  # fmt: skip
    for axes, (what, label) in zip(figure.subplots(2, 2).flat, titles.items(), strict=True):
        points = sweeps[what]
        values = [point["value"] for point in points]
        times = [point["milliseconds"] for point in points]
        _line(axes, values, times)
        axes.set(xlabel=label, ylabel="ms per image", ylim=(0, 1.15 * max(times)))
        if what == "batch":
            axes.set_xscale("log", base=2)
        axes.set_xticks(values, [str(value) if value != 96 else "" for value in values])  # 96 is too near to 64
        axes.minorticks_off()
        if what == "resolution":
            _shares(axes, points)
    return figure


def _shares(axes: Axes, points: list[dict[str, Any]]) -> None:
    """The share of attention on a second axis, as FLOPs predict it and as the times have it."""
    shares, right = measured_shares(points), axes.twinx()
    values = [point["value"] for point in points]
    for index, (words, column) in enumerate(
        (("share of FLOPs: N / (6D + N)", 1), ("share of the time, by a fit", 2)), start=1
    ):
        color, marker = look(index)
        right.plot(values, [100 * row[column] for row in shares], color=color, marker=marker, ms=3, lw=1, label=words)
    right.set(ylabel="share of attention in %", ylim=(0, 100))
    right.spines["right"].set_visible(True)
    right.plot([], [], color=look(0)[0], marker=look(0)[1], ms=4, label="ms per image")
    right.legend(loc="upper left", frameon=False, fontsize=8)


def _line(axes: Axes, values: list[float], heights: list[float]) -> None:
    color, marker = look(0)
    axes.plot(values, heights, color=color, marker=marker, ms=4)


def table(parts: Mapping[str, Numbers]) -> Iterator[str]:
    """The tables of the document, from whatever parts were measured."""
    files = sorted(
        (found for name, found in parts.items() if name.startswith("predict_")), key=lambda one: one["files"]
    )
    if files:
        yield from ("| files | seconds | peak memory, MiB |", "|---|---|---|")
        for found in files:
            yield f"| {found['files']:,} | {found['seconds']:.1f} | {found['peak_bytes'] / 2**20:,.0f} |"
        yield ""
    if "training_resolution" in parts:
        points = parts["training_resolution"]["points"]
        yield "| side, pixels | tokens | ms per image (min to max) | attention's share of FLOPs | of time, by a fit |"
        yield "|---|---|---|---|---|"
        for point, (tokens, predicted, measured) in zip(points, measured_shares(points), strict=True):
            time = f"{point['milliseconds']:.2f} ({point['low']:.2f} to {point['high']:.2f})"
            yield f"| {point['value']} | {tokens} | {time} | {100 * predicted:.0f} % | {100 * measured:.0f} % |"
        yield ""
    for what in ("batch", "depth", "width"):
        if f"training_{what}" in parts:
            points = parts[f"training_{what}"]["points"]
            yield f"| {what} | {' | '.join(str(point['value']) for point in points)} |"
            yield "|---" * (len(points) + 1) + "|"
            yield f"| ms per image | {' | '.join(format(point['milliseconds'], '.3g') for point in points)} |"
            yield ""
    if "study" in parts:
        yield from _study(parts["study"])
    if "names" in parts:
        yield from _names(parts["names"])


def _study(found: Numbers) -> Iterator[str]:
    seconds = sorted(found["beyond_training_seconds"])
    median, n = seconds[len(seconds) // 2], len(seconds)
    yield (
        f"A cell of `vit study` costs {median:.2f} s beyond its training "
        f"({seconds[0]:.2f} to {seconds[-1]:.2f}, n = {n}). The goal is 0.5 s."
    )
    yield ""


def _names(found: Numbers) -> Iterator[str]:
    yield from (
        f"| {found['names']:,} files in {found['classes']:,} classes | seconds | bytes per name |",
        "|---|---|---|",
    )
    for what, numbers in found.items():
        if isinstance(numbers, dict) and "seconds" in numbers:
            yield f"| {what} | {numbers['seconds']:.1f} | {max(0.0, numbers['bytes_per_name']):,.0f} |"
    yield ""
