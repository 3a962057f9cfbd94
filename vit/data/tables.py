"""CSV tables of images: their columns by any usual name, with commas, semicolons or tabs between them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vit.csv_files import unescape
from vit.errors import DataError

NAMES = {  # our columns -> what others call them, the most telling name first
    "path": (
        "path", "file_path", "filepath", "image_path", "img_path", "filename", "file_name", "image_name", "file",
        "image", "img",
    ),
    "label": ("label", "class", "class_name", "classname", "category", "target", "species"),
    "split": ("split", "set", "subset", "partition", "fold"),
}  # fmt: skip
MAX_HEADER = 1 << 20
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True)
class Table:
    """The rows of a table by our names of columns.

    Attributes:
        rows: (line of the file, {"path", "label" or "split": cell}) of each.
        note: which columns were taken, where their names or separator are not ours; else empty.
    """

    rows: list[tuple[int, dict[str, str]]]
    note: str


def read_table(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Read the columns of a CSV that has a header; our own tables, which escape formulas, are read as they were.

    Raises:
        DataError: a needed column is not there, or the file is not a CSV.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            first = file.readline(MAX_HEADER)
            headers = {mark: next(csv.reader([first], delimiter=mark), []) for mark in SEPARATORS}
            mark = max(SEPARATORS, key=lambda mark: (len(_found(headers[mark], needed)), len(headers[mark])))
            file.seek(0)
            reader = csv.reader(file, delimiter=mark)
            header = next(reader, [])
            columns = _found(header, (*needed, *optional))
            missing = [name for name in needed if name not in columns]
            if missing:
                there = ", ".join(repr(name[:40]) for name in header[:10]) or "none"
                raise DataError(
                    f"{path} lacks the column {' and '.join(missing)}; its columns are {there}",
                    f"the first line must name them: {','.join(needed)}",
                )
            rows = [
                (
                    reader.line_num,
                    {name: unescape(row[place]) if place < len(row) else "" for name, place in columns.items()},
                )
                for row in reader
                if row
            ]
    except (csv.Error, OSError) as error:
        raise DataError(f"{path} is not a CSV: {error}", f"save it as UTF-8 CSV with {','.join(needed)}") from error
    taken = [f"{header[place]!r} as {name}" for name, place in columns.items() if header[place] != name]
    between = [f"separated by {SEPARATORS[mark]}"] * (mark != ",")
    return Table(rows, f"{path.name}: read {', '.join([*taken, *between])}" if taken or between else "")


def _found(header: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    """{our name: place} of the columns that a header has."""
    places = {name.strip().casefold().replace(" ", "_").replace("-", "_"): i for i, name in enumerate(header)}
    found = {ours: [places[name] for name in NAMES[ours] if name in places] for ours in wanted}
    return {ours: there[0] for ours, there in found.items() if there}
