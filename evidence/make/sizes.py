"""The table, the answer and the figure of a row whose networks learn from several numbers of training images.

The answer is that of `vit study`: the sentences and the corrected tests of the study's own report.
"""

from collections.abc import Iterator
from pathlib import Path

from definitions import ROOT, Published
from figures import stated, write_figure
from kept import Kept, at
from sentences import accuracy_text, error_of, p_text, table_line

from vit.report.studies.study_figures import learning_curves
from vit.study.findings import Difference, Findings, Interval

CURVES = ROOT / "docs" / "figures" / "studies"
NEAR = 0.1  # of a number of training images: nearer ones share a line with published numbers


def size_lines(kept: Kept) -> Iterator[str]:
    """What a study of several sizes found: answer, warnings, figure, accuracies, differences, and published numbers."""
    findings = kept.findings
    yield f"**{findings.answer[0]}** **{findings.answer[1]}** {findings.trend}"
    lines = [findings.conditions, *findings.warnings]
    yield ""
    yield from (f"- {line}" for line in lines)
    yield ""
    name = kept.row.name
    yield f"![Test error against the number of training images](figures/studies/{name}.png)"
    yield ""
    yield from _table(kept, findings)
    for published in kept.row.published:
        yield ""
        yield from _beside(kept, published)


def _table(kept: Kept, findings: Findings) -> Iterator[str]:
    """A line for each size: the accuracy of each network, and for each pair the difference of the errors and p."""
    gaps = [{one.num_images: one for one in pair.differences} for pair in findings.comparisons]
    heads = [f"{one.name}, {one.parameters:,} parameters" for one in findings.series]
    heads += [f"errors of {pair.first} minus {pair.second} (points; p)" for pair in findings.comparisons]
    yield table_line(("training images", *heads))
    yield table_line(["---"] * (1 + len(heads)))
    for size in findings.sizes:
        points = [next((one for one in series.points if one.num_images == size), None) for series in findings.series]
        found = [
            f"{accuracy_text(error_of(kept, point))}{_seeds(kept, len(point.seeds))}" if point else ""
            for point in points
        ]
        yield table_line((f"{size:,}", *found, *(_gap(pair[size]) if size in pair else "" for pair in gaps)))


def _seeds(kept: Kept, count: int) -> str:
    """The number of seeds where some are missing."""
    seeds = kept.protocol["seeds"]
    assert isinstance(seeds, list)
    return "" if count == len(seeds) else f", {count} of {len(seeds)} seeds"


def _gap(one: Difference) -> str:
    gap = _with_ends(one.gap, 100, "+.2f")
    if not one.is_tested:
        return gap
    bold = "**" if one.is_significant else ""
    return f"{bold}{gap}{bold}; {p_text(one.p_adjusted).removeprefix('= ')}"


def _with_ends(interval: Interval, factor: float, how: str) -> str:
    """A value with its interval, as far as the runs bound it."""
    words = format(factor * interval.value, how)
    if interval.low is None or interval.high is None:
        return words
    return f"{words} ({factor * interval.low:{how}} to {factor * interval.high:{how}})"


def _beside(kept: Kept, published: Published) -> Iterator[str]:
    """Published accuracies of two networks beside those of this row, with both ways to compare their errors."""
    answers = kept.answers_by_size
    ours = sorted({cell.num_images for cell in kept.cells})
    yield published.words
    yield ""
    heads = [f"{whose} {name} (%)" for whose in ("published", "our") for name in published.series]
    columns = (
        "training images", *heads[:2], "gap (points)", "ratio of the errors", *heads[2:], "gap (points)",
        "ratio of the errors",
    )  # fmt: skip
    yield table_line(columns)
    yield table_line(["---"] * len(columns))
    for place, size in enumerate(published.sizes):
        near = min(ours, key=lambda own: abs(own - size))
        names = [at(name, near) for name in published.series]
        is_shared = abs(near - size) <= NEAR * size and all(name in answers.correct[""] for name in names)
        theirs = [accuracies[place] for accuracies in published.accuracies]
        found = [100 - 100 * float(answers.wrong("", name).mean()) for name in names] if is_shared else []
        words = f"{size:,}" if not is_shared or near == size else f"{size:,} (ours {near:,})"
        yield table_line((words, *_both(theirs), *(_both(found) if found else [""] * 4)))


def _both(accuracies: list[float]) -> list[str]:
    """Two accuracies in percent, how far the first is behind in points, and the ratio of their errors."""
    first, second = accuracies
    return [f"{first:.2f}", f"{second:.2f}", f"{second - first:.2f}", f"{(100 - first) / (100 - second):.2f}"]


def curve_path(kept: Kept) -> Path:
    """The figure of a row."""
    return CURVES / f"{kept.row.name}.png"


def curve_numbers(kept: Kept) -> dict[str, list[list[float | None]]]:
    """What the figure shows: {series: [number of images, errors of the seeds, and both ends of the interval]}, and
    what is expected with more images."""
    found = {}
    for series in kept.findings.series:
        ends = [(*point.errors, point.mean.low, point.mean.high) for point in series.points]
        rows = [[None if value is None else round(value, 6) for value in row] for row in ends]
        found[series.name] = [[point.num_images, *row] for point, row in zip(series.points, rows, strict=True)]
        if len(series.points) > 1:
            ahead = [(row.num_images, row.error, row.low, row.high) for row in series.forecast.expected]
            found[f"{series.name}, forecast"] = [[round(value, 6) for value in row] for row in ahead]
    return found


def draw_curve(kept: Kept) -> Path:
    """Draw the learning curves of a row, unless the file shows the same numbers."""
    path, numbers = curve_path(kept), curve_numbers(kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or stated(path) != numbers:
        write_figure(learning_curves(kept.findings), numbers, path)
    return path
