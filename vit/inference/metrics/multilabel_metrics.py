"""Metrics of a multilabel classifier on labeled images: with 95 % intervals over images, and for every label

A cell of an unknown label is in no metric. Intervals come from 1,000 bootstrap samples of whole images, because the
labels of one image are not independent. Those of F1, of average precisions, and of means over labels, have the variance
of these samples and `class_mean`. That of the log-loss is of `mean_loss`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from vit.checkpoints.label_rules import threshold_text
from vit.data.core.samples import Labels
from vit.errors import DataError
from vit.inference.metrics.average_precision import RankedImages, guessed_precision
from vit.inference.metrics.metrics import (
    Calibration,
    CalibrationError,
    MeasuredTable,
    MetricSet,
    calibration_error,
    decimals,
)
from vit.inference.scores.image_groups import bootstrap, count_text, number_of
from vit.inference.scores.intervals import Metric, independent_units, like_guessing, mean_loss, resampled_mean
from vit.inference.scores.scored_images import Bools, PerLabel, ScoredLabels, cell_losses
from vit.tasks.label_text import PRESENT

RESAMPLES = 1000
_CELLS = 4_000_000  # of a block of samples: 16 MiB of counts, and as much for each cumulative sum
_NOTHING = Metric(0.0, 0.0, 1.0)  # F1 where no image has a label or is given one: 0, and it could be anything
_NO_IMAGE = "no image has it"


@dataclass(frozen=True)
class MultilabelMetrics(MetricSet):
    """All metrics of a set of images with several labels."""

    TITLES: ClassVar[Mapping[str, str]] = {
        "map": "mAP", "micro_f1": "micro F1", "macro_f1": "macro F1", "exact_match": "exact match",
        "ece": "calibration error", "nll": "log-loss (nats)",
    }  # fmt: skip
    map: Metric | None  # mean average precision of the labels that some image has; None without such a label
    micro_f1: Metric  # F1 of all cells together at the labels' thresholds
    macro_f1: Metric  # mean F1 of the labels that some image has or is given
    exact_match: Metric  # fraction of the images with a known label whose known labels are all right; Wilson's interval
    nll: Metric
    ece: CalibrationError
    map_of_guesses: Metric | None  # mAP of random orders of the images, without an interval

    def facts(self) -> list[tuple[str, str]]:
        """Every metric with its interval, for people."""
        return ([("mAP", _NO_IMAGE)] if self.map is None else []) + super().facts()


@dataclass(frozen=True)
class LabelMetrics:
    """Metrics of one label."""

    label: str  # name of the label
    num_known: int  # number of images of which it is known whether they have the label
    num_positives: int  # number of images that have it
    ap: Metric | None  # average precision; None where no image has the label
    threshold: float  # probability from which on an image gets the label
    # fraction of the images with this prediction that have the label; None where no image gets it
    precision: float | None
    recall: float | None  # fraction of the images with the label that are found; None where no image has it
    f1: float | None  # harmonic mean of precision and recall; None where no image has the label
    nll: float | None  # mean negative log-probability, in nats; None where no image is known
    ece: CalibrationError | None  # calibration error of the probabilities; None where no image is known

    def to_dict(self) -> dict[str, object]:
        """The row of the label in JSON files."""
        plain = asdict(self)
        plain |= {"images": plain.pop("num_known"), "positives": plain.pop("num_positives")}
        return {name: value for name, value in plain.items() if value is not None}

    def cells(self) -> tuple[str | int, ...]:
        """The row of the label in a table."""
        ap = _NO_IMAGE if self.ap is None else self.ap.text
        numbers = decimals(self.precision, self.recall, self.f1)
        return self.label, self.num_known, self.num_positives, ap, threshold_text(self.threshold), *numbers


@dataclass(frozen=True)
class MultilabelMeasurement:
    """As `Measurement`, of a model that gives several labels."""

    num_images: int
    metrics: MultilabelMetrics
    temperatures: tuple[float, ...]  # (K,) numbers that divided the logits
    uncalibrated: Calibration
    per_label: list[LabelMetrics]
    num_groups: int | None = None
    answers = None  # thresholds and sets are of classes that exclude each other

    @property
    def warnings(self) -> list[str]:
        """A warning where the mAP is not shown to exceed that of random orders of the images."""
        found, guessed = self.metrics.map, self.metrics.map_of_guesses
        return like_guessing(found, guessed.value, "mAP") if found and guessed else []

    def to_dict(self) -> dict[str, object]:
        """The content of an evaluation's metrics.json."""
        return {
            "images": self.num_images,
            **({} if self.num_groups is None else {"groups": self.num_groups}),
            "metrics": self.metrics.to_dict(),
            "temperatures": list(self.temperatures),
            "uncalibrated": self.uncalibrated.to_dict(),
            "per_label": [row.to_dict() for row in self.per_label],
        }

    def describe_images(self) -> str:
        """How many images are measured, and how many labels each may have."""
        return f"{count_text(self.num_images, self.num_groups)}, {len(self.per_label):,} labels"

    def temperature_fact(self) -> list[tuple[str, str]]:
        """The temperatures for people, where not all are 1."""
        between = f"{min(self.temperatures):.3f} to {max(self.temperatures):.3f}"
        text = f"{between}; without them {self.uncalibrated.describe()}"
        return [("temperatures", text)] if any(value != 1 for value in self.temperatures) else []

    def table(self, most: int) -> MeasuredTable:
        """The labels with the lowest average precision, at most so many; labels that no image has come first."""
        rows = sorted(self.per_label, key=lambda row: -1.0 if row.ap is None else row.ap.value)
        num_absent, note = sum(row.num_positives == 0 for row in rows), ""
        if num_absent:
            what = "there is no mAP" if num_absent == len(rows) else "the mAP is the mean of the others"
            note = f"no image has {num_absent:,} of {len(rows):,} labels: {what}"
        part = f"the {most} labels with the lowest average precision of {len(rows):,}"
        return MeasuredTable(
            part if len(rows) > most else "by label, lowest average precision first",
            ("label", "images", "with it", "average precision", "threshold", "precision", "recall", "F1"),
            [row.cells() for row in rows[:most]],
            note,
        )


def measure_labels(
    scored: ScoredLabels, thresholds: Sequence[float], label_names: Sequence[str]
) -> MultilabelMeasurement:
    """All metrics of scored images with K labels. DataError where no label of any image is known."""
    sums = resample(scored, thresholds)
    return MultilabelMeasurement(
        num_images=len(scored.paths),
        metrics=multilabel_metrics(scored, thresholds, sums),
        temperatures=scored.temperatures or (1.0,) * len(label_names),
        uncalibrated=uncalibrated_labels(scored),
        per_label=_per_label(scored, thresholds, label_names, sums),
        num_groups=number_of(scored.groups),
    )


def uncalibrated_labels(scored: ScoredLabels) -> Calibration:
    """The metrics at temperature 1 that differ there. A temperature does not change the order of a label's images."""
    before = scored.at(np.ones(scored.labels.shape[1]))
    return Calibration(_log_loss(before), _calibration(before))


@dataclass(frozen=True)
class Resampled:
    """Sums over all images in row 0, and over each sample of the bootstrap in the rows below."""

    ap: PerLabel  # (1 + R, K) average precision; NaN where no image has the label
    tp: PerLabel  # (1 + R, K) numbers of known cells that are rightly predicted
    predicted: PerLabel  # (1 + R, K) numbers of known cells that are predicted
    positive: PerLabel  # (1 + R, K) numbers of images that have the label


def resample(scored: ScoredLabels, thresholds: Sequence[float]) -> Resampled:
    """The sums of all samples. DataError where no label of any image is known."""
    known, present = scored.known, scored.labels == PRESENT
    if not known.any():
        raise DataError("no label of any image is known", "give images with labels")
    predicted = scored.predicted(thresholds) & known
    columns = np.concatenate([predicted & present, predicted, present], axis=1).astype(np.float64)
    ranked = [RankedImages(known[:, k], present[:, k], scored.probabilities[:, k]) for k in range(present.shape[1])]
    precisions, summed = [], []
    for counts in _samples(scored):
        precisions.append(np.stack([images.average_precision(counts) for images in ranked], axis=1))
        summed.append(counts.astype(np.float64) @ columns)
    tp, guessed, positive = np.split(np.concatenate(summed), 3, axis=1)
    return Resampled(np.concatenate(precisions), tp, guessed, positive)


def _samples(scored: ScoredLabels) -> Iterator[npt.NDArray[np.int32]]:
    """How often each image is in a sample, as blocks (R, n): first every image once, then the samples."""
    num_images = len(scored.paths)
    yield np.ones((1, num_images), dtype=np.int32)
    samples, size = bootstrap(num_images, scored.groups, seed=0), max(1, _CELLS // num_images)
    for start in range(0, RESAMPLES, size):
        yield np.stack(list(islice(samples, min(size, RESAMPLES - start)))).astype(np.int32)


def multilabel_metrics(
    scored: ScoredLabels, thresholds: Sequence[float], sums: Resampled | None = None
) -> MultilabelMetrics:
    """The metrics over all images, of `resample` if it is there. DataError where no label of any image is known."""
    sums = sums or resample(scored, thresholds)
    either = sums.predicted + sums.positive
    with np.errstate(invalid="ignore"):
        f1 = 2 * sums.tp / np.where(either > 0, either, np.nan)
        cells = either.sum(axis=1, keepdims=True)
        micro = 2 * sums.tp.sum(axis=1, keepdims=True) / np.where(cells > 0, cells, np.nan)
    judged, groups = scored.known.any(axis=1), scored.groups
    predicted, present = scored.predicted(thresholds) & scored.known, scored.labels == PRESENT
    units = _units(present, groups)
    # The cells of an image are not independent, so that an image with many labels counts once.
    trials = np.minimum(_units((predicted | present).any(axis=1, keepdims=True), groups), cells[0] / 2)
    return MultilabelMetrics(
        map=resampled_mean(sums.ap, units),
        micro_f1=resampled_mean(micro, trials) or _NOTHING,
        macro_f1=resampled_mean(f1, (units + _units(predicted, groups)) / 2) or _NOTHING,
        exact_match=Metric.share(scored.exact(thresholds)[judged], None if groups is None else groups[judged]),
        nll=_log_loss(scored),
        ece=_calibration(scored),
        map_of_guesses=_guessed_map(scored),
    )


def _guessed_map(scored: ScoredLabels) -> Metric | None:
    positives, known = (scored.labels == PRESENT).sum(axis=0), scored.known.sum(axis=0)
    if not positives.any():
        return None
    value = float(guessed_precision(positives[positives > 0], known[positives > 0]).mean())
    return Metric(value, value, value)


def _calibration(scored: ScoredLabels) -> CalibrationError:
    known = scored.known
    return calibration_error(scored.labels[known] == PRESENT, scored.probabilities[known])


def _log_loss(scored: ScoredLabels) -> Metric:
    counts = scored.known.sum(axis=1)
    judged = counts > 0
    groups = None if scored.groups is None else scored.groups[judged]
    return mean_loss(scored.losses[judged], scored.losses_if_wrong[judged], groups, counts[judged])


def _units(cells: Bools, groups: Labels | None) -> PerLabel:
    """(K,) number of marked cells of each label (n, K), or of groups with such cells."""
    images, labels = np.nonzero(cells)
    return independent_units(labels, cells.shape[1], None if groups is None else groups[images])


def _per_label(
    scored: ScoredLabels, thresholds: Sequence[float], label_names: Sequence[str], sums: Resampled
) -> list[LabelMetrics]:
    losses, known = cell_losses(scored.labels, scored.probabilities), scored.known
    units = _units(scored.labels == PRESENT, scored.groups)
    rows = []
    for k, name in enumerate(label_names):
        cells, tp, predicted, positive = known[:, k], sums.tp[0, k], sums.predicted[0, k], sums.positive[0, k]
        present, probabilities = scored.labels[cells, k] == PRESENT, scored.probabilities[cells, k]
        rows.append(LabelMetrics(
            name, int(cells.sum()), int(positive), resampled_mean(sums.ap[:, [k]], units[[k]]), float(thresholds[k]),
            precision=float(tp / predicted) if predicted else None,
            recall=float(tp / positive) if positive else None,
            f1=float(2 * tp / (predicted + positive)) if positive else None,
            nll=float(losses[cells, k].mean()) if cells.any() else None,
            ece=calibration_error(present, probabilities) if cells.any() else None,
        ))  # fmt: skip
    return rows
