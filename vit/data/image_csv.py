"""CSV files that list images: common column names, with commas, semicolons or tabs between the columns."""

import csv
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from vit.csv_files import unescape
from vit.data.csv_splits import any_split
from vit.data.dataset_names import TableColumns, is_far
from vit.errors import DataError, UsageError, nearest

if TYPE_CHECKING:
    from vit.data.image_bytes import ImageReader

NAMES = {  # our column -> common names of it, the most specific first
    "path": (
        "path", "file_path", "filepath", "image_path", "img_path", "filename", "file_name", "image_name", "file",
        "image", "img",
    ),
    "labels": ("labels", "tags", "finding_labels"),
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
        note: columns and separator that were recognized, where they are not ours, and columns with one of our names
            that were left out where the others were asked for; else empty.
        others: names of the other columns, where they were asked for.
        other_cells: their cells of each row; "" where a row is too short.
    """

    rows: list[tuple[int, dict[str, str]]]
    note: str
    others: tuple[str, ...] = ()
    other_cells: list[list[str]] = field(default_factory=list)


def given_columns(wanted: TableColumns) -> dict[str, str]:
    """{our column: its name in the file} of columns that are given by name. Some names stand for several labels."""
    labels = "labels" if plain_name(wanted.label or "") in NAMES["labels"] else "label"
    both = {"path": wanted.image, labels: wanted.label}
    return {ours: name for ours, name in both.items() if name is not None}


def column_names(path: Path) -> list[str]:
    """The names in the first line of a CSV. DataError where the file cannot be read."""
    return [name.strip() for name in _header(path, {})]


def columns_of(path: Path, given: Mapping[str, str]) -> tuple[set[str], bool]:
    """Our names of the columns that a CSV has, and whether it has others.

    Args:
        path: the file.
        given: {our column: its name in the file} of columns that are given by name.

    Raises:
        UsageError: a given column does not exist.
        DataError: the file cannot be read.
    """
    header = _header(path, given)
    _check_given(path, header, given)
    found = _columns(header, tuple(NAMES), given)
    return set(found), len(_others(header, found.values())) > 0


def read_image_csv(
    path: Path,
    needed: Sequence[str],
    optional: Sequence[str] = (),
    given: Mapping[str, str] = MappingProxyType({}),
    others: bool = False,
) -> ImageTable:
    """Read a CSV with a header. Cells that our own tables escape are read without the escapes.

    Args:
        path: the file.
        needed: columns that must be there, by our names.
        optional: columns to read where they are there.
        given: {our column: its name in the file} of columns that are given by name. They serve for nothing else.
        others: read the columns that have none of our names, too.

    Raises:
        UsageError: a given column does not exist.
        DataError: a needed column is missing, or the file is not a CSV.
    """
    try:
        _, mark = _sniffed(path, needed, given)
        with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            reader = csv.reader(file, delimiter=mark)
            header = next(reader, [])
            _check_given(path, header, given)
            columns = _columns(header, (*needed, *optional), given)
            _check_once(path, header, columns.values())
            missing = [name for name in needed if name not in columns]
            if missing:
                present = ", ".join(repr(name[:40]) for name in header[:10]) or "none"
                raise DataError(
                    f"{path} lacks the column {' and '.join(missing)}; its columns are {present}",
                    f"the first line must name them: {','.join(needed)}",
                )
            rows: list[tuple[int, dict[str, str]]] = []
            beside = _others(header, columns.values()) if others else {}
            left_out = _left_out(header, columns.values()) if others else []
            other_cells: list[list[str]] = []
            for row in filter(None, reader):
                cells = {name: unescape(row[index]) if index < len(row) else "" for name, index in columns.items()}
                rows.append((reader.line_num, cells))
                if others:
                    other_cells.append([unescape(row[index]) if index < len(row) else "" for index in beside])
    except (csv.Error, OSError) as error:
        raise _not_a_csv(path, needed, error) from error
    renamed = [f"{header[index]!r} as {name}" for name, index in columns.items() if header[index] != name]
    separated = [f"separated by {SEPARATORS[mark]}"] * (mark != ",")
    notes = [f"read {', '.join([*renamed, *separated])}"] if renamed or separated else []
    named = header[columns["split"]] if "split" in columns else "split"
    if plain_name(named) != "split" and not any_split(cells["split"] for _, cells in rows):
        rows = [(line, {name: cell for name, cell in cells.items() if name != "split"}) for line, cells in rows]
        notes.append(f"the column {named!r} is not read: no cell is train, validation or test")
    if left_out:
        names = ", ".join(map(repr, left_out))
        notes.append(f"left out {names}, named like a path, split or group (rename it if it is a label)")
    notes += _other_labels(header, columns, given)
    note = f"{path.name}: {'; '.join(notes)}" if notes else ""
    return ImageTable(rows, note, tuple(unescape(name) for name in beside.values()), other_cells)


class ListedFiles:
    """The files that a table has listed so far: each must exist, and may be listed once.

    All may be addresses on other machines. Whether something is there shows when it is read.

    Args:
        table: the table; paths are relative to its folder.
    """

    def __init__(self, table: Path) -> None:
        self._table = table
        self._line_of: dict[str, int] = {}
        self._are_far = False

    def add(self, file_name: str, line: int) -> None:
        """Check a file.

        Raises:
            DataError: the file is listed twice or is missing, or files and addresses are mixed.
        """
        where = f"{self._table}, line {line}"
        place = file_name if is_far(file_name) else os.path.normpath(self._table.parent / file_name)
        if place in self._line_of:
            raise DataError(f"{where}: {file_name!r} is also in line {self._line_of[place]}", "keep one of the two")
        if not self._line_of:
            self._are_far = is_far(file_name)
        self._line_of[place] = line
        if is_far(file_name) != self._are_far:
            kind = "a file" if self._are_far else "an address"
            raise DataError(
                f"{where}: {file_name!r} is {kind}, and the lines before are not", "list files or addresses, not both"
            )
        if not self._are_far and not (self._table.parent / file_name).is_file():
            raise DataError(
                f"{where}: there is no file {self._table.parent / file_name}", "paths are relative to the CSV"
            )


def place_of(table: Path, file_names: Sequence[str]) -> "tuple[Path | None, ImageReader | None]":
    """The folder of the files that a table lists, or the reader of the addresses that it lists.

    Args:
        table: the table.
        file_names: checked names of its rows.
    """
    if not file_names or not is_far(file_names[0]):
        return table.parent, None
    from vit.data.shards.far import FarImages  # not above: files need no fsspec

    return None, FarImages()


def _header(path: Path, given: Mapping[str, str]) -> list[str]:
    """The cells of the first line. DataError where the file cannot be read."""
    try:
        return _sniffed(path, tuple(NAMES), given)[0]
    except (csv.Error, OSError) as error:
        raise _not_a_csv(path, ("path", "label"), error) from error


def _sniffed(path: Path, wanted: Sequence[str], given: Mapping[str, str]) -> tuple[list[str], str]:
    """The cells of the first line, and the character between them."""
    with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        first = file.readline(MAX_HEADER)
    headers = {mark: next(csv.reader([first], delimiter=mark), []) for mark in SEPARATORS}
    mark = max(SEPARATORS, key=lambda mark: (len(_columns(headers[mark], wanted, given)), len(headers[mark])))
    return headers[mark], mark


def _not_a_csv(path: Path, needed: Sequence[str], error: Exception) -> DataError:
    return DataError(f"{path} is not a CSV: {error}", f"save it as UTF-8 CSV with {','.join(needed)}")


def _columns(header: Sequence[str], wanted: Sequence[str], given: Mapping[str, str]) -> dict[str, int]:
    """{our column: index} for the wanted columns that a header has. Given ones serve for nothing else."""
    places = {name.strip(): i for i, name in enumerate(header)}
    chosen = {ours: places[name] for ours, name in given.items() if name in places}
    indices = {plain_name(name): i for i, name in enumerate(header) if i not in chosen.values()}
    found = {ours: [indices[name] for name in NAMES[ours] if name in indices] for ours in wanted if ours not in given}
    usual = {ours: candidates[0] for ours, candidates in found.items() if candidates}
    return {ours: chosen[ours] if ours in chosen else usual[ours] for ours in wanted if ours in chosen or ours in usual}


def _check_given(path: Path, header: Sequence[str], given: Mapping[str, str]) -> None:
    """Raise UsageError if a column that is given by name does not exist, and DataError if it is there twice."""
    names = [name.strip() for name in header]
    for ours, name in given.items():
        option = "image_column" if ours == "path" else "label_column"
        if name not in names:
            raise UsageError(f"{option} {name!r} is not a column of {path}", nearest(name, names))
        if names.count(name) > 1:
            raise DataError(f"{path} has the column {name!r} twice", "rename one of the two")


def _check_once(path: Path, header: Sequence[str], read: Collection[int]) -> None:
    """Raise DataError if a column that is read has the name of another one."""
    names = [plain_name(name) for name in header]
    for index in read:
        if names.count(names[index]) > 1:
            raise DataError(f"{path} has the column {header[index]!r} twice", "rename one of the two")


def _other_labels(header: Sequence[str], columns: Mapping[str, int], given: Mapping[str, str]) -> list[str]:
    """A note where labels were read, and another column might be the labels, too."""
    chosen = columns.get("label", columns.get("labels"))
    usual = {*NAMES["label"], *NAMES["labels"]}
    others = [repr(name) for i, name in enumerate(header) if plain_name(name) in usual and i != chosen]
    if chosen is None or not others or "label" in given or "labels" in given:
        return []
    return [f"labels are the column {header[chosen]!r}, not {' and '.join(others)} (--data.label_column chooses)"]


def _others(header: Sequence[str], read: Collection[int]) -> dict[int, str]:
    """{index: name} of the columns that have none of our names, and are not read.

    A column without a name is pandas' index.
    """
    ours = {name for names in NAMES.values() for name in names}
    found = ((i, name) for i, name in enumerate(header) if i not in read and not _is_index(name))
    return {i: name for i, name in found if plain_name(name) not in ours}


def _left_out(header: Sequence[str], read: Collection[int]) -> list[str]:
    """Names of the columns that have one of our names and are not read, because another column is read for it."""
    others = _others(header, read)
    return [name for i, name in enumerate(header) if i not in read and i not in others and not _is_index(name)]


def _is_index(name: str) -> bool:
    return not name.strip() or plain_name(name).startswith("unnamed:")


def plain_name(name: str) -> str:
    """The name of a column as `NAMES` spells it: small letters, and "_" for spaces and hyphens."""
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


class ListedGroups:
    """The groups of a table's images; false where no row has one."""

    def __init__(self, table: ImageTable) -> None:
        self._are_given = any(row.get("group", "").strip() for _, row in table.rows)

    def __bool__(self) -> bool:
        return self._are_given

    def of(self, row: Mapping[str, str], where: str) -> str:
        """The group of a row; "" where no row has one. DataError for an empty cell where others have a group."""
        group = row.get("group", "").strip()
        if self._are_given and not group:
            raise DataError(
                f"{where}: an empty group, where other lines have one",
                "fill it in (an image that stands alone has a group of its own), or remove the column",
            )
        return group
