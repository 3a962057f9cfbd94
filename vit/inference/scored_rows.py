"""predictions/SPLIT.csv: labels, predictions and losses of all images of a split, in the order of the split"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vit.atomic_files import atomic_write
from vit.csv_files import new_table, read_table
from vit.errors import DataError

if TYPE_CHECKING:
    from vit.inference.scored_images import ScoredImages


class ScoredRow(NamedTuple):
    """One image.

    Attributes:
        probability: probability of the predicted label.
        loss: negative log-probability of the true label, in nats.
        uncalibrated: probability of the predicted label at temperature 1.
    """

    path: str
    label: str
    predicted: str
    probability: float
    loss: float
    uncalibrated: float


def write_scored(path: Path, scored: "ScoredImages", class_names: tuple[str, ...]) -> None:
    """Write a row for every image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = (scored.labels, scored.predictions, scored.confidences, scored.losses, scored.uncalibrated)
    with atomic_write(path) as partial, new_table(partial, ScoredRow._fields, digits=6) as table:
        for name, label, guess, *numbers in zip(scored.paths, *columns, strict=True):
            table.row((name, class_names[label], class_names[guess], *map(float, numbers)))


def read_scored(path: Path, count: int) -> list[ScoredRow]:
    """Read the rows that `write_scored` wrote.

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
        raise DataError(f"{path} is not as its run wrote it: {error}", "restore it, or train again") from error
