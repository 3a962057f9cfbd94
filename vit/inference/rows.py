"""Writes predictions as rows of a CSV, JSON-lines or Parquet file, as they come

The file is called NAME.partial until it is complete. A run that ends early keeps its rows there.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from vit.atomic_files import atomic_write, name_new_file
from vit.checkpoints.locking import hold_output
from vit.csv_files import TableWriter, create
from vit.errors import ResourceError, StoppedError, UsageError, explained, interruption
from vit.inference.files import check_output
from vit.inference.prediction import Prediction
from vit.inference.scores.scored_images import PROBABILITY
from vit.tasks.task import SINGLE_LABEL

DIGITS = 6
_FLUSH_ROWS = 4096
LABELS, PROBABILITIES, NOVELTY, ANSWER, UNFINISHED = "labels", "probabilities", "novelty", "answer", "unfinished"
SEPARATOR = "|"

Cell = str | float | list[str] | list[float] | None


class RowWriter(ABC):
    """Writes predictions to a file in a `with` block. The file gets its name when the block ends without an error."""

    def __init__(self, path: Path, top_k: int) -> None:
        self.path, self.partial = path, path.with_name(f"{path.name}.partial")
        self.top_k = top_k  # number of classes in a row
        self.has_sets = False  # whether rows have a prediction set
        self.has_answers = False  # whether rows have an answer at the level that is sure
        self.task = SINGLE_LABEL  # whether a row has one class and the next best ones, or any number of labels
        self.all_of: tuple[str, ...] = ()  # classes or labels with a column of their own, for their probabilities
        self.unfinished = ""  # what the training of the model lacks, for a column of its own; "" where it is finished

    @property
    def columns(self) -> list[str]:
        """Names of the columns of a row."""
        answer = [LABELS, PROBABILITIES]
        if self.task.is_exclusive:
            more = [name for rank in range(2, self.top_k + 1) for name in (f"label_{rank}", f"probability_{rank}")]
            answer = ["label", "probability", *more, *[LABELS] * self.has_sets, *[ANSWER] * self.has_answers]
        last = [NOVELTY, "error", "engine", *[UNFINISHED] * bool(self.unfinished)]
        return ["path", "status", *answer, *(PROBABILITY + name for name in self.all_of), *last]

    def cells(self, prediction: Prediction) -> list[Cell]:
        """A prediction as one row, with None for missing values."""
        top = dict(prediction.top)
        if not self.task.is_exclusive:
            answer: list[Cell] = [list(prediction.labels), [top[name] for name in prediction.labels]]
        else:
            label = prediction.label if prediction.status == "ok" else None
            answer = [label, prediction.probability]
            for rank in range(1, self.top_k):
                answer += prediction.top[rank] if rank < len(prediction.top) else (None, None)
            answer += [list(prediction.labels)] if self.has_sets else []
            answer += [prediction.answer or None] if self.has_answers else []
        last = [prediction.novelty, prediction.error, prediction.engine, *[self.unfinished] * bool(self.unfinished)]
        return [prediction.path, prediction.status, *answer, *(top.get(name) for name in self.all_of), *last]

    @abstractmethod
    def write(self, prediction: Prediction) -> None:
        """Add one row."""

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...

    def __enter__(self) -> Self:
        """Lock and open the partial file; what a process that ended early has left in it is written again."""
        with explained(ResourceError, f"cannot write {self.path}", "choose another --output"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.partial.is_symlink():  # what it points to is not ours to write
                raise UsageError(f"{self.partial} is a link", "move it elsewhere, or give another --output")
            lock = hold_output(self.partial)
            if lock is None:
                raise UsageError(f"another vit predict writes {self.partial}", "give another --output")
            with ExitStack() as held:
                held.callback(os.close, lock)
                if os.path.lexists(self.path):  # that process has finished it since the name was chosen
                    self.partial.unlink()
                    raise UsageError(f"{self.path} exists", "give the command again, or another --output")
                self._open()
                self._held = held.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._held:
            self._close()
            if isinstance(error, KeyboardInterrupt):
                code, word = interruption(error)
                fix = "the same command starts again; with --parts FOLDER it would continue"
                raise StoppedError(code, f"{word}; the rows so far are in {self.partial}", fix) from error
            if kind is not None:
                return
            try:
                name_new_file(self.partial, self.path)
            except FileExistsError as taken:
                problem = f"another program made {self.path} meanwhile; it is kept, and the rows are in {self.partial}"
                raise ResourceError(problem, "give the rows a name of their own") from taken


class _TextWriter(RowWriter):
    """A text file. Bytes of names that are not UTF-8 stay as they are."""

    file: IO[str]

    def _open(self) -> None:
        self.file = create(self.partial)

    def _close(self) -> None:
        self.file.close()


class CsvWriter(_TextWriter):
    """Columns path, status, label, probability, label_2, ..., labels (a set: a|b), answer, novelty, error, engine.

    With several labels for an image: path, status, labels (a|b), probabilities (0.98|0.71), novelty, error, engine.
    """

    def _open(self) -> None:
        super()._open()
        self.rows = TableWriter(self.file, self.columns, digits=DIGITS)

    def write(self, prediction: Prediction) -> None:
        self.rows.row(_joined(self.cells(prediction)))


class JsonLinesWriter(_TextWriter):
    """A JSON object in each line: path, status, label, probability, top, labels, answer, novelty, error, engine."""

    def write(self, prediction: Prediction) -> None:
        more = {UNFINISHED: self.unfinished} if self.unfinished else {}
        self.file.write(json.dumps({**to_json(prediction), **more}) + "\n")


class ParquetWriter(RowWriter):
    """The columns of the CSV file, with types. Bytes of names that are not UTF-8 are escaped."""

    metadata: dict[str, str] | None = None  # texts that the file keeps beside its rows

    def _open(self) -> None:
        self.schema = pa.schema([(name, _parquet_type(name)) for name in self.columns], metadata=self.metadata)
        self.writer = pq.ParquetWriter(self.partial, self.schema)
        self.waiting: list[list[Cell]] = []

    def write(self, prediction: Prediction) -> None:
        self.waiting.append(self.cells(prediction))
        if len(self.waiting) >= _FLUSH_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self.waiting:
            columns = [[_encodable(cell) for cell in column] for column in zip(*self.waiting, strict=True)]
            self.writer.write_table(pa.table(columns, schema=self.schema))
            self.waiting.clear()

    def _close(self) -> None:
        self._flush()
        self.writer.close()


_WRITERS: dict[str, type[RowWriter]] = {".csv": CsvWriter, ".jsonl": JsonLinesWriter, ".parquet": ParquetWriter}


def open_writer(path: Path, top_k: int) -> RowWriter:
    """The writer for the suffix of a file name. Raises UsageError for an unknown suffix."""
    check_output(path)
    return _WRITERS[path.suffix.lower()](path, top_k)


def write_tables(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write rows of Parquet files as one new file, CSV or Parquet, in a constant amount of memory."""
    rest = iter(tables)
    first = next(rest)
    every = chain((first,), rest)
    with atomic_write(path, is_new=True) as partial:
        if path.suffix.lower() == ".csv":
            with create(partial) as file:
                rows = TableWriter(file, first.column_names, digits=DIGITS)
                for table in every:
                    for row in table.to_pylist():
                        rows.row(_joined(row.values()))
        else:
            with pq.ParquetWriter(partial, first.schema) as writer:
                for table in every:
                    writer.write_table(table)


def _parquet_type(name: str) -> pa.DataType:
    if name in (LABELS, PROBABILITIES):
        return pa.list_(pa.string() if name == LABELS else pa.float32())
    return pa.float32() if name == NOVELTY or name.startswith(("probability", PROBABILITY)) else pa.string()


def check_separator(names: Iterable[str], endings: str) -> None:
    """Raise UsageError where a name would read as two in a list of a CSV file; advise other endings of --output."""
    twofold = next((name for name in names if SEPARATOR in name), None)
    if twofold is not None:
        problem = f"labels are separated by {SEPARATOR!r} in a CSV, and {twofold!r} contains it"
        raise UsageError(problem, f"give --output a name that ends in {endings}")


def _joined(cells: Iterable[Cell]) -> list[str | float | None]:
    """The cells of a CSV, in which a list is one text. UsageError where one of its texts would read as two."""

    def text(parts: Sequence[str | float]) -> str:
        check_separator((part for part in parts if isinstance(part, str)), ".parquet")
        return SEPARATOR.join(part if isinstance(part, str) else f"{part:.{DIGITS}f}" for part in parts)

    return [text(cell) if isinstance(cell, list) else cell for cell in cells]


def to_json(prediction: Prediction) -> dict[str, object]:
    """A prediction as plain values, which JSON can hold."""
    lacks_labels = prediction.status == "ok" and not prediction.label  # of a model that gives several, or none
    return {
        "path": prediction.path,
        "status": prediction.status,
        "label": prediction.label,
        "probability": prediction.probability,
        "top": [{"label": label, "probability": probability} for label, probability in prediction.top],
        **({"labels": list(prediction.labels)} if prediction.labels or lacks_labels else {}),
        **({"answer": prediction.answer} if prediction.answer else {}),
        "novelty": prediction.novelty,
        "error": prediction.error,
        "engine": prediction.engine,
    }


def parquet_text(text: str) -> str:
    """Text as a Parquet file has it: bytes of a name that are not UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _encodable(cell: Cell) -> Cell:
    if isinstance(cell, list):
        return [parquet_text(part) if isinstance(part, str) else part for part in cell]  # type: ignore[return-value]
    return parquet_text(cell) if isinstance(cell, str) else cell
