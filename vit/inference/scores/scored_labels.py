"""ScoredLabels: images of a split, where an image has several labels, with the probability of every label"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vit.atomic_files import atomic_write
from vit.checkpoints.label_rules import LabelRules
from vit.csv_files import new_table, read_table
from vit.errors import DataError
from vit.inference.scores.scored_images import Floats, Scored
from vit.tasks.label_text import ABSENT, NOT_KNOWN, PRESENT, LabelRows, label_text, parse_labels

PerLabel = npt.NDArray[np.float64]
_COLUMNS = ("path", "labels", "predicted", "loss")
PROBABILITY = "p_"  # before the name of a label, in the name of a column


@dataclass(frozen=True)
class ScoredLabels(Scored):
    """Images with several labels. Probabilities of labels are independent, and do not add up to 1."""

    temperatures: tuple[float, ...] = ()  # (K,) numbers that divided the logits before the sigmoid; () for 1 everywhere

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """(n, K) whether it is known if an image has a label."""
        return np.asarray(self.labels != NOT_KNOWN)

    @property
    def logits(self) -> PerLabel:
        """(n, K) logits over the temperatures."""
        return log_odds(self.probabilities)

    def at(self, temperatures: npt.ArrayLike) -> "ScoredLabels":
        """The same images at other temperatures (K,)."""
        from scipy.special import expit  # not at the top: prediction imports this file, and needs no SciPy

        wanted = np.asarray(temperatures, dtype=np.float64)
        before = np.asarray(self.temperatures or np.ones(len(wanted)), dtype=np.float64)
        if np.array_equal(before, wanted):
            return self
        changed = expit(self.logits * (before / wanted)).astype(np.float32)
        return replace(self, probabilities=changed, temperatures=tuple(map(float, wanted)))

    def predicted(self, thresholds: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """(n, K) whether an image is given a label: its probability is at least the label's threshold."""
        return above(self.probabilities, thresholds)

    def exact(self, thresholds: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """(n,) whether all known labels of an image are predicted right. True where none is known."""
        return np.asarray(((self.predicted(thresholds) == (self.labels == PRESENT)) | ~self.known).all(axis=1))

    @property
    def losses(self) -> PerLabel:
        """(n,) mean negative log-probability of an image's known labels, in nats; NaN where none is known."""
        cells, known = cell_losses(self.labels, self.probabilities), self.known
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(known, cells, 0.0).sum(axis=1) / known.sum(axis=1))

    @property
    def losses_if_wrong(self) -> PerLabel:
        """(n,) what the losses would be if all known labels of an image were wrong; NaN where none is known."""
        less_likely = np.minimum(self.probabilities, 1.0 - self.probabilities.astype(np.float64))
        cells, known = -np.log(np.maximum(less_likely, 1e-12)), self.known
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
        columns = (*_COLUMNS, *(PROBABILITY + name for name in class_names))
        with atomic_write(path) as partial, new_table(partial, columns) as table:
            rows = zip(self.paths, self.labels, predicted, self.losses.tolist(), self.probabilities, strict=True)
            for name, labels, guess, loss, probabilities in rows:
                texts = (label_text(labels, class_names), label_text(guess, class_names))
                table.row((name, *texts, None if np.isnan(loss) else loss, *(float(str(p)) for p in probabilities)))


def read_scored_labels(
    path: Path, label_names: Sequence[str], count: int, temperatures: Sequence[float] = ()
) -> ScoredLabels:
    """The images of a file that `ScoredLabels.write` wrote.

    Args:
        count: expected number of rows.
        temperatures: (K,) temperatures of the model that wrote it; () for 1 everywhere.

    Raises:
        DataError: the file has other columns, or another number of rows.
    """
    columns = [*_COLUMNS, *(PROBABILITY + name for name in label_names)]
    try:
        header, rows = read_table(path)
        if header != columns or len(rows) != count:
            raise ValueError(f"it should have the columns {','.join(columns)} and {count:,} rows")
        if any(len(row) != len(header) for row in rows):
            raise ValueError("its rows are of different lengths")
        labels = np.full((count, len(label_names)), ABSENT, dtype=np.int8)
        numbers = {name: number for number, name in enumerate(label_names)}
        for place, row in enumerate(rows):
            for name, value in parse_labels(row[1]).items():
                if name not in numbers:
                    raise ValueError(f"it has the label {name!r}, which the model does not know")
                labels[place, numbers[name]] = value
        probabilities = np.array([row[len(_COLUMNS) :] for row in rows], dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}", "restore it, or train again") from error
    names = tuple(row[0] for row in rows)
    return ScoredLabels(names, labels, probabilities.reshape(count, len(label_names)), temperatures=tuple(temperatures))


def above(probabilities: Floats, thresholds: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """(n, K) whether a probability is at least the threshold of its label: the one rule that turns them into labels."""
    return np.asarray(probabilities >= np.asarray(thresholds, dtype=np.float64))


def log_odds(probabilities: npt.NDArray[np.floating]) -> PerLabel:
    """log(p / (1 - p)) of float32 probabilities. A float32 ends at 1 - 6e-8, so 1 counts as half a step below 1."""
    exact = np.clip(probabilities.astype(np.float64), float(np.finfo(np.float32).smallest_subnormal), 1 - 2.0**-25)
    return np.asarray(np.log(exact) - np.log1p(-exact))


def cell_losses(labels: LabelRows, probabilities: Floats) -> PerLabel:
    """(n, K) negative log-probabilities of labels, in nats. A cell of an unknown label has no meaning."""
    own = np.where(labels == PRESENT, probabilities, 1.0 - probabilities.astype(np.float64))
    return np.asarray(-np.log(np.maximum(own, 1e-12)))
