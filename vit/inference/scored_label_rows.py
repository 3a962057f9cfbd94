"""predictions/SPLIT.csv of images with several labels: true and predicted labels, and the probability of every label"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vit.atomic_files import atomic_write
from vit.csv_files import new_table, read_table
from vit.data.label_text import ABSENT, PRESENT, label_text, parse_labels
from vit.errors import DataError
from vit.inference.scored_labels import ScoredLabels

_COLUMNS = ("path", "labels", "predicted", "loss")
PROBABILITY = "p_"  # before the name of a label, in the name of a column


def write_scored_labels(
    path: Path, scored: ScoredLabels, label_names: Sequence[str], thresholds: npt.ArrayLike
) -> None:
    """Write a row for every image: path, labels, predicted, loss, p_LABEL, ...

    Labels are text as in splits.csv ("a|?b": a, and b is unknown). The loss is the mean over an image's known labels,
    and empty where none is known. Probabilities have all digits of a float32.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    predicted = np.where(scored.predicted(thresholds), PRESENT, ABSENT).astype(np.int8)
    columns = (*_COLUMNS, *(PROBABILITY + name for name in label_names))
    with atomic_write(path) as partial, new_table(partial, columns) as table:
        rows = zip(scored.paths, scored.labels, predicted, scored.losses.tolist(), scored.probabilities, strict=True)
        for name, labels, guess, loss, probabilities in rows:
            texts = (label_text(labels, label_names), label_text(guess, label_names))
            table.row((name, *texts, None if np.isnan(loss) else loss, *(float(str(p)) for p in probabilities)))


def read_scored_labels(
    path: Path, label_names: Sequence[str], count: int, temperatures: Sequence[float] = ()
) -> ScoredLabels:
    """The images of a file that `write_scored_labels` wrote.

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
        raise DataError(f"{path} is not as its run wrote it: {error}", "restore it, or train again") from error
    names = tuple(row[0] for row in rows)
    return ScoredLabels(names, labels, probabilities.reshape(count, len(label_names)), tuple(temperatures))
