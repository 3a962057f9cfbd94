"""Metrics of a classifier: with 95 % intervals, by class, and of its calibration

`multilabel_metrics.py` has those of images with several labels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from vit.checkpoints.validation_scores import ValidationScores
from vit.console import interval, percent
from vit.data.core.samples import Labels
from vit.inference.metrics.measured_answers import MeasuredAnswers, measure_answers
from vit.inference.scores.image_groups import count_text, number_of
from vit.inference.scores.intervals import Metric, balanced_accuracy, like_guessing, macro_f1, mean_loss
from vit.inference.scores.scored_images import Bools, Floats, ScoredImages
from vit.tasks.levels import levels_of

CALIBRATION_BINS = 15
_NEARLY_ALL, _FEWEST = 0.8, 8  # images of a class that are taken for one other class: it may have its name
MOST_IN_CONFUSION = 200  # classes of a confusion matrix: a larger one is not readable, and its size is quadratic


@dataclass(frozen=True)
class CalibrationError:
    """Expected calibration error (ECE), without an interval.

    With few images the value is too large (Kumar et al. 2019, arXiv 1909.10155), and in a bootstrap even larger.
    """

    value: float  # mean gap between confidence and accuracy over 15 bins, weighted by the images of a bin
    chance: float  # expected value for a perfectly calibrated network with as many images of the same confidences


class MetricSet:
    """Metrics over all images; subclasses are dataclasses of metrics."""

    TITLES: ClassVar[Mapping[str, str]]  # {name: name for people}, in the order of tables
    nll: Metric  # mean negative log-probability of the true class, or of a known label, in nats
    ece: CalibrationError  # expected calibration error; of several labels, that of all cells together

    def to_dict(self) -> dict[str, dict[str, float]]:
        """{name: {value, low, high}}, and for ece {value, chance}, as in result.json."""
        plain: dict[str, dict[str, float] | None] = asdict(self)  # type: ignore[call-overload]
        return {name: metric for name, metric in plain.items() if metric is not None}

    def facts(self) -> list[tuple[str, str]]:
        """Every metric with its interval, for people."""
        ece, nll = self.ece, self.nll
        texts = {name: interval(**metric) for name, metric in self.to_dict().items() if name not in ("ece", "nll")}
        texts["ece"] = f"{percent(ece.value)} ({percent(ece.chance)} by chance, were it calibrated)"
        texts["nll"] = f"{nll.value:.4f} ({nll.low:.4f} to {nll.high:.4f})"
        return [(title, texts[name]) for name, title in self.TITLES.items() if name in texts]


@dataclass(frozen=True)
class Calibration(MetricSet):
    """The metrics that depend on the temperature."""

    nll: Metric
    ece: CalibrationError

    def describe(self) -> str:
        """Both values for people."""
        return f"calibration error {percent(self.ece.value)}, log-loss {self.nll.value:.4f}"


@dataclass(frozen=True)
class Metrics(MetricSet):
    """All metrics of images with one class each.

    The intervals of acc1 and acc5 are Wilson's, because a bootstrap takes 20 of 20 for certain. Those of means over
    classes are of `class_mean`, and that of nll is of `mean_loss`.
    """

    TITLES: ClassVar[Mapping[str, str]] = {
        "acc1": "accuracy", "acc5": "top-5 accuracy", "balanced_accuracy": "balanced accuracy",
        "macro_f1": "macro F1", "ece": "calibration error", "nll": "log-loss (nats)",
    }  # fmt: skip
    acc1: Metric  # accuracy
    acc5: Metric | None  # top-5 accuracy; None for five classes or fewer
    balanced_accuracy: Metric  # mean recall of the classes that have images
    macro_f1: Metric  # mean F1 of the classes that have images or predictions
    nll: Metric
    ece: CalibrationError


@dataclass(frozen=True)
class MeasuredTable:
    """The classes or labels of a measurement for people."""

    title: str  # which of them the table has, and in which order
    columns: tuple[str, ...]
    rows: list[tuple[str | int, ...]]
    note: str  # how many have no images; "" where all have some


@dataclass(frozen=True)
class ClassMetrics:
    """Metrics of one class."""

    class_name: str  # name of the class
    num_images: int  # number of its images
    precision: float | None  # fraction of right predictions among its predictions; None without predictions
    recall: float | None  # fraction of its images that are predicted right; None without images
    # harmonic mean of both; None without images. `Metrics.macro_f1` counts 0 for a class of false alarms alone.
    f1: float | None

    def to_dict(self) -> dict[str, str | int | float | None]:
        """The row of the class in JSON files."""
        return {
            "class": self.class_name, "images": self.num_images, "precision": self.precision, "recall": self.recall,
            "f1": self.f1,
        }  # fmt: skip


@dataclass(frozen=True)
class LevelAccuracy:
    """The accuracy of the most probable groups of classes at a level of the class names."""

    depth: int  # number of words of a class name that count
    num_groups: int  # number of groups
    example: str  # name of a group
    accuracy: Metric  # fraction of the images whose most probable group has their class

    @property
    def text(self) -> str:
        """The level for people."""
        return f"groups such as {self.example} ({self.num_groups:,})"


@dataclass(frozen=True)
class Measurement:
    """Everything that `vit evaluate` measures."""

    num_images: int
    metrics: Metrics  # metrics over all images
    temperature: float  # number that divided the logits
    uncalibrated: Calibration  # metrics at temperature 1, where they differ
    per_class: list[ClassMetrics]
    confusion: npt.NDArray[np.int64] | None  # (C, C) counts, with true classes in rows; None for more than 200 classes
    # what thresholds and prediction sets of the model do; None without its validation scores
    answers: MeasuredAnswers | None = None
    # number of groups of these images, which intervals take for independent; None: all images are
    num_groups: int | None = None
    levels: Sequence[LevelAccuracy] = ()  # levels above the classes, the deepest first

    @property
    def warnings(self) -> list[str]:
        """Warnings: the balanced accuracy may be that of guesses; nearly all images of some classes change places."""
        counts = np.empty((0, 0)) if self.confusion is None else self.confusion
        is_most = (counts >= _NEARLY_ALL * counts.sum(axis=1, keepdims=True)) & (counts >= _FEWEST)
        taken_for: dict[int, int] = {label: other for label, other in np.argwhere(is_most).tolist() if label != other}
        circling = set(taken_for)
        for _ in taken_for:  # only classes in a circle are left: A is taken for B, B for C, and C for A
            circling = {taken_for[label] for label in circling} & taken_for.keys()
        names = [row.class_name for row in self.per_class]
        pairs = ", ".join(f"{names[label]} for {names[taken_for[label]]}" for label in sorted(circling))
        mixed = f"nearly all images of {len(circling):,} classes are taken for another class ({pairs})"
        swapped = [f"{mixed}: their folders or labels may be swapped"] * bool(pairs)
        balanced, num_classes = self.metrics.balanced_accuracy, sum(row.num_images > 0 for row in self.per_class)
        return [*like_guessing(balanced, 1 / num_classes), *swapped]

    def to_dict(self) -> dict[str, object]:
        """The content of an evaluation's metrics.json."""
        content: dict[str, object] = {
            "images": self.num_images,
            "metrics": self.metrics.to_dict(),
            "temperature": self.temperature,
            "uncalibrated": self.uncalibrated.to_dict(),
            "per_class": [row.to_dict() for row in self.per_class],
            "levels": [asdict(level) for level in self.levels] or None,
            "groups": self.num_groups,
            "answers": None if self.answers is None else asdict(self.answers),
            "confusion": None if self.confusion is None else self.confusion.tolist(),
        }
        return {name: value for name, value in content.items() if value is not None}

    def describe_images(self) -> str:
        """How many images are measured."""
        return count_text(self.num_images, self.num_groups)

    def temperature_fact(self) -> list[tuple[str, str]]:
        """The temperature for people, where it is not 1."""
        text = f"{self.temperature:.3f}; without it {self.uncalibrated.describe()}"
        return [] if self.temperature == 1 else [("temperature", text)]

    def table(self, most: int) -> MeasuredTable:
        """The classes with the lowest F1, at most so many."""
        measured = [row for row in self.per_class if row.num_images]
        worst = sorted(measured, key=lambda row: f1_order(row.f1))[:most]
        title = f"the {len(worst):,} classes with the lowest F1 of {len(measured):,}"
        absent = [row for row in self.per_class if not row.num_images]
        note = f"{len(absent):,} of {len(self.per_class):,} classes have no image here, and so no recall or F1"
        if predicted := sum(row.precision is not None for row in absent):  # these lower the macro F1
            are, count = ("is", "counts") if predicted == 1 else ("are", "count")
            note += f"; {predicted:,} of them {are} predicted here, and {count} as 0 in the macro F1"
        return MeasuredTable(
            title if len(measured) > len(worst) else "by class, lowest F1 first",
            ("class", "images", "precision", "recall", "F1"),
            [(row.class_name, row.num_images, *decimals(row.precision, row.recall, row.f1)) for row in worst],
            note if absent else "",
        )


def measure(scored: ScoredImages, class_names: Sequence[str], scores: ValidationScores | None = None) -> Measurement:
    """All metrics of scored images, with the `scores` of the model's validation images if these are others."""
    labels, predictions, num_classes = scored.labels, scored.predictions, len(class_names)
    return Measurement(
        num_images=len(labels),
        metrics=with_intervals(scored, num_classes),
        temperature=scored.temperature,
        uncalibrated=uncalibrated(scored),
        per_class=per_class(labels, predictions, class_names),
        confusion=confusion(labels, predictions, num_classes) if num_classes <= MOST_IN_CONFUSION else None,
        answers=None if scores is None else measure_answers(scored, scores, class_names),
        num_groups=number_of(scored.groups),
        levels=by_level(scored, class_names),
    )


def with_intervals(scored: ScoredImages, num_classes: int) -> Metrics:
    """The metrics over all images."""
    labels, correct, groups = scored.labels, scored.correct, scored.groups
    top5 = None
    if num_classes > 5:
        largest = np.argpartition(scored.probabilities, -5, axis=1)[:, -5:]
        top5 = Metric.share((largest == labels[:, None]).any(axis=1), groups)
    return Metrics(
        acc1=Metric.share(correct, groups),
        acc5=top5,
        balanced_accuracy=balanced_accuracy(labels, correct, num_classes, groups),
        macro_f1=macro_f1(labels, scored.predictions, num_classes, groups),
        nll=mean_loss(scored.losses, scored.losses_if_wrong, groups),
        ece=calibration_error(correct, scored.confidences),
    )


def by_level(scored: ScoredImages, class_names: Sequence[str]) -> list[LevelAccuracy]:
    """The accuracy at each level of the class names, the deepest first."""
    accuracies = []
    for level in levels_of(class_names):
        right = level.sums(scored.probabilities).argmax(axis=1) == level.group_of[scored.labels]
        accuracy = Metric.share(right, scored.groups)
        accuracies.append(LevelAccuracy(level.depth, len(level.names), level.example, accuracy))
    return accuracies


def uncalibrated(scored: ScoredImages) -> Calibration:
    """The metrics at temperature 1 that differ there. Accuracies do not depend on the temperature."""
    before = scored.at(1.0)
    loss = mean_loss(before.losses, before.losses_if_wrong, before.groups)
    return Calibration(loss, calibration_error(before.correct, before.confidences))


def per_class(labels: Labels, predictions: Labels, class_names: Sequence[str]) -> list[ClassMetrics]:
    """Metrics of each class, in the order of the class names."""
    numbers = list(range(len(class_names)))
    columns = precision_recall_fscore_support(labels, predictions, labels=numbers, zero_division=0.0)
    called = np.bincount(predictions, minlength=len(class_names))
    return [
        ClassMetrics(name, int(n), float(p) if calls else None, float(r) if n else None, float(f) if n else None)
        for name, calls, p, r, f, n in zip(class_names, called, *columns, strict=True)
    ]


def f1_order(f1: float | None) -> float:
    """Key that sorts classes by F1, lowest first. Classes without images have no F1, and stand last."""
    return math.inf if f1 is None else f1


def confusion(labels: Labels, predictions: Labels, num_classes: int) -> npt.NDArray[np.int64]:
    """Counts (C, C). Rows are true classes, columns are predicted classes."""
    return np.asarray(confusion_matrix(labels, predictions, labels=list(range(num_classes))))


def calibration_error(correct: Bools, confidences: Floats) -> CalibrationError:
    """The calibration error, and its expected value for a calibrated network.

    The number of right images in a bin of confidences c is then nearly normal, with variance sum(c (1 - c)).
    """
    sure = confidences.astype(np.float64)
    bins = np.minimum((confidences * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, correct - sure, CALIBRATION_BINS)
    variances = np.bincount(bins, np.maximum(sure * (1.0 - sure), 0.0), CALIBRATION_BINS)
    value = np.abs(gaps).sum() / len(sure)
    return CalibrationError(float(value), float(np.sqrt(2 / np.pi * variances).sum() / len(sure)))


def decimals(*values: float | None) -> list[str]:
    """Numbers with three decimals; "" for None."""
    return ["" if value is None else f"{value:.3f}" for value in values]
