"""Tables that commands write."""

import csv
import os
import re
from pathlib import Path
from typing import Any

from vit.csv_files import records

FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]+\S")


def rows(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows of a CSV file as dicts, unescaped. Names that are not UTF-8 keep their bytes."""
    return records(Path(path))


def formulas(path: Path) -> list[str]:
    """Cells that a spreadsheet computes, with any of the usual delimiters. A number is harmless."""
    found = []
    for delimiter in ",;\t":
        with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
            cells = [cell for row in csv.reader(file, delimiter=delimiter) for cell in row]
        found += [cell for cell in cells if FORMULA.match(cell) and not is_number(cell)]
    return found


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
