"""The figures of docs/claims.md, drawn from what evidence/ keeps; each PNG holds the numbers that it shows."""

import io
import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from definitions import ROOT, Claim
from kept import Answers
from lines import Lines
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from vit.report.page.style import look, rendered
from vit.study.findings import Interval
from vit.study.statistics.variance_components import mean_error

FIGURES = ROOT / "docs" / "figures" / "claims"
WIDTH = 7.0  # inches
WIDE = 50  # times as large as the smallest place: a linear axis would press the small ones together


def draw(claim: Claim, answers: Answers, path: Path) -> None:
    """Draw a claim into a file, whose text "vit" holds its numbers. A file with the same content stays as it is."""
    shown = content(claim, numbers(answers))
    if path.is_file() and stated(path) == shown:
        return
    if claim.by_condition:
        figure = _conditions(claim, answers)
    elif claim.drawn:
        figure = _curves(claim, answers)
    else:
        figure = _list(claim, answers)
    write_figure(figure, shown, path)


def draw_lines(claim: Claim, lines: Lines, path: Path) -> None:
    """Draw lines of numbers into a file, as `draw` does."""
    shown = content(claim, numbers_of_lines(lines))
    if path.is_file() and stated(path) == shown:
        return
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.add_subplot()
    factor = 100 if lines.is_share else 1
    for index, name in enumerate(lines.values):
        (color, marker), label = look(index), claim.names.get(name, name)
        found = [lines.at(name, place) for place in range(len(lines.x))]
        low, high = ([factor * (end if end is not None else one.value) for one, end in ends] for ends in (
            [(one, one.low) for one in found], [(one, one.high) for one in found],
        ))  # fmt: skip
        axes.plot(
            lines.x, [factor * one.value for one in found], color=color, marker=marker, markersize=4, lw=1, label=label
        )
        axes.fill_between(lines.x, low, high, color=color, alpha=0.2, lw=0)
    if lines.is_share:
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")
    if max(lines.x) > WIDE * min(lines.x):
        _log_ticks(axes, lines.x)
    axes.set(xlabel=claim.axis or lines.x_label, ylabel=f"{lines.y_label}{' (%)' * lines.is_share}")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)
    write_figure(figure, shown, path)


def content(claim: Claim, shown: object) -> object:
    """What decides a figure: its numbers and its words."""
    return {"numbers": shown, "words": [claim.axis, claim.value, dict(claim.names)]}


def numbers_of_lines(lines: Lines) -> dict[str, list[list[float]]]:
    """{line: values of each repetition}, as far as a figure could show them."""
    return {name: [[float(f"{one:.6g}") for one in row] for row in rows] for name, rows in lines.values.items()}


def write_figure(figure: Figure, shown: object, path: Path) -> None:
    """Write a figure as a PNG whose text "vit" holds what it shows."""
    info, buffer = PngInfo(), io.BytesIO()
    info.add_text("vit", json.dumps(shown, sort_keys=True))
    Image.open(io.BytesIO(rendered(figure, "png"))).save(buffer, "PNG", pnginfo=info, optimize=True)
    path.write_bytes(buffer.getvalue())


def stated(path: Path) -> object:
    """The numbers and words that a figure holds."""
    with Image.open(path) as picture:
        return json.loads(picture.info.get("vit", "null"))


def numbers(answers: Answers) -> dict[str, dict[str, list[float | None]]]:
    """{condition: {series: errors of the seeds, and both ends of the interval}}, as far as a figure could show them."""
    return {
        condition: {name: _numbers(answers, condition, name) for name in series}
        for condition, series in answers.correct.items()
    }


def _numbers(answers: Answers, condition: str, series: str) -> list[float | None]:
    found = _error(answers, condition, series)
    errors = [float(one.mean()) for one in answers.wrong(condition, series)]
    return [None if value is None else round(value, 6) for value in (*errors, found.low, found.high)]


def _error(answers: Answers, condition: str, series: str) -> Interval:
    return mean_error(answers.wrong(condition, series))


def _bar(axes: Axes, x: float, y: Interval, index: int, label: str | None, *, is_flat: bool = False) -> None:
    """A value with its interval in percent, upright or lying."""
    color, marker = look(index)
    value, low, high = (100 * (y.value if end is None else end) for end in (y.value, y.low, y.high))
    reach = np.array([[max(value - low, 0)], [max(high - value, 0)]])
    errorbar = partial(
        axes.errorbar, color=color, marker=marker, markersize=5, capsize=3, linestyle="none", label=label
    )
    if is_flat:
        errorbar([value], [x], xerr=reach)
    else:
        errorbar([x], [value], yerr=reach)


def _log_ticks(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic horizontal axis with a tick at each value."""
    axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:,g}" for value in values])
    axes.minorticks_off()


def _list(claim: Claim, answers: Answers) -> Figure:
    """Each series with its interval, one below the other."""
    names = list(answers.correct[""])
    figure = Figure(figsize=(WIDTH, 0.7 + 0.32 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    for place, name in enumerate(names):
        _bar(axes, -place, _error(answers, "", name), 0, None, is_flat=True)
    axes.set(xlabel="test error (%), with the 95 % interval", yticks=[-place for place in range(len(names))])
    axes.set_yticklabels([claim.names.get(name, name) for name in names])
    axes.set_xlim(left=0)
    axes.set_ylim(0.5 - len(names), 0.5)
    axes.grid(axis="x", alpha=0.3)
    return figure


def without(name: str, option: str) -> tuple[str, float]:
    """(series without an option of its name, value of that option)."""
    found = re.search(rf"(?:, )?{re.escape(option)}=([\d.]+)(?:, )?", name)
    assert found is not None, f"{name} has no number {option}"
    rest = (name[: found.start()] + name[found.end() :]).replace("()", "").strip(" ,")
    return rest, float(found[1])


def _curves(claim: Claim, answers: Answers) -> Figure:
    """Error against the value of an option, a line for each kind of series."""
    lines: dict[str, list[tuple[float, str]]] = {}
    for name in answers.correct[""]:
        rest, value = without(name, claim.drawn)
        lines.setdefault(rest, []).append((value, name))
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.add_subplot()
    values = sorted({value for points in lines.values() for value, _ in points})
    for index, (rest, points) in enumerate(lines.items()):
        points.sort()
        offset = 1 + 0.02 * (index - (len(lines) - 1) / 2)
        errors = [_error(answers, "", name) for _, name in points]
        for number, ((value, _), error) in enumerate(zip(points, errors, strict=True)):
            _bar(axes, value * offset, error, index, (claim.names.get(rest, rest) or None) if number == 0 else None)
        color, _ = look(index)
        axes.plot([value * offset for value, _ in points], [100 * error.value for error in errors], color=color, lw=1)
    _log_ticks(axes, values)
    axes.set(xlabel=claim.axis or claim.drawn, ylabel="test error (%), with the 95 % interval")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    if len(lines) > 1:
        axes.legend(frameon=False)
    return figure


def _conditions(claim: Claim, answers: Answers) -> Figure:
    """Accuracy of the compared series under each condition."""
    series: Sequence[str] = list(dict.fromkeys(name for pair in claim.compare for name in pair))
    shown = [name for name, found in answers.correct.items() if found.keys() & set(series)]
    figure = Figure(figsize=(WIDTH, 0.9 + 0.11 * len(shown) * len(series) + 0.14 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for index, name in enumerate(series):
        for place, condition in enumerate(shown):
            if name in answers.correct[condition]:
                offset = 0.6 * (index / max(1, len(series) - 1) - 0.5)
                error = _error(answers, condition, name)
                ends = (None if error.high is None else 1 - error.high, None if error.low is None else 1 - error.low)
                accuracy = Interval(1 - error.value, *ends)
                label = claim.names.get(name, name) if place == 0 else None
                _bar(axes, -place - offset, accuracy, index, label, is_flat=True)
    axes.set(xlabel=f"{claim.value} (%), with the 95 % interval", yticks=[-place for place in range(len(shown))])
    axes.set_yticklabels(shown)
    axes.set_xlim(-1, 101)
    axes.set_ylim(0.5 - len(shown), 0.5)
    axes.grid(axis="x", alpha=0.3)
    figure.legend(frameon=False, loc="outside upper center", ncols=2)
    return figure
