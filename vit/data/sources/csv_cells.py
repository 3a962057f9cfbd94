"""What the cells of a CSV name: splits of images, and files"""

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from vit.console import count_of
from vit.data.core.dataset_names import SPLIT_OF_NAME, SPLIT_OF_WORD, is_far, words_of
from vit.data.core.image_files import has_image_extension, subfolders
from vit.errors import DataError, nearest

MOST_SPLITS = 12  # different cells of a column that may be splits
_THINGS = frozenset(("set", "data", "dataset", "split", "images", "samples"))  # as in "training set"
_OF_WORDS = SPLIT_OF_WORD | {"public": "validation", "private": "test"}  # leaderboards of Kaggle, as in FER2013
_JOINED = {word + end: split for word, split in _OF_WORDS.items() for end in ("", "set")}
_JOINED |= {"publictest": "validation", "privatetest": "test"}
# names of columns of 0 and 1 -> the split that 1 names
_FLAGS = {f"{before}{word}": split for before in ("is_", "in_", "") for word, split in SPLIT_OF_NAME.items()}
_ALSO_OTHER_WORDS = frozenset(("valid", "public", "private", "dev", "eval", "evaluation"))  # unless others stand beside
_NUMBERED = frozenset(("partition", "data_partition", "eval_partition", "set", "subset", "data_split", "split"))
_NUMBERS = frozenset(("0", "1", "2", "0.0", "1.0", "2.0"))
_YES, _NO = frozenset(("1", "1.0", "true", "yes")), frozenset(("0", "0.0", "false", "no"))


def any_split(cells: Iterable[str]) -> bool:
    """Whether cells of a column name a split, or are all empty; numbers of folds do not."""
    texts = {cell.casefold() for cell in cells} - {""}
    return not texts or any(map(_split_named, texts))


def split_of(cell: str, where: str) -> str:
    """The split that a cell names; "train" for an empty one. DataError, which names the place, for an unknown split."""
    split = cell.strip().casefold()
    if split == "calibration":
        fix = "write train there, or remove these lines; --data.calibration cuts such images from the training images"
        raise DataError(f"{where}: split is 'calibration', which DATA cannot have", fix)
    known_split = _split_named(split) if split else "train"
    if known_split is None:
        raise DataError(f"{where}: split is {cell!r}", nearest(split, SPLIT_OF_NAME))
    return known_split


def splits_in(name: str, cells: Iterable[str], where: str, among_labels: bool) -> dict[str, str] | None:
    """{cell: split} where a column of another name holds splits; None where it holds something else.

    DataError where some cells are splits and others are not, or numbers may be splits.

    Args:
        name: name of the column, as `plain_name` spells it.
        among_labels: whether columns of 0 and 1 are labels; then a column called train may be that of trains.
    """
    cells = set(cells)
    if not among_labels:
        refuse_numbers(name, cells, where)
    plain_cells = {cell: cell.strip().casefold() for cell in cells if cell.strip()}
    is_flag = name in _FLAGS and (not among_labels or name not in SPLIT_OF_NAME)
    if is_flag and len(plain_cells) > 1 and set(plain_cells.values()) <= _YES | _NO:
        if _FLAGS[name] == "train":
            fix = "write train, validation or test into a column split"
            raise DataError(f"{where} has 0 and 1: whether 0 is for validation or for test is not known", fix)
        return {cell: _FLAGS[name] if plain in _YES else "train" for cell, plain in plain_cells.items()}
    splits = {cell: split for cell, plain in plain_cells.items() if (split := _split_named(plain))}
    kinds, others = set(splits.values()), sorted(plain_cells.keys() - splits.keys())
    if all(plain_cells[cell] in _ALSO_OTHER_WORDS for cell in splits) or (
        len(kinds) < 2 and (others or len(plain_cells) == len(cells))
    ):
        return None  # a visibility of public and private, a means of transport, or one word for all images
    if others:
        if "train" not in kinds:
            return None
        fix = "write train, validation or test into a column split, and leave out the other lines; or rename the cells"
        raise DataError(f"{where} has the splits {' and '.join(sorted(splits)[:2])}, and also {others[0]!r}", fix)
    return splits


def add_splits(
    path: Path,
    lines: Sequence[int],
    columns: dict[str, list[str]],
    candidates: Iterable[tuple[int, str, list[str]]],
    among_labels: bool,
) -> tuple[int, list[str]]:
    """Add the column "split" where one of the candidates (index, name, cells) holds splits; its index, and a note.

    -1 and no note where none is added. DataError where two columns hold different splits, or one also something else.
    """
    used, note = -1, list[str]()
    for index, name, cells in candidates:
        split_of_cell = splits_in(plain_name(name), set(cells), f"{path}: column {name!r}", among_labels)
        if split_of_cell is None:
            continue
        splits = [split_of_cell.get(cell, "") for cell in cells]
        if "split" not in columns:
            # cells that are not named as vit names splits
            readings = sorted(split_of_cell.items())
            unusual = [f"{cell} is {its}" for cell, its in readings if SPLIT_OF_NAME.get(cell.casefold()) != its]
            of_cells = f" ({', '.join(unusual)})" if unusual else ""
            columns["split"], used, note = splits, index, [f"read {name!r} as split{of_cells}"]
        for line, split, other in zip(lines, splits, columns["split"], strict=True):
            where = f"{path}, line {line}"
            if split != other and split != split_of(other, where):
                both = f"column {name!r} says {split or 'nothing'}, and another column of splits {other or 'nothing'}"
                raise DataError(f"{where}: {both}", "keep one column, and name it split")
    return used, note


def refuse_numbers(name: str, cells: Iterable[str], where: str) -> None:
    """Raise DataError where 0, 1 and 2 of a column called partition may be splits, as in CelebA, or anything else."""
    values = {cell.strip() for cell in cells} - {""}
    if name in _NUMBERED and len(values) > 1 and values <= _NUMBERS:
        fix = "write train, validation or test into a column split; or rename the column if it has another meaning"
        raise DataError(f"{where} has {' and '.join(sorted(values))}: whether these are splits is not known", fix)


def _split_named(cell: str) -> str | None:
    """The split that a cell in small letters names, such as train, training set, val_1 or publictest."""
    return _JOINED.get("".join(word for word in words_of(cell) if word not in _THINGS))


def is_index(name: str) -> bool:
    """Whether a column is the index of pandas, which has no name."""
    return not name.strip() or plain_name(name).startswith("unnamed:")


def plain_name(name: str) -> str:
    """The name of a column as `NAMES` spells it: small letters, and "_" for spaces and hyphens."""
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def _stem(name: str) -> str:
    """The name of a file without the ending of an image."""
    return Path(name).stem if has_image_extension(Path(name)) else name


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
        self._found_in: Counter[str] = Counter()  # folders beside the table, where names lack their folder

    def add(self, file_name: str, line: int) -> str:
        """The name of a file, relative to the table, which may have another spelling than the cell: see `_found`.

        DataError where the file is listed twice or is missing, or files and addresses are mixed.
        """
        where, place = f"{self._table}, line {line}", file_name
        if not is_far(file_name):
            file_name = self._found(file_name, where)
            place = os.path.normpath(self._table.parent / file_name)
        if place in self._line_of:
            raise DataError(f"{where}: {file_name!r} is also in line {self._line_of[place]}", "keep one of the two")
        if not self._line_of:
            self._are_far = is_far(file_name)
        self._line_of[place] = line
        if is_far(file_name) != self._are_far:
            problem = f"{'a file' if self._are_far else 'an address'}, and the lines before are not"
            raise DataError(f"{where}: {file_name!r} is {problem}", "list files or addresses, not both")
        return file_name

    @property
    def notes(self) -> list[str]:
        """Notes on names that were read as others."""
        of_folders = "".join(f"; {count_of(n, 'lies', 'lie')} in {folder}/" for folder, n in self._found_in.items())
        changed = count_of(self._num_changed, "name is read as another one", "names are read as other ones")
        return [f"{self._table.name}: {changed}, {self._change}{of_folders}"] if self._change else []

    def _found(self, name: str, where: str) -> str:
        """The name of the file that a cell means. DataError where there is none, or more than one."""
        folder = self._table.parent
        if os.path.normpath(folder / name) in self._line_of:
            return name
        candidates = self.candidates(name)
        if len(candidates) > 1:
            fix = "write paths from the folder of the CSV, with their ending"
            raise DataError(f"{where}: {name!r} may be {' or '.join(candidates[:2])}", fix)
        if not candidates:
            fix = "paths are relative to the CSV; --image_column names another column of paths"
            stem = _stem(re.split(r"[/\\]", name)[-1])
            if alike := [*self._of_stem(folder).get(stem, ()), *self._beside.get(stem, ())]:
                fix = f"it may be {' or '.join(alike[:2])}: write paths from the folder of the CSV"
            raise DataError(f"{where}: there is no file {folder / name}", fix)
        return candidates[0]

    def candidates(self, name: str) -> list[str]:
        """The files that a cell may mean: also with "/" for "\\", without outer spaces, in NFC or NFD, with endings.

        A name that lacks a folder, and is not beside the table, may be in one of the folders beside it.
        """
        folder = self._table.parent
        if os.path.isfile(folder / name):
            return [name]
        slashed = name.strip().replace("\\", "/")
        spelled = dict.fromkeys([slashed, *(unicodedata.normalize(form, slashed) for form in ("NFC", "NFD"))])
        candidates = [one for one in spelled if os.path.isfile(folder / one)][:1]
        parent, last = os.path.split(slashed)
        if not candidates:
            stem = _stem(last)
            there = [os.path.join(parent, file) for file in self._of_stem(folder / parent).get(stem, ())]
            found = there if there or parent else self._beside.get(stem, [])
            candidates = [file for file in found if stem == last or Path(file).name == last]
        if len(candidates) == 1:
            self._num_changed += 1
            self._change = self._change or f"such as {name!r} as {candidates[0]!r}"
            if not parent and len(its_folders := Path(candidates[0]).parts) > 1:
                self._found_in[its_folders[0]] += 1
        return candidates

    @cached_property
    def _beside(self) -> Mapping[str, list[str]]:
        """{name without its ending: images of that name} of the folders beside the table; read once."""
        names_of: dict[str, list[str]] = defaultdict(list)
        for one in subfolders(self._table.parent, Counter()):
            for stem, names in self._of_stem(self._table.parent / one).items():
                names_of[stem] += [os.path.join(one, name) for name in names]
        return names_of

    def _of_stem(self, folder: Path) -> Mapping[str, list[str]]:
        """{name without its ending: images of that name} of a folder; read once."""
        if folder not in self._stems:
            names_of: dict[str, list[str]] = defaultdict(list)
            for file in sorted(folder.iterdir()) if os.path.isdir(folder) else ():
                if has_image_extension(file):
                    names_of[file.stem].append(file.name)
            self._stems[folder] = names_of
        return self._stems[folder]
