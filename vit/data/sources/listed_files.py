"""Names of files in a CSV -> files: each must be there, and may be listed once"""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from vit.data.core.dataset_names import is_far
from vit.data.core.formats import has_image_extension
from vit.data.core.image_files import subfolders
from vit.errors import DataError


class ListedFiles:
    """The files that a table has listed so far: each must exist, and may be listed once.

    All may be addresses on other machines. Whether something is there shows when it is read.
    """

    def __init__(self, table: Path) -> None:
        self._table = table  # paths are relative to its folder
        self._line_of: dict[str, int] = {}
        self._are_far = False
        self._stems: dict[Path, dict[str, list[str]]] = {}
        self._num_changed, self._change = 0, ""

    def add(self, file_name: str, line: int) -> str:
        """The name of a file, relative to the table, which may have another spelling than the cell: see `_found`.

        DataError where the file is listed twice or is missing, or files and addresses are mixed.
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
            fix = "paths are relative to the CSV; --data.image_column names another column of paths"
            last = re.split(r"[/\\]", name)[-1]
            holding = [
                inside
                for inside in subfolders(folder, Counter())
                if last and ((folder / inside / last).is_file() or last in self._of_stem(folder / inside))
            ]
            if holding:
                elsewhere = " and in ".join(str(folder / inside) for inside in holding)
                which = f"{holding[0]}/" if len(holding) == 1 else "the right folder"
                fix = f"it lies in {elsewhere}: move the CSV there, or write {which} before the names"
            raise DataError(f"{where}: there is no file {folder / name}", fix)
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
