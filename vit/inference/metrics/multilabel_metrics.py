"""Metrics of a multilabel classifier on labeled images: with 95 % intervals over images, and for every label

A cell of an unknown label is in no metric. Intervals come from 1,000 bootstrap samples of whole images, because the
labels of one image are not independent. Those of F1, of average precisions, and of means over labels, have the variance
of these samples and `class_mean`. That of the log-loss is of `mean_loss`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from vit.checkpoints.label_rules import threshold_text
from vit.console import interval
from vit.data.core.samples import Labels
from vit.inference.metrics.metric_set import (
    Calibration,
    CalibrationError,
    MeasuredTable,
    MetricSet,
    calibration_error,
    decimals,
)
from vit.inference.metrics.multilabel_bootstrap import Resampled, resample
from vit.inference.scores.image_groups import count_text, number_of
from vit.inference.scores.intervals import Metric, class_mean, independent_units, mean_loss
from vit.inference.scores.scored_labels import ScoredLabels, cell_losses
from vit.tasks.label_text import PRESENT

_Floats64 = npt.NDArray[np.float64]
_NOTHING = Metric(0.0, 0.0, 0.0)
_NO_IMAGE = "no image has it"


@dataclass(frozen=True)
class MultilabelMetrics(MetricSet):
    """All metrics of a set of images with several labels."""

    TITLES: ClassVar[Mapping[str, str]] = {
        "map": "mAP",
        "micro_f1": "micro F1",
        "macro_f1": "macro F1",
        "exact_match": "exact match",
        "ece": "calibration error",
        "nll": "log-loss (nats)",
    }
    map: Metric | None  # mean average precision of the labels that some image has; None without such a label
    micro_f1: Metric  # F1 of all cells together at the labels' thresholds
    macro_f1: Metric  # mean F1 of the labels that some image has or is given
    # fraction of the images whose known labels are all right, with Wilson's interval; images without a known label do
    # not count
    exact_match: Metric
    nll: Metric  # mean negative log-probability of a known label, in nats
    ece: CalibrationError  # calibration error of all cells together

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
        ap = _NO_IMAGE if self.ap is None else interval(self.ap.value, self.ap.low, self.ap.high)
        numbers = decimals(self.precision, self.recall, self.f1)
        return self.label, self.num_known, self.num_positives, ap, threshold_text(self.threshold), *numbers


@dataclass(frozen=True)
class MultilabelMeasurement:
    """Everything that `vit evaluate` measures of a model that gives several labels."""

    num_images: int  # number of scored images
    metrics: MultilabelMetrics  # metrics over all images
    temperatures: tuple[float, ...]  # (K,) numbers that divided the logits
    uncalibrated: Calibration  # metrics at temperature 1, where they differ
    per_label: list[LabelMetrics]  # metrics of each label
    # number of groups of these images, which intervals take for independent; None: all images are
    num_groups: int | None = None

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

    answers = None  # thresholds and sets are of classes that exclude each other

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
        num_absent = sum(row.num_positives == 0 for row in rows)
        is_part, note = len(rows) > most, ""
        if num_absent:
            what = "there is no mAP" if num_absent == len(rows) else "the mAP is the mean of the others"
            note = f"no image has {num_absent:,} of {len(rows):,} labels: {what}"
        return MeasuredTable(
            f"the {most} labels with the lowest average precision of {len(rows):,}"
            if is_part
            else "by label, lowest average precision first",
            ("label", "images", "with it", "average precision", "threshold", "precision", "recall", "F1"),
            [row.cells() for row in rows[:most]],
            note,
        )


def measure_labels(
    scored: ScoredLabels, thresholds: Sequence[float], label_names: Sequence[str], seed: int = 0
) -> MultilabelMeasurement:
    """All metrics of a set of scored images.

    Args:
        thresholds: (K,) probability from which on an image gets a label.
        label_names: (K,) names of the labels.
        seed: seed of the bootstrap.

    Raises:
        DataError: no label of any image is known.
    """
    sums = resample(scored, thresholds, seed)
    return MultilabelMeasurement(
        num_images=len(scored.paths),
        metrics=_metrics(scored, thresholds, sums),
        temperatures=scored.temperatures or (1.0,) * len(label_names),
        uncalibrated=uncalibrated_labels(scored),
        per_label=_per_label(scored, thresholds, label_names, sums),
        num_groups=number_of(scored.groups),
    )


def multilabel_metrics(scored: ScoredLabels, thresholds: Sequence[float], seed: int = 0) -> MultilabelMetrics:
    """The metrics over all images. DataError where no label of any image is known."""
    return _metrics(scored, thresholds, resample(scored, thresholds, seed))


def uncalibrated_labels(scored: ScoredLabels) -> Calibration:
    """The metrics at temperature 1 that differ there. A temperature does not change the order of a label's images."""
    before = scored.at(np.ones(scored.labels.shape[1]))
    return Calibration(_log_loss(before), _calibration(before))


def _metrics(scored: ScoredLabels, thresholds: Sequence[float], sums: Resampled) -> MultilabelMetrics:
    either = sums.predicted + sums.positive
    with np.errstate(invalid="ignore"):
        f1 = 2 * sums.tp / np.where(either > 0, either, np.nan)
        cells = either.sum(axis=1, keepdims=True)
        micro = 2 * sums.tp.sum(axis=1, keepdims=True) / np.where(cells > 0, cells, np.nan)
    judged = scored.known.any(axis=1)
    predicted, present = scored.predicted(thresholds) & scored.known, scored.labels == PRESENT
    units = _units(present, scored.groups)
    # The cells of an image are not independent, so that an image with many labels counts once.
    trials = np.minimum(_units((predicted | present).any(axis=1, keepdims=True), scored.groups), cells[0] / 2)
    return MultilabelMetrics(
        map=_mean(sums.ap, units),
        micro_f1=_mean(micro, trials) or _NOTHING,
        macro_f1=_mean(f1, (units + _units(predicted, scored.groups)) / 2) or _NOTHING,
        exact_match=Metric.share(
            scored.exact(thresholds)[judged], None if scored.groups is None else scored.groups[judged]
        ),
        nll=_log_loss(scored),
        ece=_calibration(scored),
    )


def _calibration(scored: ScoredLabels) -> CalibrationError:
    """The calibration error of all known cells together."""
    known = scored.known
    return calibration_error(scored.labels[known] == PRESENT, scored.probabilities[known])


def _mean(values: _Floats64, trials: _Floats64) -> Metric | None:
    """The mean of the first row over labels, with its interval; None where it is NaN for every label.

    A sample without images of a label has the label's own value, or its mean would be one over other labels.

    Args:
        values: (1 + R, K) of all images, and of the samples.
        trials: (K,) number of independent images behind each value.
    """
    there = ~np.isnan(values[0])
    if not there.any():
        return None
    known, samples, trials = values[0, there], values[1:, there], trials[there]
    samples = np.where(np.isnan(samples), known, samples)
    within = np.minimum(trials * samples.var(axis=0, ddof=1), known * (1 - known))
    return class_mean(known, trials, float(samples.mean(axis=1).var(ddof=1)), within)


def _log_loss(scored: ScoredLabels) -> Metric:
    counts = scored.known.sum(axis=1)
    judged = counts > 0
    groups = None if scored.groups is None else scored.groups[judged]
    return mean_loss(scored.losses[judged], scored.losses_if_wrong[judged], groups, counts[judged])


def _units(cells: npt.NDArray[np.bool_], groups: Labels | None) -> _Floats64:
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
        is_known = bool(cells.any())
        rows.append(
            LabelMetrics(
                label=name,
                num_known=int(cells.sum()),
                num_positives=int(positive),
                ap=_mean(sums.ap[:, [k]], units[[k]]),
                threshold=float(thresholds[k]),
                precision=float(tp / predicted) if predicted else None,
                recall=float(tp / positive) if positive else None,
                f1=float(2 * tp / (predicted + positive)) if positive else None,
                nll=float(losses[cells, k].mean()) if is_known else None,
                ece=calibration_error(scored.labels[cells, k] == PRESENT, scored.probabilities[cells, k])
                if is_known
                else None,
            )
        )
    return rows
