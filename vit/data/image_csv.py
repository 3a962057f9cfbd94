"""CSV files that list images: common column names, with commas, semicolons or tabs between the columns."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vit.csv_files import unescape
from vit.errors import DataError

NAMES = {  # our column -> common names of it, the most specific first
    "path": (
        "path", "file_path", "filepath", "image_path", "img_path", "filename", "file_name", "image_name", "file",
        "image", "img",
    ),
    "label": ("label", "class", "class_name", "classname", "category", "target", "species"),
    "split": ("split", "set", "subset", "partition", "fold"),
    "group": ("group", "group_id", "patient", "patient_id", "subject", "subject_id"),
}  # fmt: skip
MAX_HEADER = 1 << 20  # characters
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True)
class ImageTable:
    """The rows of a CSV under our column names.

    Attributes:
        rows: line number, and {"path", "label", "split" or "group": cell}, of each row.
        note: columns and separator that were recognized, where they are not ours; else empty.
    """

    rows: list[tuple[int, dict[str, str]]]
    note: str


def read_image_csv(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> ImageTable:
    """Read a CSV with a header. Cells that our own tables escape are read without the escapes.

    Args:
        path: the file.
        needed: columns that must be there, by our names.
        optional: columns to read where they are there.

    Raises:
        DataError: a needed column is missing, or the file is not a CSV.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            first = file.readline(MAX_HEADER)
            headers = {mark: next(csv.reader([first], delimiter=mark), []) for mark in SEPARATORS}
            mark = max(SEPARATORS, key=lambda mark: (len(_columns(headers[mark], needed)), len(headers[mark])))
            file.seek(0)
            reader = csv.reader(file, delimiter=mark)
            header = next(reader, [])
            columns = _columns(header, (*needed, *optional))
            missing = [name for name in needed if name not in columns]
            if missing:
                present = ", ".join(repr(name[:40]) for name in header[:10]) or "none"
                raise DataError(
                    f"{path} lacks the column {' and '.join(missing)}; its columns are {present}",
                    f"the first line must name them: {','.join(needed)}",
                )
            rows = [
                (
                    reader.line_num,
                    {name: unescape(row[index]) if index < len(row) else "" for name, index in columns.items()},
                )
                for row in reader
                if row
            ]
    except (csv.Error, OSError) as error:
        raise DataError(f"{path} is not a CSV: {error}", f"save it as UTF-8 CSV with {','.join(needed)}") from error
    renamed = [f"{header[index]!r} as {name}" for name, index in columns.items() if header[index] != name]
    separated = [f"separated by {SEPARATORS[mark]}"] * (mark != ",")
    note = f"{path.name}: read {', '.join([*renamed, *separated])}" if renamed or separated else ""
    return ImageTable(rows, note)


def _columns(header: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    """{our column: index} for the wanted columns that a header has."""
    indices = {name.strip().casefold().replace(" ", "_").replace("-", "_"): i for i, name in enumerate(header)}
    found = {ours: [indices[name] for name in NAMES[ours] if name in indices] for ours in wanted}
    return {ours: candidates[0] for ours, candidates in found.items() if candidates}
