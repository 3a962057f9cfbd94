"""Writes predictions as rows of a CSV, JSON-lines or Parquet file, as they come

The file is called NAME.partial until it is complete. A run that ends early keeps its rows there.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from vit.csv_files import TableWriter, create
from vit.errors import ResourceError
from vit.inference.files import check_output
from vit.inference.predictor import Prediction

_FLUSH_ROWS = 4096
SET_COLUMN, SEPARATOR = "labels", "|"

Cell = str | float | list[str] | None


class RowWriter(ABC):
    """Writes predictions to a file in a `with` block. The file gets its name when the block ends without an error.

    Attributes:
        top_k: number of classes in a row.
        has_sets: whether rows have a prediction set.
    """

    def __init__(self, path: Path, top_k: int) -> None:
        self.path = path
        self.partial = path.with_name(f"{path.name}.partial")
        self.top_k = top_k
        self.has_sets = False

    @abstractmethod
    def write(self, prediction: Prediction) -> None:
        """Add one row."""

    @abstractmethod
    def flush(self) -> None:
        """Write buffered rows to the file."""

    @abstractmethod
    def _open(self) -> None:
        """Create the partial file."""

    @abstractmethod
    def _close(self) -> None:
        """Close the partial file."""

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise ResourceError(f"cannot write {self.path}: {error.strerror}", "choose another --output") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if kind is None:
            os.replace(self.partial, self.path)


class _TextWriter(RowWriter):
    """A text file. Bytes of names that are not UTF-8 stay as they are."""

    file: IO[str]

    def _open(self) -> None:
        self.file = create(self.partial)

    def flush(self) -> None:
        self.file.flush()

    def _close(self) -> None:
        self.file.close()


class CsvWriter(_TextWriter):
    """Columns path, status, label, probability, label_2, ..., labels (a set: a|b), novelty, error, engine."""

    def _open(self) -> None:
        super()._open()
        self.rows = TableWriter(self.file, column_names(self.top_k, self.has_sets), digits=6)

    def write(self, prediction: Prediction) -> None:
        *cells, novelty, error, engine = flat(prediction, self.top_k)
        if self.has_sets:
            cells.append(SEPARATOR.join(prediction.labels))
        self.rows.row([*cells, novelty, error, engine])


class JsonLinesWriter(_TextWriter):
    """A JSON object in each line: path, status, label, probability, top, labels, novelty, error, engine."""

    def write(self, prediction: Prediction) -> None:
        self.file.write(json.dumps(to_json(prediction)) + "\n")


class ParquetWriter(RowWriter):
    """The columns of the CSV file, with types. Bytes of names that are not UTF-8 are escaped."""

    def _open(self) -> None:
        names = column_names(self.top_k, self.has_sets)
        self.schema = pa.schema([(name, _parquet_type(name)) for name in names])
        self.writer = pq.ParquetWriter(self.partial, self.schema)
        self.waiting: list[list[Cell]] = []

    def write(self, prediction: Prediction) -> None:
        *cells, novelty, error, engine = flat(prediction, self.top_k)
        labels = [list(prediction.labels)] if self.has_sets else []
        self.waiting.append([*cells, *labels, novelty, error, engine])
        if len(self.waiting) >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.waiting:
            columns = [[_encodable(cell) for cell in column] for column in zip(*self.waiting, strict=True)]
            self.writer.write_table(pa.table(columns, schema=self.schema))
            self.waiting.clear()

    def _close(self) -> None:
        self.flush()
        self.writer.close()


_WRITERS: dict[str, type[RowWriter]] = {".csv": CsvWriter, ".jsonl": JsonLinesWriter, ".parquet": ParquetWriter}


def open_writer(path: Path, top_k: int) -> RowWriter:
    """The writer for the suffix of a file name. Raises UsageError for an unknown suffix."""
    check_output(path)
    return _WRITERS[path.suffix.lower()](path, top_k)


def _parquet_type(name: str) -> pa.DataType:
    if name == SET_COLUMN:
        return pa.list_(pa.string())
    return pa.float32() if name.startswith("probability") or name == "novelty" else pa.string()


def column_names(top_k: int, has_sets: bool = False) -> list[str]:
    """Names of the columns of a row."""
    more = [name for rank in range(2, top_k + 1) for name in (f"label_{rank}", f"probability_{rank}")]
    sets = [SET_COLUMN] if has_sets else []
    return ["path", "status", "label", "probability", *more, *sets, "novelty", "error", "engine"]


def flat(prediction: Prediction, top_k: int) -> tuple[str | float | None, ...]:
    """A prediction as one row, with None for missing values."""
    more: list[str | float | None] = []
    for rank in range(1, top_k):
        more += prediction.top[rank] if rank < len(prediction.top) else (None, None)
    label = prediction.label if prediction.status == "ok" else None
    return (
        prediction.path,
        prediction.status,
        label,
        prediction.probability,
        *more,
        prediction.novelty,
        prediction.error,
        prediction.engine,
    )


def to_json(prediction: Prediction) -> dict[str, object]:
    """A prediction as plain values, which `from_json` reads."""
    return {
        "path": prediction.path,
        "status": prediction.status,
        "label": prediction.label,
        "probability": prediction.probability,
        "top": [{"label": label, "probability": probability} for label, probability in prediction.top],
        **({"labels": list(prediction.labels)} if prediction.labels else {}),
        "novelty": prediction.novelty,
        "error": prediction.error,
        "engine": prediction.engine,
    }


def from_json(row: dict[str, Any]) -> Prediction:
    """The prediction of a JSON row. Rows of older versions name neither engine nor novelty."""
    top = tuple((entry["label"], entry["probability"]) for entry in row["top"])
    return Prediction(
        row["path"],
        row["status"],
        row["label"],
        row["probability"],
        top,
        row["error"],
        row.get("engine", ""),
        tuple(row.get("labels", ())),
        row.get("novelty"),
    )


def merge(parts: list[Path]) -> Iterator[Prediction]:
    """The rows of JSON-lines files in turn: the first of each file, then the second of each file, ..."""
    files = [open(part, encoding="utf-8", errors="surrogateescape") for part in parts]  # noqa: SIM115
    try:
        waiting = list(files)
        while waiting:
            for file in list(waiting):
                line = file.readline()
                if line:
                    yield from_json(json.loads(line))
                else:
                    waiting.remove(file)
    finally:
        for file in files:
            file.close()


def _encodable(cell: Cell) -> Cell:
    if isinstance(cell, list):
        return [_text(label) for label in cell]
    return _text(cell) if isinstance(cell, str) else cell


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
