"""How good a classifier is on labelled images: numbers with 95 % intervals, per-class figures, calibration."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from vit.data.samples import Labels

Floats = npt.NDArray[np.float32]

RESAMPLES = 1000
CALIBRATION_BINS = 15


@dataclass(frozen=True)
class Scored:
    """Every image of a split with what a network said of it; rows belong together.

    Attributes:
        paths: (n,) names.
        labels: (n,) true class numbers.
        probabilities: (n, C) after softmax.
    """

    paths: tuple[str, ...]
    labels: Labels
    probabilities: Floats

    @property
    def predictions(self) -> Labels:
        """(n,) class numbers of the largest probability."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)

    @property
    def confidences(self) -> Floats:
        """(n,) largest probabilities."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def losses(self) -> npt.NDArray[np.float64]:
        """(n,) negative log-probability of the true class, in nats."""
        own = self.probabilities[np.arange(len(self.labels)), self.labels].astype(np.float64)
        return -np.log(np.maximum(own, 1e-12))


def measure(scored: Scored, classes: tuple[str, ...], seed: int = 0) -> dict[str, Any]:
    """All figures of a set of scored images.

    Returns:
        "metrics": {name: {value, low, high}} for acc1, acc5 (more than five classes), balanced_accuracy, nll and ece,
        with 95 % intervals: Wilson's for the shares acc1 and acc5 (a bootstrap calls 20 of 20 certain), percentiles
        over 1,000 bootstrap samples of the images for the rest; "per_class": a row per class; "confusion": counts, rows
        are true classes; "images": n.
    """
    return {
        "images": len(scored.labels),
        "metrics": with_intervals(scored, len(classes), seed),
        "per_class": per_class(scored, classes),
        "confusion": confusion(scored, len(classes)).tolist(),
    }


def with_intervals(scored: Scored, num_classes: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """{name: {value, low, high}}; see `measure`."""
    labels, correct = scored.labels, scored.predictions == scored.labels
    columns = {"acc1": correct.astype(np.float64), "nll": scored.losses}
    if num_classes > 5:
        top5 = np.argpartition(scored.probabilities, -5, axis=1)[:, -5:]
        columns["acc5"] = (top5 == labels[:, None]).any(axis=1).astype(np.float64)
    bins = np.minimum((scored.confidences * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    gap = correct - scored.confidences.astype(np.float64)

    def values(weights: npt.NDArray[np.float64]) -> dict[str, float]:
        total = weights.sum()
        found = {name: float(weights @ column / total) for name, column in columns.items()}
        seen = np.bincount(labels, weights, num_classes)
        hit = np.bincount(labels, weights * correct, num_classes)
        found["balanced_accuracy"] = float((hit[seen > 0] / seen[seen > 0]).mean())
        found["ece"] = float(np.abs(np.bincount(bins, weights * gap, CALIBRATION_BINS)).sum() / total)
        return found

    count = len(labels)
    measured = values(np.ones(count))
    generator = np.random.default_rng(seed)
    drawn = [
        values(np.bincount(generator.integers(0, count, count), minlength=count).astype(np.float64))
        for _ in range(RESAMPLES)
    ]
    result: dict[str, dict[str, float]] = {}
    for name in ("acc1", "acc5", "balanced_accuracy", "nll", "ece"):
        if name in ("acc1", "acc5") and name in measured:
            within = binomtest(round(measured[name] * count), count).proportion_ci(0.95, "wilson")
            result[name] = {"value": measured[name], "low": float(within.low), "high": float(within.high)}
        elif name in measured:
            low, high = np.percentile([draw[name] for draw in drawn], (2.5, 97.5))
            result[name] = {"value": measured[name], "low": float(low), "high": float(high)}
    return result


def per_class(scored: Scored, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """Images, precision, recall and F1 of each class."""
    numbers = list(range(len(classes)))
    precision, recall, f1, support = precision_recall_fscore_support(
        scored.labels, scored.predictions, labels=numbers, zero_division=0.0
    )
    return [
        {"class": name, "images": int(n), "precision": float(p), "recall": float(r), "f1": float(f)}
        for name, n, p, r, f in zip(classes, support, precision, recall, f1, strict=True)
    ]


def confusion(scored: Scored, num_classes: int) -> npt.NDArray[np.int64]:
    """Counts (C, C); rows are true classes, columns what was predicted."""
    return np.asarray(confusion_matrix(scored.labels, scored.predictions, labels=list(range(num_classes))))


def write_scored(path: Path, scored: Scored, classes: tuple[str, ...]) -> None:
    """Every image with its true and predicted label, for whoever wants to compute something else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label", "predicted", "probability", "loss"))
        for name, label, guess, sure, loss in zip(
            scored.paths, scored.labels, scored.predictions, scored.confidences, scored.losses, strict=True
        ):
            writer.writerow((name, classes[label], classes[guess], f"{sure:.6f}", f"{loss:.6f}"))
