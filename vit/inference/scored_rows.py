"""predictions/SPLIT.csv: what a run said of every image of a split, in the order of the split."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vit.atomic_files import atomic_write
from vit.csv_files import new_table, read_table
from vit.errors import DataError

if TYPE_CHECKING:
    from vit.inference.metrics import ScoredImages


class ScoredRow(NamedTuple):
    """One image; in files from before there was calibration `uncalibrated` is missing, and `probability` here.

    Attributes:
        probability: of the predicted label.
        loss: negative log-probability of the true label, in nats.
        uncalibrated: the probability of the predicted label without temperature scaling.
    """

    path: str
    label: str
    predicted: str
    probability: float
    loss: float
    uncalibrated: float


_OLD = ScoredRow._fields[:5]


def write_scored(path: Path, scored: "ScoredImages", class_names: tuple[str, ...]) -> None:
    """Every image with its true and predicted label, for whoever wants to compute something else."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = (scored.labels, scored.predictions, scored.confidences, scored.losses, scored.uncalibrated)
    with atomic_write(path) as partial, new_table(partial, ScoredRow._fields, digits=6) as table:
        for name, label, guess, *numbers in zip(scored.paths, *columns, strict=True):
            table.row((name, class_names[label], class_names[guess], *map(float, numbers)))


def read_scored(path: Path, count: int) -> list[ScoredRow]:
    """What `write_scored` wrote.

    Raises:
        DataError: it is not as it was written, or has not `count` rows.
    """
    try:
        header, rows = read_table(path)
        if tuple(header) not in (ScoredRow._fields, _OLD) or len(rows) != count:
            raise ValueError(f"it should have the columns {','.join(ScoredRow._fields)} and {count:,} rows")
        if any(len(row) != len(header) for row in rows):
            raise ValueError("its rows are of different lengths")
        return [_row(*row) for row in rows]
    except ValueError as error:
        raise DataError(f"{path} is not as its run wrote it: {error}", "restore it, or train again") from error


def _row(path: str, label: str, predicted: str, *numbers: str) -> ScoredRow:
    probability, loss, *rest = map(float, numbers)
    return ScoredRow(path, label, predicted, probability, loss, *(rest or [probability]))
