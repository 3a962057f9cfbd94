"""predictions/SPLIT.csv: labels, predictions and losses of all images of a split, in the order of the split"""

from pathlib import Path
from typing import NamedTuple

from vit.csv_files import read_table
from vit.errors import DataError


class ScoredRow(NamedTuple):
    """One image."""

    path: str
    label: str
    predicted: str
    probability: float  # probability of the predicted label
    loss: float  # negative log-probability of the true label, in nats
    uncalibrated: float  # probability of the predicted label at temperature 1


def read_scored(path: Path, count: int) -> list[ScoredRow]:
    """Read the rows that `ScoredImages.write` wrote.

    Args:
        count: expected number of rows.

    Raises:
        DataError: the file has other columns, or another number of rows.
    """
    try:
        header, rows = read_table(path)
        if tuple(header) != ScoredRow._fields or len(rows) != count:
            raise ValueError(f"it should have the columns {','.join(ScoredRow._fields)} and {count:,} rows")
        if any(len(row) != len(header) for row in rows):
            raise ValueError("its rows are of different lengths")
        return [ScoredRow(path, label, predicted, *map(float, numbers)) for path, label, predicted, *numbers in rows]
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}", "restore it, or train again") from error
