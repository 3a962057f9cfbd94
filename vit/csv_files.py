"""Our CSV files: one writer and one reader, which protect spreadsheets from formulas in names.

A spreadsheet computes a cell that begins like a formula, and names of files and classes are untrusted. So the writer
puts a quote before such text, and the reader removes the quote. Some spreadsheets split a line at semicolons or tabs,
so that a cell begins inside a text. Text after these characters is treated in the same way.
https://owasp.org/www-community/attacks/CSV_Injection
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vit.errors import ResourceError, explained
from vit.plain_files import check_regular

CsvValue = str | int | float | None

_OF_VIT = (  # how the headers of our tables begin, of which some are given as DATA
    ("path", "label", "split", "content"), ("path", "labels", "split", "content"), ("path", "label", "suggested"),
    ("path", "label", "predicted"), ("path", "labels", "predicted"), ("path", "status"),
)  # fmt: skip
_BEGINS = r"(?:\A|(?<=[;\t\r\n]))"  # of a cell, in any spreadsheet
_FORMULA = r"[ \u00a0\"]*[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n]"
_TO_ESCAPE = re.compile(f"{_BEGINS}(?='*{_FORMULA})")
_ESCAPED = re.compile(f"{_BEGINS}'(?='*{_FORMULA})")


def escape(text: str) -> str:
    """Text that no spreadsheet computes: each formula gets a quote in front."""
    return _TO_ESCAPE.sub("'", text)


def unescape(text: str) -> str:
    """The label or path of a cell: without the quote that keeps a spreadsheet from computing it."""
    return _ESCAPED.sub("", text) if "'" in text else text  # a list of images has millions of cells


def describe_escapes(names: Iterable[str], where: str = "CSV files of vit have") -> str:
    """How names stand in our tables, where a spreadsheet would compute them; "" where none is escaped."""
    escaped = [name for name in names if escape(name) != name]
    if not escaped:
        return ""
    return (
        f"{where} {escape(escaped[0])!r} for {escaped[0]!r}{f' and {len(escaped) - 1:,} more' * (len(escaped) > 1)}"
        ": a spreadsheet would compute the name; vit.read_table, .jsonl and .parquet have it as it is"
    )


def is_of_vit(header: Sequence[str]) -> bool:
    """Whether a table has the header of one that this program writes, so that its cells are escaped."""
    return any(tuple(header[: len(names)]) == names for names in _OF_VIT)


class TableWriter:
    """Writes rows to a file of `create`; text is escaped, numbers are not. `digits` of a float; None: all."""

    def __init__(self, file: IO[str], columns: Sequence[str] = (), digits: int | None = None) -> None:
        self._file = file
        self._digits = digits
        self._writer = csv.writer(file)
        if columns:
            self.row(columns)

    def row(self, cells: Iterable[CsvValue]) -> None:
        """Add a row. None gives an empty cell."""
        self._writer.writerow([self._text(cell) for cell in cells])

    def flush(self) -> None:
        self._file.flush()

    def _text(self, cell: CsvValue) -> str:
        if isinstance(cell, float):
            return repr(float(cell)) if self._digits is None else f"{cell:.{self._digits}f}"
        return "" if cell is None else str(cell) if isinstance(cell, int) else escape(cell)


def create(path: Path, mode: str = "w") -> IO[str]:
    """Open a file for a table. Line ends, and bytes of names that are not UTF-8, are kept."""
    return open(path, mode, newline="", encoding="utf-8", errors="surrogateescape")


@contextmanager
def new_table(path: Path, columns: Sequence[str], digits: int | None = None, mode: str = "w") -> Iterator[TableWriter]:
    """A new table with a header, closed after the block. Mode "x" never overwrites a file."""
    with create(path, mode) as file:
        yield TableWriter(file, columns, digits)


@contextmanager
def new_output(path: Path, columns: Sequence[str], digits: int | None = None) -> Iterator[TableWriter]:
    """A new table that a user asked for, also in a new folder; no file is overwritten.

    Raises:
        ResourceError: it cannot be written.
    """
    with explained(ResourceError, f"cannot write {path}", "choose another --output"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_table(path, columns, digits, "x") as table:
            yield table


def read_table(path: str | Path) -> tuple[list[str], list[list[str]]]:
    """The columns and rows of a table of `vit`, names as they were. The last may be cut short. ValueError: no CSV."""
    check_regular(Path(path))
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        try:
            rows = [[unescape(cell) for cell in row] for row in csv.reader(file) if row]
        except csv.Error as error:
            raise ValueError(f"it is not a CSV: {error}") from error
    return (rows[0], rows[1:]) if rows else ([], [])


def records(path: Path) -> list[dict[str, str]]:
    """The rows of a table as dicts, without one that a kill has cut short; ValueError: the file is not a CSV."""
    columns, rows = read_table(path)
    return [dict(zip(columns, row, strict=True)) for row in rows if len(row) == len(columns)]
