"""How good a classifier is on labeled images: numbers with 95 % intervals, per-class figures, calibration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from vit.data.samples import Labels

Floats = npt.NDArray[np.float32]

RESAMPLES = 1000
CALIBRATION_BINS = 15
MOST_IN_CONFUSION = (
    200  # classes of a confusion matrix: nothing can be read in a larger one, and it grows as their square
)
NAMES = {
    "acc1": "accuracy",
    "acc5": "top-5 accuracy",
    "balanced_accuracy": "balanced accuracy",
    "ece": "calibration error",
    "nll": "log-loss (nats)",
}


@dataclass(frozen=True)
class ScoredImages:
    """Every image of a split with what a network said of it; rows belong together.

    Attributes:
        paths: (n,) names.
        labels: (n,) true class numbers.
        probabilities: (n, C) after softmax.
        temperature: by which the logits were divided before it.
        left_out: images that could not be read, which have no row: {name: reason}.
    """

    paths: tuple[str, ...]
    labels: Labels
    probabilities: Floats
    temperature: float = 1.0
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def predictions(self) -> Labels:
        """(n,) class numbers of the largest probability."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)

    @property
    def confidences(self) -> Floats:
        """(n,) largest probabilities."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def correct(self) -> npt.NDArray[np.bool_]:
        """(n,) whether the prediction is the label."""
        return np.asarray(self.predictions == self.labels)

    @property
    def uncalibrated(self) -> Floats:
        """(n,) largest probabilities, had there been no temperature."""
        return self.at(1.0).confidences

    @property
    def losses(self) -> npt.NDArray[np.float64]:
        """(n,) negative log-probability of the true class, in nats."""
        own = self.probabilities[np.arange(len(self.labels)), self.labels].astype(np.float64)
        return -np.log(np.maximum(own, 1e-12))

    @property
    def log_probabilities(self) -> npt.NDArray[np.float64]:
        """(n, C), which are the logits over the temperature but for a constant of each row."""
        return np.log(np.maximum(self.probabilities, np.finfo(np.float32).smallest_subnormal).astype(np.float64))

    def at(self, temperature: float) -> "ScoredImages":
        """The same at another temperature."""
        changed = softmax(self.log_probabilities * (self.temperature / temperature), axis=1)
        return replace(self, probabilities=changed.astype(np.float32), temperature=temperature)


def measure(scored: ScoredImages, class_names: tuple[str, ...], seed: int = 0) -> dict[str, Any]:
    """All figures of a set of scored images.

    Returns:
        "metrics": {name: {value, low, high}} for acc1, acc5 (more than five classes), balanced_accuracy, nll and ece,
        with 95 % intervals: Wilson's for the shares acc1 and acc5 (a bootstrap calls 20 of 20 certain), percentiles
        over 1,000 bootstrap samples of the images for the rest. ece has no interval, but {value, chance}: few images
        make it too large (Kumar et al. 2019, arXiv 1909.10155), a bootstrap of them larger still, and chance is what a
        perfectly calibrated network would show with as many images of these confidences.
        "temperature", and "uncalibrated": nll and ece without it; "per_class": a row per class; "confusion": counts,
        rows are true classes (of at most 200); "images": n.
    """
    measured: dict[str, Any] = {
        "images": len(scored.labels),
        "metrics": with_intervals(scored, len(class_names), seed),
        "temperature": scored.temperature,
        "uncalibrated": uncalibrated(scored, len(class_names), seed),
        "per_class": per_class(scored.labels, scored.predictions, class_names),
    }
    if len(class_names) <= MOST_IN_CONFUSION:
        measured["confusion"] = confusion(scored.labels, scored.predictions, len(class_names)).tolist()
    return measured


def with_intervals(scored: ScoredImages, num_classes: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """{name: {value, low, high}}, of ece {value, chance}; see `measure`."""
    labels, correct = scored.labels, scored.predictions == scored.labels
    columns = {"acc1": correct.astype(np.float64), "nll": scored.losses}
    if num_classes > 5:
        top5 = np.argpartition(scored.probabilities, -5, axis=1)[:, -5:]
        columns["acc5"] = (top5 == labels[:, None]).any(axis=1).astype(np.float64)

    def values(weights: npt.NDArray[np.float64]) -> dict[str, float]:
        total = weights.sum()
        found = {name: float(weights @ column / total) for name, column in columns.items()}
        seen = np.bincount(labels, weights, num_classes)
        hit = np.bincount(labels, weights * correct, num_classes)
        found["balanced_accuracy"] = float((hit[seen > 0] / seen[seen > 0]).mean())
        return found

    count = len(labels)
    measured = values(np.ones(count))
    generator = np.random.default_rng(seed)
    drawn = [
        values(np.bincount(generator.integers(0, count, count), minlength=count).astype(np.float64))
        for _ in range(RESAMPLES)
    ]
    result: dict[str, dict[str, float]] = {}
    for name in ("acc1", "acc5", "balanced_accuracy", "nll"):
        if name in ("acc1", "acc5") and name in measured:
            within = binomtest(round(measured[name] * count), count).proportion_ci(0.95, "wilson")
            result[name] = {"value": measured[name], "low": float(within.low), "high": float(within.high)}
        elif name in measured:
            low, high = np.percentile([draw[name] for draw in drawn], (2.5, 97.5))
            result[name] = {"value": measured[name], "low": float(low), "high": float(high)}
    return {**result, "ece": calibration_error(correct, scored.confidences)}


def calibration_error(correct: npt.NDArray[np.bool_], confidences: Floats) -> dict[str, float]:
    """{value, chance}: the gap between confidence and accuracy over 15 bins, and its expectation were they calibrated.

    Of a bin's images with confidences c the number that is right is then about normal, with variance sum(c (1 - c)).
    """
    sure = confidences.astype(np.float64)
    bins = np.minimum((confidences * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, correct - sure, CALIBRATION_BINS)
    variances = np.bincount(bins, np.maximum(sure * (1.0 - sure), 0.0), CALIBRATION_BINS)
    return {
        "value": float(np.abs(gaps).sum() / len(sure)),
        "chance": float(np.sqrt(2 / np.pi * variances).sum() / len(sure)),
    }


def uncalibrated(scored: ScoredImages, num_classes: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """nll and ece as they would be at temperature 1, as `with_intervals`; what counts labels is the same there."""
    found = with_intervals(scored.at(1.0), num_classes, seed)
    return {name: found[name] for name in ("nll", "ece")}


def per_class(labels: Labels, predictions: Labels, class_names: Sequence[str]) -> list[dict[str, Any]]:
    """Images, precision, recall and F1 of each class."""
    numbers = list(range(len(class_names)))
    precision, recall, f1, support = precision_recall_fscore_support(
        labels, predictions, labels=numbers, zero_division=0.0
    )
    return [
        {"class": name, "images": int(n), "precision": float(p), "recall": float(r), "f1": float(f)}
        for name, n, p, r, f in zip(class_names, support, precision, recall, f1, strict=True)
    ]


def confusion(labels: Labels, predictions: Labels, num_classes: int) -> npt.NDArray[np.int64]:
    """Counts (C, C); rows are true classes, columns what was predicted."""
    return np.asarray(confusion_matrix(labels, predictions, labels=list(range(num_classes))))
