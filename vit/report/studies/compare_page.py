"""The page of `vit compare`: accuracies, paired differences, options that differ, and images with different labels"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure

from vit.checkpoints.run import RunDirectory
from vit.console import interval, p_value
from vit.data.core.samples import Source
from vit.data.splits.split import read_splits
from vit.errors import ResourceError
from vit.report.page.page import scripts, with_next_steps, write_page
from vit.report.page.style import drawn, look, plain
from vit.report.run.run_pictures import Cards, describe_changed, num_changed, pixels_of
from vit.report.studies.compare_images import ImageSection, image_sections, letters
from vit.report.studies.study_figures import NAME, bars, ends, scaled
from vit.study.answer.wording import Cell
from vit.study.findings import ALPHA, Difference, Interval
from vit.study.run_comparison import RunComparison, RunPair
from vit.study.running.finished_runs import FinishedRun


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


@dataclass(frozen=True)
class RunPairRow:
    """A difference as the page prints it, and the anchors of its images."""

    name: str
    gap: Cell
    only_first: int
    only_second: int
    p: str
    p_adjusted: str
    anchors: tuple[str, str]


@dataclass(frozen=True)
class GroupRow:
    """A recipe with several seeds."""

    name: str
    num_seeds: int
    accuracy: str


@dataclass(frozen=True)
class GroupDifferenceRow:
    """The first recipe against another one, over seeds and test images."""

    name: str
    seeds: str
    gap: Cell
    p: str
    p_adjusted: str


def write_compare_page(path: Path, found: RunComparison, source: Source | None) -> int:
    """Write the page.

    Args:
        source: the images of the first run. With None, or with other images, the page has no pictures.

    Returns:
        The number of images that have no picture on the page because their files were replaced.

    Raises:
        ResourceError: the page cannot be written.
    """
    first = found.runs[0]
    rows, run = [(row.path, row.label) for row in first.rows], RunDirectory(first.path)
    pixels = None if source is None else pixels_of(run, source, "test", rows, read_splits(run.splits_path))
    pictures = Cards(first.rows, pixels)
    sections = image_sections(found, pictures)
    content: dict[str, object] = {
        "data": first.data,
        "images": found.images,
        "has_groups": found.runs[0].groups is not None,
        "headline": _headline(found),
        "runs": _run_rows(found),
        "pairs": [] if found.groups else [_pair_row(number, pair, sections) for number, pair in enumerate(found.pairs)],
        "groups": [GroupRow(one.name, len(one.wrong), _mean_accuracy(one.error)) for one in found.groups],
        "group_differences": [_group_row(name, one) for name, one in found.differences],
        "figure": _figure(found),
        "letters": letters(len(found.runs)),
        "options": found.options,
        "summary": _summary(found),
        "num_disagreements": len(found.disagreements),
        "sections": sections,
        "has_pictures": pixels is not None,
        "changed": describe_changed(num_changed(pixels)),
        **scripts("table.js", "copy.js"),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, "compare.html", content)
    except OSError as error:
        raise ResourceError(f"cannot write {path}: {error.strerror}", "choose another --page") from error
    return num_changed(pixels)


def _run_rows(found: RunComparison) -> list[tuple[str, str, str, int, int]]:
    """(letter, name, accuracy, right, wrong) of every run."""
    rows = []
    for letter, run, accuracy in zip(letters(len(found.runs)), found.runs, found.accuracies, strict=True):
        right = int(run.correct.sum())
        shown = interval(accuracy.value, accuracy.low or 0.0, accuracy.high or 0.0)
        rows.append((letter, _long_name(run), shown, right, len(run.rows) - right))
    return rows


def _long_name(run: FinishedRun) -> str:
    """Network and folder of a run, without the folders above."""
    return f"{run.network}/{run.path.resolve().name}"


def _headline(found: RunComparison) -> list[str]:
    """The answer in a sentence for each other run or recipe, and warnings of images that runs knew already."""
    return [*_answers(found), *(f"WARNING: {sentence}." for sentence in found.seen_before)]


def _answers(found: RunComparison) -> list[str]:
    """The answer in a sentence for each other run or recipe."""
    if found.groups:
        first = found.groups[0].name
        several = sum(one.is_tested for _, one in found.differences if one is not None) > 1
        told = [_told_over_seeds(first, name, one, several) for name, one in found.differences]
        return told or ["One recipe with several seeds: there is nothing to compare it with."]
    others = letters(len(found.runs))[1:]
    return [
        _told("A", letter, pair.gap, pair.p_adjusted, len(others) > 1, "test images")
        for letter, pair in zip(others, found.pairs, strict=True)
    ]


def _told_over_seeds(first: str, other: str, one: Difference | None, several: bool) -> str:
    if one is None:
        return f"{first} and {other} have no seed in common, and so no test."
    gap = _accuracy_gap(one)
    if not one.is_tested:
        points = f"{100 * gap.value:+z.2f} points"
        return f"Accuracy of {first} minus that of {other}: {points}, from one common seed and without a test."
    return _told(first, other, gap, one.p_adjusted, several, "seeds and test images")


def _told(first: str, other: str, gap: Interval, p: float, several: bool, over: str) -> str:
    """The answer of one comparison.

    Args:
        p: p value, corrected where there are several comparisons; the interval is not.
    """
    low, high = (0.0 if end is None else end for end in (gap.low, gap.high))
    is_open = p >= ALPHA
    disagrees = is_open and (low > 0 or high < 0)
    numbers = (
        f"{100 * gap.value:+z.2f} points ({'uncorrected ' * (several and disagrees)}95 % interval {100 * low:+z.2f} to "
        f"{100 * high:+z.2f}; {'corrected ' * several}p {_p(p)}{', of a stricter test' * (disagrees and not several)})"
    )
    if is_open:
        return f"{first} and {other} cannot be told apart: {numbers}, over {over}."
    ahead, behind = (first, other) if gap.value > 0 else (other, first)
    return f"{ahead} is more accurate than {behind}: {first} minus {other} is {numbers}, over {over}."


def _p(p: float) -> str:
    shown = p_value(p)
    return shown if shown.startswith("<") else f"= {shown}"


def _summary(found: RunComparison) -> list[str]:
    first = found.runs[0]
    lines = [f"{len(found.runs)} runs on {found.images} of {first.data}"]
    lines += [f"{letter}: {name}, accuracy {accuracy}" for letter, name, accuracy, _, _ in _run_rows(found)]
    units = "test images" if first.groups is None else "groups of test images"
    steps = [f"More {units} or more seeds (vit study) narrow the intervals."]
    if not found.groups:
        steps = ["These intervals are about these trained models: vit study trains several seeds of each."]
    return with_next_steps([*lines, *_headline(found)], steps)


def _cell(gap: Interval) -> Cell:
    around = "" if gap.low is None or gap.high is None else f"{100 * gap.low:+z.2f} to {100 * gap.high:+z.2f}"
    return f"{100 * gap.value:+z.2f}", around


def _pair_row(number: int, pair: RunPair, sections: Sequence[ImageSection]) -> RunPairRow:
    shown = {section.anchor for section in sections}
    anchors = [f"{side}-{number}" if f"{side}-{number}" in shown else "" for side in ("first", "other")]
    test = pair.test
    ps = p_value(test.p), p_value(pair.p_adjusted)
    return RunPairRow(
        letters(number + 2)[-1], _cell(pair.gap), test.only_first, test.only_second, *ps, (anchors[0], anchors[1])
    )


def _mean_accuracy(error: Interval) -> str:
    if error.low is None or error.high is None:
        return f"{100 - 100 * error.value:.2f} %"
    return interval(1 - error.value, 1 - error.high, 1 - error.low)


def _accuracy_gap(one: Difference) -> Interval:
    """A difference of accuracies from one of errors."""
    low, high = (None if end is None else -end for end in (one.gap.high, one.gap.low))
    return Interval(-one.gap.value, low, high)


def _group_row(name: str, one: Difference | None) -> GroupDifferenceRow:
    if one is None:
        return GroupDifferenceRow(name, "none", ("", ""), "", "")
    ps = ("", "") if one.margin_of_error is None else (p_value(one.p), p_value(one.p_adjusted))
    return GroupDifferenceRow(name, f"{len(one.seeds)}", _cell(_accuracy_gap(one)), *ps)


def _figure(found: RunComparison) -> Markup | None:
    if found.groups:
        bars = [
            DifferenceBar(name, _accuracy_gap(one), one.p_adjusted)
            for name, one in found.differences
            if one is not None
        ]
        first = found.groups[0].name
    else:
        others = letters(len(found.runs))[1:]
        bars = [
            DifferenceBar(f"{letter}: {_long_name(pair.other)}", pair.gap, pair.p_adjusted)
            for letter, pair in zip(others, found.pairs, strict=True)
        ]
        first = "A"
    return drawn(difference_figure(first, bars)) if bars else None
