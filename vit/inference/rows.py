"""Predictions -> rows of a CSV, JSON-lines or Parquet file, written as they come.

While rows are added the file is called NAME.partial; it gets its name when it is complete. A run that is stopped keeps
what it wrote.
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


class RowWriter(ABC):
    """Writes predictions to a file; use it in a `with` block, whose clean end gives the file its name."""

    def __init__(self, path: Path, top_k: int) -> None:
        self.path = path
        self.partial = path.with_name(f"{path.name}.partial")
        self.top_k = top_k

    @abstractmethod
    def write(self, prediction: Prediction) -> None:
        """Add one row."""

    @abstractmethod
    def flush(self) -> None:
        """Hand what was written to the system."""

    @abstractmethod
    def _open(self) -> None:
        """Begin the partial file."""

    @abstractmethod
    def _close(self) -> None:
        """End the partial file."""

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
    """A file of lines. Bytes of names that are no UTF-8 come out as they went in."""

    file: IO[str]

    def _open(self) -> None:
        self.file = create(self.partial)

    def flush(self) -> None:
        self.file.flush()

    def _close(self) -> None:
        self.file.close()


class CsvWriter(_TextWriter):
    """Columns path, status, label, probability, label_2, probability_2, ..., error."""

    def _open(self) -> None:
        super()._open()
        self.rows = TableWriter(self.file, column_names(self.top_k), digits=6)

    def write(self, prediction: Prediction) -> None:
        self.rows.row(flat(prediction, self.top_k))


class JsonLinesWriter(_TextWriter):
    """One JSON object a line: path, status, label, probability, top (a list of label and probability), error."""

    def write(self, prediction: Prediction) -> None:
        self.file.write(json.dumps(to_json(prediction)) + "\n")


class ParquetWriter(RowWriter):
    """The columns of the CSV, typed; a name that is no UTF-8 has its odd bytes escaped."""

    def _open(self) -> None:
        names = column_names(self.top_k)
        types = [pa.float32() if name.startswith("probability") else pa.string() for name in names]
        self.schema = pa.schema(list(zip(names, types, strict=True)))
        self.writer = pq.ParquetWriter(self.partial, self.schema)
        self.waiting: list[tuple[str | float | None, ...]] = []

    def write(self, prediction: Prediction) -> None:
        self.waiting.append(flat(prediction, self.top_k))
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
    """The writer for a file name's ending; UsageError for another ending."""
    check_output(path)
    return _WRITERS[path.suffix.lower()](path, top_k)


def column_names(top_k: int) -> list[str]:
    """Names of the columns of a flat row."""
    more = [name for place in range(2, top_k + 1) for name in (f"label_{place}", f"probability_{place}")]
    return ["path", "status", "label", "probability", *more, "error"]


def flat(prediction: Prediction, top_k: int) -> tuple[str | float | None, ...]:
    """A prediction as one row; None where there is nothing to say."""
    more: list[str | float | None] = []
    for place in range(1, top_k):
        more += prediction.top[place] if place < len(prediction.top) else (None, None)
    label = prediction.label if prediction.status == "ok" else None
    return (prediction.path, prediction.status, label, prediction.probability, *more, prediction.error)


def to_json(prediction: Prediction) -> dict[str, Any]:
    """A prediction as plain values; `from_json` reads them back."""
    return {
        "path": prediction.path,
        "status": prediction.status,
        "label": prediction.label,
        "probability": prediction.probability,
        "top": [{"label": label, "probability": probability} for label, probability in prediction.top],
        "error": prediction.error,
    }


def from_json(row: dict[str, Any]) -> Prediction:
    """The prediction of a JSON row."""
    top = tuple((entry["label"], entry["probability"]) for entry in row["top"])
    return Prediction(row["path"], row["status"], row["label"], row["probability"], top, row["error"])


def merge(parts: list[Path]) -> Iterator[Prediction]:
    """The rows of JSON-lines parts in turn: the first of each, then the second of each, ..."""
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


def _encodable(cell: str | float | None) -> str | float | None:
    return cell.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(cell, str) else cell
