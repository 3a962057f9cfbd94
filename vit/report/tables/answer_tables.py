"""Tables and figures of a page on what the network does where it is not sure"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from vit.inference.answers.selective import RiskCoverage, risk_coverage
from vit.inference.metrics.measured_answers import MeasuredAnswers, MeasuredNovelty, MeasuredSets, MeasuredThreshold
from vit.inference.scores.intervals import Metric
from vit.report.page.style import drawn
from vit.report.tables.run_tables import Tested, cell_of
from vit.study.answer.wording import Cell

MOST_CLASSES = 60
METHODS = {"lac": "smallest (lac)", "aps": "adaptive (aps)", "class_conditional": "by class (class_conditional)"}


@dataclass(frozen=True)
class ThresholdRow:
    """A target accuracy, and what its threshold does on the measured images."""

    target: str
    threshold: str
    kept: Cell
    accuracy: Cell


@dataclass(frozen=True)
class SetRow:
    """A method of prediction sets, and what it does on the measured images."""

    method: str
    coverage: str
    measured: Cell
    mean_size: str
    lowest: str


def unsure_content(answers: MeasuredAnswers, tested: Tested, class_names: Sequence[str]) -> dict[str, Any]:
    """The part of a page about images that the network is not sure of, from answers and the measured images."""
    curve = risk_coverage(tested.confidences, tested.correct, groups=tested.groups)
    shown = [row for row in answers.sets if row.coverage == answers.sets[0].coverage]
    novelty = answers.novelty
    return {
        "num_validation": answers.num_validation,
        "area": _percents(answers.area),
        "curve": drawn(risk_figure(curve)),
        "thresholds": [_threshold_row(row) for row in answers.thresholds],
        "sets": [_set_row(row, class_names) for row in answers.sets],
        "set_classes": _by_class(shown, class_names),
        "set_columns": [METHODS[row.method] for row in shown],
        "unlike": "" if novelty is None else _percents(novelty.unlike),
        "novelty": None if novelty is None else drawn(novelty_figure(novelty)),
    }


def novelty_figure(novelty: MeasuredNovelty) -> Figure:
    """Number of images in each twentieth of the novelty; all are equally high for images like those of the fit."""
    figure = Figure(figsize=(5.6, 2.8), layout="constrained")
    axes = figure.subplots()
    count, total = len(novelty.counts), sum(novelty.counts)
    shares = [100 * one / total for one in novelty.counts]
    axes.bar([(place + 0.5) / count for place in range(count)], shares, width=0.9 / count)
    axes.axhline(100 / count, linestyle=":", color="black")
    axes.set(xlabel="novelty", ylabel="images (%)", xlim=(0, 1))
    axes.set_title("Images by novelty")
    return figure


def risk_figure(curve: RiskCoverage) -> Figure:
    """Error of the labeled images against their fraction, with the 95 % interval at each point."""
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.subplots()
    coverage = 100 * curve.coverage
    axes.fill_between(coverage, 100 * curve.low, 100 * curve.high, alpha=0.2, linewidth=0, step="post")
    axes.step(coverage, 100 * curve.risk, where="post")
    highest = 100 * max(curve.risk.max(), curve.high[-1])
    axes.set(xlabel="images with a label (%)", ylabel="errors among them (%)", xlim=(0, 100), ylim=(0, 1.15 * highest))
    axes.set_title("Error when only the most confident images get a label")
    return figure


def _threshold_row(row: MeasuredThreshold) -> ThresholdRow:
    threshold = "cannot be guaranteed" if row.threshold is None else f"{row.threshold:.4f}"
    accuracy = ("no image is labeled", "") if row.keeps_none else cell_of(row.accuracy)
    return ThresholdRow(f"{100 * row.target:g}", threshold, cell_of(row.kept), accuracy)


def _set_row(row: MeasuredSets, class_names: Sequence[str]) -> SetRow:
    known = [(value, name) for value, name in zip(row.by_class, class_names, strict=True) if value is not None]
    lowest, name = min(known)
    size = f"{row.mean_size:.2f}" + (f" ({row.unlimited} classes in every set)" if row.unlimited else "")
    return SetRow(
        METHODS[row.method], f"{100 * row.coverage:g}", cell_of(row.measured), size, f"{100 * lowest:.1f} ({name})"
    )


def _by_class(rows: Sequence[MeasuredSets], class_names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The measured coverage of each class for each method, lowest first."""
    table = [
        (name, [row.by_class[number] for row in rows])
        for number, name in enumerate(class_names)
        if rows[0].by_class[number] is not None
    ]
    table.sort(key=lambda line: min(value for value in line[1] if value is not None))
    return [
        (name, ["" if value is None else f"{100 * value:.1f}" for value in values])
        for name, values in table[:MOST_CLASSES]
    ]


def _percents(found: Metric) -> str:
    return f"{100 * found.value:.2f} % (95 % interval {100 * found.low:.2f} to {100 * found.high:.2f})"
