"""Files, groups and splits that a CSV lists: each file is there once, and each image has a group or none has"""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, NoReturn, TypeVar

from vit.data.core.dataset_names import is_far
from vit.data.core.formats import has_image_extension
from vit.data.core.image_bytes import ImageReader, address_reader
from vit.data.core.image_files import subfolders
from vit.data.core.samples import Source, label_files
from vit.data.sources.csv_splits import split_of
from vit.data.sources.image_csv import CsvTable
from vit.errors import DataError


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
        self._stems: dict[Path, dict[str, list[str]]] = {}
        self._num_changed, self._change = 0, ""

    def add(self, file_name: str, line: int) -> str:
        """The name of a file, relative to the table, which may have another spelling than the cell: see `_found`.

        Raises:
            DataError: the file is listed twice or is missing, or files and addresses are mixed.
        """
        where = f"{self._table}, line {line}"
        file_name = file_name if is_far(file_name) else self._found(file_name, where)
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
        return file_name

    @property
    def notes(self) -> list[str]:
        """Notes on names that were read as others."""
        return [f"{self._table.name}: {self._num_changed:,} {self._change}"] if self._change else []

    def _found(self, name: str, where: str) -> str:
        """The name of the file that a cell means. DataError where there is none, or more than one.

        A name that is missing may have spaces around it, "\\" of Windows, another Unicode form, or lack its ending.
        """
        folder = self._table.parent
        if (folder / name).is_file() or os.path.normpath(folder / name) in self._line_of:
            return name
        slashed = name.strip().replace("\\", "/")
        spelled = dict.fromkeys([slashed, *(unicodedata.normalize(form, slashed) for form in ("NFC", "NFD"))])
        candidates = [one for one in spelled if (folder / one).is_file()][:1]
        if not candidates and not has_image_extension(Path(name)):
            parent, stem = os.path.split(slashed)
            candidates = [os.path.join(parent, other) for other in self._of_stem(folder / parent).get(stem, ())]
        if len(candidates) > 1:
            raise DataError(f"{where}: {name!r} may be {' or '.join(candidates[:2])}", "write the ending")
        if not candidates:
            self._raise_missing(name, where)
        self._num_changed += 1
        self._change = self._change or f"names are read as other ones, such as {name!r} as {candidates[0]!r}"
        return candidates[0]

    def _of_stem(self, folder: Path) -> Mapping[str, list[str]]:
        """{name without its ending: images of that name} of a folder; read once."""
        if folder not in self._stems:
            found: dict[str, list[str]] = {}
            for other in sorted(os.listdir(folder)) if folder.is_dir() else ():
                if has_image_extension(Path(other)):
                    found.setdefault(Path(other).stem, []).append(other)
            self._stems[folder] = found
        return self._stems[folder]

    def _raise_missing(self, name: str, where: str) -> NoReturn:
        folder, last = self._table.parent, re.split(r"[/\\]", name)[-1]
        fix = "paths are relative to the CSV; --data.image_column names another column of paths"
        holding = [
            inside
            for inside in subfolders(folder, Counter())
            if last and ((folder / inside / last).is_file() or last in self._of_stem(folder / inside))
        ]
        if holding:
            where_else = " and in ".join(str(folder / inside) for inside in holding)
            which = f"{holding[0]}/" if len(holding) == 1 else "the right folder"
            fix = f"it lies in {where_else}: move the CSV there, or write {which} before the names"
        raise DataError(f"{where}: there is no file {folder / name}", fix)


def place_of(table: Path, file_names: Sequence[str]) -> tuple[Path | None, ImageReader | None]:
    """The folder of the files that a table lists, or the reader of the addresses that it lists.

    Args:
        file_names: checked names of its rows.
    """
    if not file_names or not is_far(file_names[0]):
        return table.parent, None
    return None, address_reader()


class ListedGroups:
    """The groups of a table's images; false where no row has one."""

    def __init__(self, table: CsvTable) -> None:
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


_T = TypeVar("_T", str, dict[str, int])


class ListedRow(NamedTuple, Generic[_T]):
    """One image: its line, its path, its class or {label: 1 present, 0 absent, -1 unknown}, and its group, or ""."""

    line: int
    path: str
    labels: _T
    group: str


def rows_by_split(
    path: Path, table: CsvTable, labels: Sequence[_T], to_measure: bool, notes: list[str]
) -> dict[str, list[ListedRow[_T]]]:
    """{split: rows}, with every file looked for.

    Args:
        labels: labels of each row.
        to_measure: as for `open_source`.
        notes: notes on names of files are added to it.

    Raises:
        DataError: a row is wrong, a file is missing, or there are no training images.
    """
    rows: dict[str, list[ListedRow[_T]]] = {"train": []}
    files, groups = ListedFiles(path), ListedGroups(table)
    for (line, cells), one in zip(table.rows, labels, strict=True):
        where = f"{path}, line {line}"
        split = split_of(cells, where)
        if not cells["path"]:
            raise DataError(f"{where}: an empty path", "fill it in or remove the line")
        name = files.add(cells["path"], line)
        rows.setdefault(split, []).append(ListedRow(line, name, one, groups.of(cells, where)))
    notes += files.notes
    empty = sum(not cells.get("split", "").strip() for _, cells in table.rows)
    if 0 < empty < len(table.rows):
        notes.append(
            f"{path.name}: lines with an empty split are training images ({empty:,} of {len(table.rows):,} lines)"
        )
    if not rows["train"] and not to_measure:
        raise DataError(f"{path} has no training images", "leave split empty or write train")
    return rows


def source_of_classes(
    path: Path,
    rows: Mapping[str, Sequence[ListedRow[str]]],
    names: Sequence[str] | None,
    notes: list[str],
    to_measure: bool,
    is_one_hot: bool = False,
) -> Source:
    """The source of rows with one class each.

    Args:
        rows: {split: rows}.
        names: the classes; None: those of the training images, or of all images that are only measured.
        notes, is_one_hot: as of a `Source`.
        to_measure: as for `open_source`.

    Raises:
        DataError: there are no training images.
    """
    defining = rows.values() if to_measure else [rows["train"]]
    class_names = tuple(sorted(names or {row.labels for listed in defining for row in listed}))
    if not class_names:
        raise DataError(f"{path} has no training images", "leave split empty or write train")
    root, reader = place_of(path, [row.path for listed in rows.values() for row in listed[:1]])
    splits = {}
    for split, listed in rows.items():
        groups = [row.group for row in listed]
        pairs = [(row.path, row.labels) for row in listed]
        splits[split] = label_files(root, pairs, class_names, str(path), groups if any(groups) else None, reader)
    return Source(path.stem, class_names, splits, notes, is_one_hot=is_one_hot)
