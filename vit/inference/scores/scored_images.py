"""Images of a split with their labels and the probabilities that a network gives them, and predictions/SPLIT.csv"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vit.atomic_files import atomic_write
from vit.checkpoints.label_rules import LabelRules
from vit.csv_files import new_table, read_table
from vit.data.core.samples import Labels
from vit.errors import DataError, explained
from vit.tasks.label_text import ABSENT, NOT_KNOWN, PRESENT, LabelRows
from vit.tasks.task import MULTI_LABEL

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
PerLabel = npt.NDArray[np.float64]
PROBABILITY = "p_"  # before the name of a label, in the name of a column
_LABEL_COLUMNS = ("path", "labels", "predicted", "loss")


class ScoredRow(NamedTuple):
    """An image of predictions/SPLIT.csv with one class."""

    path: str
    label: str
    predicted: str
    probability: float  # probability of the predicted label
    loss: float  # negative log-probability of the true label, in nats
    uncalibrated: float  # probability of the predicted label at temperature 1


@dataclass(frozen=True)
class Scored(ABC):
    """Images of a split with the probabilities that a network gives them. Entries at the same index belong together."""

    paths: tuple[str, ...]  # (n,) names of the images
    labels: npt.NDArray[Any]  # (n,) true class numbers; of several labels (n, K), as of `Task`
    probabilities: Floats  # (n, C) probabilities of the classes or labels
    # images that could not be read and have no entry: {name: reason}
    left_out: Mapping[str, str] = field(default_factory=dict)
    # (n,) what fraction of the validation images is more like the training images; None if not computed
    novelty: Floats | None = None
    # (n,) number of each image's group, as of `image_groups.numbered`; None: all images are independent
    groups: Labels | None = None

    @abstractmethod
    def write(self, path: Path, class_names: Sequence[str], rules: LabelRules | None) -> None:
        """Write predictions/SPLIT.csv, a row for every image, with the predictions of a model with these rules."""


@dataclass(frozen=True)
class ScoredImages(Scored):
    """Images with one class each."""

    temperature: float = 1.0  # number that divided the logits before the softmax

    @property
    def predictions(self) -> Labels:
        """(n,) class numbers of the largest probabilities."""
        return np.asarray(self.probabilities.argmax(axis=1), dtype=np.int64)

    @property
    def confidences(self) -> Floats:
        """(n,) largest probabilities."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def correct(self) -> Bools:
        """(n,) whether the prediction is the label."""
        return np.asarray(self.predictions == self.labels)

    @property
    def uncalibrated(self) -> Floats:
        """(n,) largest probabilities at temperature 1."""
        return self.at(1.0).confidences

    @property
    def losses(self) -> PerLabel:
        """(n,) negative log-probabilities of the true classes, in nats."""
        return _in_nats(self.probabilities[np.arange(len(self.labels)), self.labels])

    @property
    def losses_if_wrong(self) -> PerLabel:
        """(n,) what the losses would be if the second most probable class were the true one."""
        at = -min(2, self.probabilities.shape[1])
        return _in_nats(np.partition(self.probabilities, at, axis=1)[:, at])

    @property
    def log_probabilities(self) -> PerLabel:
        """(n, C) log-probabilities: the logits over the temperature, plus a constant for each image."""
        return np.log(np.maximum(self.probabilities, np.finfo(np.float32).smallest_subnormal).astype(np.float64))

    def at(self, temperature: float) -> "ScoredImages":
        """The same images at another temperature."""
        from scipy.special import softmax  # not at the top: prediction imports this file, and needs no SciPy

        changed = softmax(self.log_probabilities * (self.temperature / temperature), axis=1)
        return replace(self, probabilities=changed.astype(np.float32), temperature=temperature)

    def without(self, left_out: Mapping[str, str]) -> "ScoredImages":
        """Without images {path: reason}, and without novelty; DataError where none is left."""
        is_kept = np.array([path not in left_out for path in self.paths])
        if not is_kept.any():
            raise DataError("no image can be read by every model", "give models of the same channels and window")
        paths = tuple(path for path in self.paths if path not in left_out)
        rows = {"labels": self.labels[is_kept], "probabilities": self.probabilities[is_kept]}
        return replace(self, paths=paths, left_out=left_out, novelty=None, groups=None, **rows)

    def rows(self, class_names: Sequence[str]) -> list[ScoredRow]:
        """A row for every image, as `write` writes them."""
        columns = (self.labels, self.predictions, self.confidences, self.losses, self.uncalibrated)
        return [
            ScoredRow(path, class_names[label], class_names[guess], *map(float, numbers))
            for path, label, guess, *numbers in zip(self.paths, *columns, strict=True)
        ]

    def write(self, path: Path, class_names: Sequence[str], rules: LabelRules | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as partial, new_table(partial, ScoredRow._fields, digits=6) as table:
            for row in self.rows(class_names):
                table.row(row)


@dataclass(frozen=True)
class ScoredLabels(Scored):
    """Images with several labels. Probabilities of labels are independent, and do not add up to 1."""

    temperatures: tuple[float, ...] = ()  # (K,) numbers that divided the logits before the sigmoid; () for 1 everywhere

    @property
    def known(self) -> Bools:
        """(n, K) whether it is known if an image has a label."""
        return np.asarray(self.labels != NOT_KNOWN)

    def at(self, temperatures: npt.ArrayLike) -> "ScoredLabels":
        """The same images at other temperatures (K,)."""
        from scipy.special import expit  # not at the top: prediction imports this file, and needs no SciPy

        wanted = np.asarray(temperatures, dtype=np.float64)
        before = np.asarray(self.temperatures or np.ones(len(wanted)), dtype=np.float64)
        if np.array_equal(before, wanted):
            return self
        changed = expit(log_odds(self.probabilities) * (before / wanted)).astype(np.float32)
        return replace(self, probabilities=changed, temperatures=tuple(map(float, wanted)))

    def predicted(self, thresholds: npt.ArrayLike) -> Bools:
        """(n, K) whether an image is given a label: its probability is at least the label's threshold."""
        return above(self.probabilities, thresholds)

    def exact(self, thresholds: npt.ArrayLike) -> Bools:
        """(n,) whether all known labels of an image are predicted right. True where none is known."""
        return np.asarray(((self.predicted(thresholds) == (self.labels == PRESENT)) | ~self.known).all(axis=1))

    @property
    def losses(self) -> PerLabel:
        """(n,) mean negative log-probability of an image's known labels, in nats; NaN where none is known."""
        return self._mean_of_known(cell_losses(self.labels, self.probabilities))

    @property
    def losses_if_wrong(self) -> PerLabel:
        """(n,) what the losses would be if all known labels of an image were wrong; NaN where none is known."""
        less_likely = np.minimum(self.probabilities, 1.0 - self.probabilities.astype(np.float64))
        return self._mean_of_known(_in_nats(less_likely))

    def _mean_of_known(self, cells: PerLabel) -> PerLabel:
        known = self.known
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(known, cells, 0.0).sum(axis=1) / known.sum(axis=1))

    def write(self, path: Path, class_names: Sequence[str], rules: LabelRules | None) -> None:
        """Write a row for every image: path, labels, predicted, loss, p_LABEL, ...

        Labels are text as in splits.csv ("a|?b": a, and b is unknown). The loss is the mean over an image's known
        labels, and empty where none is known. Probabilities have all digits of a float32.
        """
        assert rules is not None
        path.parent.mkdir(parents=True, exist_ok=True)
        predicted = np.where(self.predicted(rules.thresholds), PRESENT, ABSENT).astype(np.int8)
        texts = (MULTI_LABEL.names(rows, class_names) for rows in (self.labels, predicted))
        with atomic_write(path) as partial, new_table(partial, _columns(class_names)) as table:
            rows = zip(self.paths, *texts, self.losses.tolist(), self.probabilities, strict=True)
            for *names, loss, probabilities in rows:
                table.row((*names, None if np.isnan(loss) else loss, *(float(str(p)) for p in probabilities)))


def read_scored(path: Path, count: int) -> list[ScoredRow]:
    """Read the rows that `ScoredImages.write` wrote. DataError: other columns, or not `count` rows."""
    with explained(DataError, f"{path} is damaged", "restore it, or train again", ValueError):
        rows = _read(path, ScoredRow._fields, count)
        return [ScoredRow(path, label, predicted, *map(float, numbers)) for path, label, predicted, *numbers in rows]


def read_scored_labels(
    path: Path, label_names: Sequence[str], count: int, temperatures: Sequence[float] = ()
) -> ScoredLabels:
    """The images of a file that `ScoredLabels.write` wrote, by a model with these temperatures. DataError: as above."""
    try:
        rows = _read(path, _columns(label_names), count)
        labels = MULTI_LABEL.array([row[1] for row in rows], label_names)
        probabilities = np.array([row[len(_LABEL_COLUMNS) :] for row in rows], dtype=np.float32)
    except (KeyError, ValueError) as error:
        why = f"it has the label {error}, which the model does not know" if isinstance(error, KeyError) else error
        raise DataError(f"{path} is damaged: {why}", "restore it, or train again") from error
    names = tuple(row[0] for row in rows)
    return ScoredLabels(names, labels, probabilities.reshape(count, len(label_names)), temperatures=tuple(temperatures))


def _columns(label_names: Sequence[str]) -> tuple[str, ...]:
    return (*_LABEL_COLUMNS, *(PROBABILITY + name for name in label_names))


def _read(path: Path, columns: tuple[str, ...], count: int) -> list[list[str]]:
    """The rows of a CSV file. ValueError where it has other columns, or another number of rows."""
    header, rows = read_table(path)
    if tuple(header) != columns or len(rows) != count:
        raise ValueError(f"it should have the columns {','.join(columns)} and {count:,} rows")
    if any(len(row) != len(header) for row in rows):
        raise ValueError("its rows are of different lengths")
    return rows


def above(probabilities: Floats, thresholds: npt.ArrayLike) -> Bools:
    """(n, K) whether a probability is at least the threshold of its label: the one rule that turns them into labels."""
    return np.asarray(probabilities >= np.asarray(thresholds, dtype=np.float64))


def log_odds(probabilities: npt.NDArray[np.floating]) -> PerLabel:
    """log(p / (1 - p)) of float32 probabilities. A float32 ends at 1 - 6e-8, so 1 counts as half a step below 1."""
    exact = np.clip(probabilities.astype(np.float64), float(np.finfo(np.float32).smallest_subnormal), 1 - 2.0**-25)
    return np.asarray(np.log(exact) - np.log1p(-exact))


def cell_losses(labels: LabelRows, probabilities: Floats) -> PerLabel:
    """(n, K) negative log-probabilities of labels, in nats. A cell of an unknown label has no meaning."""
    return _in_nats(np.where(labels == PRESENT, probabilities, 1.0 - probabilities.astype(np.float64)))


def _in_nats(probabilities: npt.NDArray[np.floating]) -> PerLabel:
    """Negative logarithms, of 1e-12 at least."""
    return np.asarray(-np.log(np.maximum(probabilities.astype(np.float64), 1e-12)))
