"""Tables of a run's page: metrics, classes, frequent mistakes, unsure images, and how the run was made"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from vit.checkpoints.result import RunResult
from vit.console import count_of, percent
from vit.data.core.samples import Labels
from vit.inference.answers.selective import RiskCoverage, risk_coverage
from vit.inference.metrics.measured_answers import MeasuredAnswers, MeasuredNovelty, MeasuredSets
from vit.inference.metrics.metrics import f1_order, per_class
from vit.inference.scores.intervals import Metric, recalls
from vit.inference.scores.scored_images import Floats, ScoredRow
from vit.report.page.style import drawn, plot
from vit.study.answer.wording import Cell, percent_text, percents
from vit.weights.hubs import license_text

Metrics = Mapping[str, Mapping[str, float]]

MOST_LEFT_OUT = 20
MOST_SET_CLASSES = 60  # rows of the table of prediction sets by class
METHODS = {"lac": "smallest (lac)", "aps": "adaptive (aps)", "class_conditional": "by class (class_conditional)"}


@dataclass(frozen=True)
class Tested:
    """The measured images of a run as arrays (n,), in the order of its rows."""

    labels: Labels  # true class numbers
    predictions: Labels  # predicted class numbers
    confidences: Floats  # probabilities of the predicted classes
    uncalibrated: Floats  # the same without temperature scaling
    losses: npt.NDArray[np.float64]  # negative log-probabilities of the true classes, in nats
    # number of each image's group, as of `image_groups.numbered`; None: all images are independent
    groups: Labels | None = None

    @classmethod
    def of(cls, rows: Sequence[ScoredRow], class_names: Sequence[str], groups: Labels | None) -> Self:
        """Arrays of the rows and of the numbers of their groups. KeyError for an unknown class."""
        numbers = {name: number for number, name in enumerate(class_names)}
        return cls(
            np.array([numbers[row.label] for row in rows], dtype=np.int64),
            np.array([numbers[row.predicted] for row in rows], dtype=np.int64),
            np.array([row.probability for row in rows], dtype=np.float32),
            np.array([row.uncalibrated for row in rows], dtype=np.float32),
            np.array([row.loss for row in rows]),
            groups,
        )

    @cached_property
    def correct(self) -> npt.NDArray[np.bool_]:
        """(n,) whether the prediction is the label."""
        return np.asarray(self.labels == self.predictions)

    @property
    def by_loss(self) -> list[int]:
        """Indices of the images, largest loss first."""
        return [int(index) for index in np.argsort(-self.losses, kind="stable")]

    def by_confidence(self, descending: bool = False) -> list[int]:
        """Indices of the images, lowest confidence first, or highest."""
        order = np.argsort(-self.confidences if descending else self.confidences, kind="stable")
        return [int(index) for index in order]


@dataclass(frozen=True)
class ClassRow:
    """A class: how many of its images were found, and with which other classes it was confused."""

    number: int  # its place among the model's outputs
    name: str
    training_images: int | None  # number of its training images; None if not known
    num_images: int
    recall: Cell
    precision: float | None
    f1: float | None
    missed: int  # number of its images with another prediction
    false_alarms: int  # number of other images that were predicted as this class
    # the two most frequent wrong predictions for its images: (class, its number, images)
    taken_for: list[tuple[str, int, int]]


def cell_of(found: Metric | None) -> Cell:
    """A metric in percent, and its 95 % interval."""
    return ("", "") if found is None else percents(found)


def metric_rows(titles: Mapping[str, str], after: Metrics, before: Metrics) -> list[tuple[str, Cell, Cell]]:
    """(title, value, value without temperatures) in the order of titles, from {name: {value, low, high}} of both."""
    return [
        (title, _metric(name, after[name]), _metric(name, before.get(name)))
        for name, title in titles.items()
        if name in after
    ]


def class_rows(tested: Tested, class_names: Sequence[str], training_images: Labels | None = None) -> list[ClassRow]:
    """A row for each class, lowest F1 first, and classes without images last; `training_images` has shape (C,)."""
    taken_for: list[Counter[int]] = [Counter() for _ in class_names]
    for label, predicted in zip(tested.labels.tolist(), tested.predictions.tolist(), strict=True):
        taken_for[label][predicted] += 1
    called = np.bincount(tested.predictions, minlength=len(class_names))
    class_recalls = recalls(tested.labels, tested.correct, len(class_names), tested.groups)
    rows = []
    for number, measured in enumerate(per_class(tested.labels, tested.predictions, tuple(class_names))):
        wrong = taken_for[number]
        right = wrong.pop(number, 0)
        rows.append(
            ClassRow(
                number=number,
                name=measured.class_name,
                training_images=None if training_images is None else int(training_images[number]),
                num_images=right + wrong.total(),
                recall=cell_of(class_recalls[number]),
                precision=measured.precision,
                f1=measured.f1,
                missed=wrong.total(),
                false_alarms=int(called[number]) - right,
                taken_for=[(class_names[other], other, count) for other, count in wrong.most_common(2)],
            )
        )
    return sorted(rows, key=lambda row: f1_order(row.f1))


def facts(result: RunResult) -> list[tuple[str, str]]:
    """How the run was made, in a line each."""
    values = {"image_size": result.image_size, **result.spec.options, "num_classes": result.spec.num_classes}
    network = ", ".join(f"{name} {value}" for name, value in values.items())
    epochs = count_of(result.epochs, "epoch")
    training = f"{count_of(result.steps, 'step')} of {count_of(result.batch_size, 'image')} ({epochs})"
    if result.validation_name == "penalty":
        training = f"a linear probe: {result.steps:,} steps of L-BFGS on all images, over {result.rounds} penalties"
    left_out = [f"{split}: {path}: {why}" for split, some in result.left_out.items() for path, why in some.items()]
    left_out[MOST_LEFT_OUT:] = [f"{len(left_out) - MOST_LEFT_OUT:,} more"] * (len(left_out) > MOST_LEFT_OUT)
    return [
        ("network", f"{result.spec.name}: {network}"),
        ("size", f"{result.parameters:,} parameters, {result.flops / 1e6:,.1f} million FLOPs for each image"),
        ("images", ", ".join(f"{count:,} {split}" for split, count in result.num_images.items())),
        ("fingerprints", ", ".join(f"{split} {value}" for split, value in result.fingerprints.items())),
        *([("teacher", result.teacher)] if result.teacher is not None else []),
        *(("seen before", sentence) for sentence in result.seen_before or ()),
        ("training", training),
        ("seed", str(result.seed)),
        ("time", f"{result.seconds:,.0f} s, {result.speed_text}"),
        ("device", f"{result.device}, {result.precision}"),
        *([("license of the first weights", license_text(result.license))] if result.license else []),
        *([("MFU", f"{percent(result.mfu, 1)} of the measured matrix peak")] if result.mfu is not None else []),
        *(("unreadable image", line) for line in left_out),
        *([("skipped steps", f"{result.skipped_steps:,}")] if result.skipped_steps else []),
        ("versions", ", ".join(f"{name} {version}" for name, version in result.versions.items())),
    ]


def _metric(name: str, metric: Mapping[str, float] | None) -> Cell:
    """A metric and its interval. The calibration error has the value by chance instead."""
    if metric is None:
        return "", ""
    if name == "ece":
        return percent(metric["value"]), f"{percent(metric['chance'], sign='')} by chance"
    scale, digits = (1, 4) if name == "nll" else (100, 2)
    value, low, high = (f"{scale * metric[key]:.{digits}f}" for key in ("value", "low", "high"))
    return value + " %" * (name != "nll"), f"{low} to {high}"


def unsure_content(answers: MeasuredAnswers, tested: Tested, class_names: Sequence[str]) -> dict[str, Any]:
    """The part of a page about images that the network is not sure of, from answers and the measured images."""
    curve = risk_coverage(tested.confidences, tested.correct, groups=tested.groups)
    shown = [row for row in answers.sets if row.coverage == answers.sets[0].coverage]
    rows = [
        (name, [value for row in shown if (value := row.by_class[number]) is not None])
        for number, name in enumerate(class_names)
    ]
    by_class = sorted((row for row in rows if row[1]), key=lambda row: min(row[1]))  # lowest coverage first
    novelty = answers.novelty
    return {
        "num_validation": answers.num_validation,
        "area": percent_text(answers.area),
        "curve": drawn(risk_figure(curve)),
        "thresholds": [
            {
                "target": f"{100 * row.target:g}",
                "threshold": "cannot be guaranteed" if row.threshold is None else f"{row.threshold:.4f}",
                "kept": cell_of(row.kept),
                "accuracy": ("no image is labeled", "") if row.keeps_none else cell_of(row.accuracy),
            }
            for row in answers.thresholds
        ],
        "sets": [_set_row(row, class_names) for row in answers.sets],
        "set_classes": [(name, [percent(one, 1, "") for one in row]) for name, row in by_class[:MOST_SET_CLASSES]],
        "set_columns": [METHODS[row.method] for row in shown],
        "unlike": percent_text(novelty.unlike) if novelty is not None and answers.tells_unlike else "",
        "novelty": None if novelty is None else drawn(novelty_figure(novelty)),
    }


def novelty_figure(novelty: MeasuredNovelty) -> Figure:
    """Number of images in each twentieth of the novelty; all are equally high for images like those of the fit."""
    figure, axes = plot(5.6, 2.8)
    count, total = len(novelty.counts), sum(novelty.counts)
    axes.bar((np.arange(count) + 0.5) / count, 100 * np.array(novelty.counts) / total, width=0.9 / count)
    axes.axhline(100 / count, linestyle=":", color="black")
    axes.set(xlabel="novelty", ylabel="images (%)", xlim=(0, 1), title="Images by novelty")
    return figure


def risk_figure(curve: RiskCoverage) -> Figure:
    """Error of the labeled images against their fraction, with the 95 % interval at each point."""
    figure, axes = plot(5.6, 3.4)
    coverage = 100 * curve.coverage
    axes.fill_between(coverage, 100 * curve.low, 100 * curve.high, alpha=0.2, linewidth=0, step="post")
    axes.step(coverage, 100 * curve.risk, where="post")
    highest = 100 * max(curve.risk.max(), curve.high[-1])
    axes.set(xlabel="images with a label (%)", ylabel="errors among them (%)", xlim=(0, 100), ylim=(0, 1.15 * highest))
    axes.set_title("Error when only the most confident images get a label")
    return figure


def _set_row(row: MeasuredSets, class_names: Sequence[str]) -> dict[str, Any]:
    known = [(value, name) for value, name in zip(row.by_class, class_names, strict=True) if value is not None]
    lowest, name = min(known)
    return {
        "method": METHODS[row.method],
        "coverage": f"{100 * row.coverage:g}",
        "measured": cell_of(row.measured),
        "mean_size": f"{row.mean_size:.2f}" + f" ({row.unlimited} classes in every set)" * bool(row.unlimited),
        "lowest": f"{percent(lowest, 1, '')} ({name})",
    }
