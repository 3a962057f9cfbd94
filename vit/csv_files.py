"""CSV files: the one writer and the one reader of every table that this program makes.

A spreadsheet computes a cell that begins like a formula, and names of files and classes may come from anybody. The
writer puts a quote before such text, and the reader takes it off again, so what is read is what was written. Where a
spreadsheet splits at semicolons or tabs instead of commas, a cell may begin inside a text: those places are treated
alike.
https://owasp.org/www-community/attacks/CSV_Injection
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

Cell = str | int | float | None

_BEGINS = r"(?:\A|(?<=[;\t\r\n]))"  # of a cell, in one spreadsheet or another
_FORMULA = r"[ \u00a0\"]*[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n]"
_TO_ESCAPE = re.compile(f"{_BEGINS}(?='*{_FORMULA})")
_ESCAPED = re.compile(f"{_BEGINS}'(?='*{_FORMULA})")


def escape(text: str) -> str:
    """Text that no spreadsheet computes: a quote goes before each formula."""
    return _TO_ESCAPE.sub("'", text)


def unescape(text: str) -> str:
    """The text that `escape` was given."""
    return _ESCAPED.sub("", text)


class TableWriter:
    """Writes rows to a file that was opened by `create` or with the same settings.

    Text is escaped. Numbers are not, for a spreadsheet computes -0.5 to itself.

    Args:
        columns: the first line; none for a file that has one.
        digits: of a float after the point; all that it has by default.
    """

    def __init__(self, file: IO[str], columns: Sequence[str] = (), digits: int | None = None) -> None:
        self._file = file
        self._digits = digits
        self._writer = csv.writer(file)
        if columns:
            self.row(columns)

    def row(self, cells: Iterable[Cell]) -> None:
        """Add a row; None is an empty cell."""
        self._writer.writerow([self._text(cell) for cell in cells])

    def flush(self) -> None:
        """Hand what was written to the system."""
        self._file.flush()

    def _text(self, cell: Cell) -> str:
        if isinstance(cell, float):
            return repr(float(cell)) if self._digits is None else f"{cell:.{self._digits}f}"
        return "" if cell is None else str(cell) if isinstance(cell, int) else escape(cell)


def create(path: Path, mode: str = "w") -> IO[str]:
    """Open a table to be written: line ends as they are given, and bytes of names that are not UTF-8 as they came."""
    return open(path, mode, newline="", encoding="utf-8", errors="surrogateescape")


@contextmanager
def new_table(path: Path, columns: Sequence[str], digits: int | None = None, mode: str = "w") -> Iterator[TableWriter]:
    """A new file with its first line, closed in the end; "x" as `mode` writes over nothing."""
    with create(path, mode) as file:
        yield TableWriter(file, columns, digits)


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """The columns of a table and its rows, as `TableWriter` was given them; a row that a kill cut short is shorter.

    Raises:
        ValueError: the file is not a CSV.
    """
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        try:
            rows = [[unescape(cell) for cell in row] for row in csv.reader(file) if row]
        except csv.Error as error:
            raise ValueError(f"it is not a CSV: {error}") from error
    return (rows[0], rows[1:]) if rows else ([], [])


def records(path: Path) -> list[dict[str, str]]:
    """The whole rows of a table by column; a row of another length was cut short by a kill, and is left out.

    Raises:
        ValueError: the file is not a CSV.
    """
    columns, rows = read_table(path)
    return [dict(zip(columns, row, strict=True)) for row in rows if len(row) == len(columns)]
