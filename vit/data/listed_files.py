"""Files and groups that a CSV lists: each file is there once, and each image has a group or none has"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.data.dataset_names import is_far
from vit.data.image_csv import ImageTable
from vit.errors import DataError

if TYPE_CHECKING:
    from vit.data.image_bytes import ImageReader


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
