"""Pages of 'vit compare' and 'vit crossval': accuracies, differences, and images or classes that are confused"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from vit.checkpoints.run import RunDirectory
from vit.console import p_value
from vit.data.core.samples import Source
from vit.data.splits.split import read_splits
from vit.inference.metrics.metrics import MOST_IN_CONFUSION, confusion, f1_order, per_class
from vit.report.page.figures import confusion_matrix
from vit.report.page.page import scripts, with_next_steps, write_new_page, write_page
from vit.report.page.style import drawn, look, plain, plot
from vit.report.run.run_pictures import Cards, describe_changed, pixels_of
from vit.report.studies.study_figures import NAME, bars, in_percent
from vit.study.answer.wording import Cell, complement, ends, percents, value_text
from vit.study.crossval import CrossvalResult
from vit.study.findings import ALPHA, Difference, Interval
from vit.study.run_comparison import FinishedRun, RunComparison

PER_SECTION = 12  # pictures
MOST_PICTURES = 240  # of all sections together
MOST_CLASSES = 1000
MOST_PAIRS = 40


def difference_figure(first: str, found: Sequence[tuple[str, Interval, float]]) -> Figure:
    """Accuracy of the first run minus that of each other run, in points. A filled mark has a corrected p below 0.05."""
    figure, axes = plot(9, 1.4 + 0.42 * len(found))
    color, marker = look(0)
    shown = [in_percent(gap) for _, gap, _ in found]
    for row, (gap, (*_, p)) in enumerate(zip(shown, found, strict=True)):
        fill = color if p < ALPHA else "white"
        axes.errorbar([gap.value], [row], xerr=bars(gap), fmt=marker, color=color, markerfacecolor=fill, capsize=2.5)
    reach = max([1.0, *(abs(end) for gap in shown for end in (gap.value, *(gap.ends or ())))])
    axes.axvline(0, color="0.4", linewidth=0.9, zorder=0)
    axes.set_yticks(range(len(found)), [plain(name, NAME) for name, *_ in found])
    axes.set(ylim=(len(found) - 0.4, -1.0), xlim=(-1.15 * reach, 1.15 * reach))
    axes.grid(axis="x", color="0.92")
    axes.text(0.99, 0.99, f"{plain(first, NAME)} is ahead", transform=axes.transAxes, ha="right", va="top", fontsize=8)
    axes.text(0.01, 0.99, "the other is ahead", transform=axes.transAxes, ha="left", va="top", fontsize=8)
    axes.set(xlabel=f"accuracy of {plain(first, NAME)} minus that of the other, in points")
    return figure


def write_compare_page(path: Path, found: RunComparison, source: Source | None) -> int:
    """Write the page; returns how many images have no picture because their files were replaced.

    Without the first run's images (`source`), or with other ones, the page has no pictures. ResourceError where the
    page cannot be written.
    """
    first, names = found.runs[0], letters(len(found.runs))
    rows, run = [(row.path, row.label) for row in first.rows], RunDirectory(first.path)
    pixels = None if source is None else pixels_of(run, source, "test", rows, read_splits(run.splits_path))
    sections = _image_sections(found, Cards(first.rows, pixels))
    num_changed = len(pixels.changed) if pixels else 0
    anchors = {section["anchor"] for section in sections}
    differences = found.differences if found.groups else []
    compared = [(name, complement(one.gap, 0.0), one.p_adjusted) for name, one in differences if one is not None]
    if not found.groups:
        pairs = zip(names[1:], found.pairs, strict=True)
        compared = [(f"{name}: {_long_name(pair.other)}", pair.gap, pair.p_adjusted) for name, pair in pairs]
    content: dict[str, object] = {
        "found": found,
        "first": first,
        "headline": _headline(found),
        "runs": _run_rows(found),
        "pairs": [
            {
                "name": name,
                "gap": _cell(pair.gap),
                "test": pair.test,
                "p": p_value(pair.test.p),
                "p_adjusted": p_value(pair.p_adjusted),
                "anchors": [one if (one := f"{side}-{number}") in anchors else "" for side in ("first", "other")],
            }
            for number, (name, pair) in enumerate(zip(names[1:], found.pairs, strict=True))
            if not found.groups
        ],
        "groups": [(one.name, len(one.wrong), complement(one.error).text) for one in found.groups],
        "group_differences": [_group_row(name, one) for name, one in found.differences],
        "figure": drawn(difference_figure(found.groups[0].name if found.groups else "A", compared))
        if compared
        else None,
        "letters": names,
        "summary": _summary(found),
        "sections": sections,
        "has_pictures": pixels is not None,
        "changed": describe_changed(num_changed),
        **scripts("table.js", "copy.js"),
    }
    write_new_page(path, "compare.html", content)
    return num_changed


def letters(count: int) -> list[str]:
    """Short names of runs: A, B, ..., Z, then numbers."""
    return [chr(ord("A") + place) if place < 26 else f"{place + 1}" for place in range(count)]


def _image_sections(comparison: RunComparison, pictures: Cards) -> list[dict[str, Any]]:
    """Images with different labels by who is right; for recipes with several seeds one section."""
    names, groups = letters(len(comparison.runs)), []
    if comparison.groups:
        groups = [("images", "Different labels, largest difference in loss first", comparison.disagreements)]
    else:
        for number, (pair, name) in enumerate(zip(comparison.pairs, names[1:], strict=True)):
            ours, theirs = comparison.runs[0].rows, pair.other.rows
            for side, title, wanted in (
                ("first", f"Only A is right, not {name}", (True, False)),
                ("other", f"Only {name} is right, not A", (False, True)),
                ("wrong", f"A and {name} are wrong in different ways", (False, False)),
            ):
                indices = [
                    index
                    for index in comparison.disagreements
                    if tuple(row.label == row.predicted for row in (ours[index], theirs[index])) == wanted
                    and ours[index].predicted != theirs[index].predicted
                ]
                if indices:
                    groups.append((f"{side}-{number}", title, indices))
    each = min(4 * PER_SECTION if comparison.groups else PER_SECTION, max(2, MOST_PICTURES // max(1, len(groups))))
    shown = groups[: MOST_PICTURES // each]
    pictures.prepare([index for *_, indices in shown for index in indices[:each]])

    def card(index: int) -> dict[str, object]:
        rows = [run.rows[index] for run in comparison.runs]
        guesses = [
            (name, row.predicted, row.probability, row.label == row.predicted)
            for name, row in zip(names, rows, strict=True)
        ]
        (picture,) = pictures.cards([index])
        return {"path": rows[0].path, "label": rows[0].label, "guesses": guesses, "picture": picture.picture}

    return [
        {"anchor": anchor, "title": title, "count": len(indices), "cards": [card(index) for index in indices[:each]]}
        for anchor, title, indices in shown
    ]


def _run_rows(found: RunComparison) -> list[tuple[str, str, str, int, int]]:
    """(letter, name, accuracy, right, wrong) of every run."""
    rows = []
    for letter, run, accuracy in zip(letters(len(found.runs)), found.runs, found.accuracies, strict=True):
        right = int(run.correct.sum())
        rows.append((letter, _long_name(run), accuracy.text, right, len(run.rows) - right))
    return rows


def _long_name(run: FinishedRun) -> str:
    """Network and folder of a run, without the folders above."""
    return f"{run.network}/{run.path.resolve().name}"


def _headline(comparison: RunComparison) -> list[str]:
    """The answer in a sentence for each other run or recipe, and warnings of images that runs knew already."""
    if comparison.groups:
        first = comparison.groups[0].name
        several = sum(one.is_tested for _, one in comparison.differences if one is not None) > 1
        answers = [_answer_over_seeds(first, name, one, several) for name, one in comparison.differences]
        answers = answers or ["One recipe with several seeds: there is nothing to compare it with."]
    else:
        others = letters(len(comparison.runs))[1:]
        answers = [
            _answer("A", letter, pair.gap, pair.p_adjusted, len(others) > 1, "test images")
            for letter, pair in zip(others, comparison.pairs, strict=True)
        ]
    return [*answers, *(f"WARNING: {sentence}." for sentence in comparison.seen_before)]


def _answer_over_seeds(first: str, other: str, one: Difference | None, several: bool) -> str:
    if one is None:
        return f"{first} and {other} have no seed in common, and so no test."
    gap = complement(one.gap, 0.0)
    if not one.is_tested:
        points = f"{100 * gap.value:+z.2f} points"
        return f"Accuracy of {first} minus that of {other}: {points}, from one common seed and without a test."
    return _answer(first, other, gap, one.p_adjusted, several, "seeds and test images")


def _answer(first: str, other: str, gap: Interval, p: float, several: bool, over: str) -> str:
    """The answer of one comparison; p is corrected where there are several comparisons, and the interval is not."""
    low, high = gap.ends or (0.0, 0.0)
    is_open = p >= ALPHA
    disagrees = is_open and (low > 0 or high < 0)
    shown = p_value(p)
    numbers = (
        f"{100 * gap.value:+z.2f} points ({'uncorrected ' * (several and disagrees)}95 % interval {100 * low:+z.2f} to "
        f"{100 * high:+z.2f}; {'corrected ' * several}p {'= ' * (not shown.startswith('<'))}{shown}"
        f"{', of a stricter test' * (disagrees and not several)})"
    )
    if is_open:
        return f"{first} and {other} cannot be told apart: {numbers}, over {over}."
    ahead, behind = (first, other) if gap.value > 0 else (other, first)
    return f"{ahead} is more accurate than {behind}: {first} minus {other} is {numbers}, over {over}."


def _summary(comparison: RunComparison) -> list[str]:
    first = comparison.runs[0]
    lines = [f"{len(comparison.runs):,} runs on {comparison.images} of {first.result.data}"]
    lines += [f"{letter}: {name}, accuracy {accuracy}" for letter, name, accuracy, _, _ in _run_rows(comparison)]
    units = "test images" if first.groups is None else "groups of test images"
    steps = [f"More {units} or more seeds (vit study) narrow the intervals."]
    if not comparison.groups:
        steps = ["These intervals are about these trained models: vit study trains several seeds of each."]
    return with_next_steps([*lines, *_headline(comparison)], steps)


def _cell(gap: Interval) -> Cell:
    return f"{100 * gap.value:+z.2f}", ends(gap, lambda end: f"{100 * end:+z.2f}")


def _group_row(name: str, one: Difference | None) -> tuple[str, str, Cell, str, str]:
    """(name, seeds, difference, p, corrected p) of another recipe than the first, over seeds and test images."""
    if one is None:
        return name, "none", ("", ""), "", ""
    p, p_adjusted = (p_value(one.p), p_value(one.p_adjusted)) if one.is_tested else ("", "")
    return name, f"{len(one.seeds)}", _cell(complement(one.gap, 0.0)), p, p_adjusted


def write_crossval_page(found: CrossvalResult, path: Path) -> None:
    """Write the page of a finished cross-validation."""
    predictions, accuracy, names = found.predictions, found.accuracy, found.predictions.class_names
    labels, guesses = predictions.labels, predictions.predictions
    wrong = ~predictions.correct
    pairs = Counter(zip(labels[wrong].tolist(), guesses[wrong].tolist(), strict=True)).most_common(MOST_PAIRS)
    is_readable = len(names) <= MOST_IN_CONFUSION
    rows = zip(accuracy.num_images, accuracy.folds, found.runs, strict=True)
    content = {
        **{name: value_text(found.description[name]) for name in ("data", "network", "division")},
        "folder": path.parent.resolve().name,
        "found": found,
        "num_classes": len(names),
        "num_groups": accuracy.num_groups,
        "accuracy": percents(accuracy.accuracy),
        "naive": percents(accuracy.naive),
        "unreadable": list(found.left_out.items()),
        "folds": [(number, count, percents(one), run.name) for number, (count, one, run) in enumerate(rows, 1)],
        "classes": sorted(per_class(labels, guesses, names), key=lambda row: f1_order(row.f1))[:MOST_CLASSES],
        "confusion": drawn(confusion_matrix(confusion(labels, guesses, len(names)), names)) if is_readable else None,
        "pairs": [(names[label], names[guess], count) for (label, guess), count in pairs],
        **scripts("table.js"),
    }
    write_page(path, "crossval.html", content)
