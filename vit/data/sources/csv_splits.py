"""The column of a CSV that says which images are for training, validation and testing"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vit.data.core.dataset_names import SPLIT_OF_NAME, SPLIT_OF_WORD, words_of
from vit.errors import DataError, nearest

MOST_SPLITS = 12  # different cells of a column that may be splits
_OF_WORDS = SPLIT_OF_WORD | {"public": "validation", "private": "test"}  # leaderboards of Kaggle, as in FER2013
_THINGS = frozenset(("set", "data", "dataset", "split", "images", "samples"))  # as in "training set"
_JOINED = {word + end: split for word, split in _OF_WORDS.items() for end in ("", "set")} | {
    "publictest": "validation",
    "privatetest": "test",
}
_FLAGS = {  # names of columns of 0 and 1 -> the split that 1 names
    f"{before}{word}": split for before in ("is_", "in_", "") for word, split in SPLIT_OF_NAME.items()
}
_ALSO_OTHER_WORDS = frozenset(("valid", "public", "private", "dev", "eval", "evaluation"))  # unless others stand beside
_NUMBERED = frozenset(("partition", "data_partition", "eval_partition", "set", "subset", "data_split", "split"))
_NUMBERS = frozenset(("0", "1", "2", "0.0", "1.0", "2.0"))
_YES, _NO = frozenset(("1", "1.0", "true", "yes")), frozenset(("0", "0.0", "false", "no"))


def any_split(cells: Iterable[str]) -> bool:
    """Whether cells of a column name a split, or are all empty; numbers of folds do not."""
    given = {cell.casefold() for cell in cells} - {""}
    return not given or any(_split_named(cell) for cell in given)


def split_of(cell: str, where: str) -> str:
    """The split that a cell names; "train" for an empty one. DataError, which names the place, for an unknown split."""
    split = cell.strip().casefold()
    if split == "calibration":
        raise DataError(
            f"{where}: split is 'calibration', which DATA cannot have",
            "write train there, or remove these lines; --data.calibration cuts such images from the training images",
        )
    found = _split_named(split) if split else "train"
    if found is None:
        raise DataError(f"{where}: split is {cell!r}", nearest(split, SPLIT_OF_NAME))
    return found


def splits_in(name: str, cells: Iterable[str], where: str, among_labels: bool) -> dict[str, str] | None:
    """{cell: split} where a column of another name holds splits; None where it holds something else.

    Args:
        name: name of the column, as `plain_name` spells it.
        cells: the different cells of the column.
        where: file and column that an error names.
        among_labels: whether columns of 0 and 1 are labels; then a column called train may be that of trains.

    Raises:
        DataError: some cells are splits, and others are not; or numbers may be splits.
    """
    cells = set(cells)
    if not among_labels:
        refuse_numbers(name, cells, where)
    given = {cell: cell.strip().casefold() for cell in cells if cell.strip()}
    is_flag = name in _FLAGS and (not among_labels or name not in SPLIT_OF_NAME)
    if is_flag and len(given) > 1 and set(given.values()) <= _YES | _NO:
        if _FLAGS[name] == "train":
            fix = "write train, validation or test into a column split"
            raise DataError(f"{where} has 0 and 1: whether 0 is for validation or for test is not known", fix)
        return {cell: _FLAGS[name] if plain in _YES else "train" for cell, plain in given.items()}
    found = {cell: split for cell, plain in given.items() if (split := _split_named(plain))}
    kinds, others = set(found.values()), sorted(given.keys() - found.keys())
    if all(given[cell] in _ALSO_OTHER_WORDS for cell in found) or (
        len(kinds) < 2 and (others or len(given) == len(cells))
    ):
        return None  # a visibility of public and private, a means of transport, or one word for all images
    if others:
        if "train" not in kinds:
            return None
        fix = "write train, validation or test into a column split, and leave out the other lines; or rename the cells"
        raise DataError(f"{where} has the splits {' and '.join(sorted(found)[:2])}, and also {others[0]!r}", fix)
    return found


def add_splits(
    path: Path,
    lines: Sequence[int],
    columns: dict[str, list[str]],
    candidates: Iterable[tuple[int, str, list[str]]],
    among_labels: bool,
) -> tuple[int, list[str]]:
    """Add the column "split" where one of the candidates (index, name, cells) holds splits; its index, and a note.

    -1 and no note where the column is there already, or no candidate holds splits. DataError where two columns hold
    different splits, or one holds splits and something else.
    """
    used, note = -1, list[str]()
    for index, name, cells in candidates:
        split_of_cell = splits_in(plain_name(name), set(cells), f"{path}: column {name!r}", among_labels)
        if split_of_cell is None:
            continue
        splits = [split_of_cell.get(cell, "") for cell in cells]
        if "split" not in columns:
            columns["split"], used, note = splits, index, [f"read {name!r} as split{_describe(split_of_cell)}"]
        for line, split, other in zip(lines, splits, columns["split"], strict=True):
            where = f"{path}, line {line}"
            if split != other and split != split_of(other, where):
                raise DataError(
                    f"{where}: column {name!r} says {split or 'nothing'}, and another column of splits "
                    f"{other or 'nothing'}", "keep one column, and name it split",
                )  # fmt: skip
    return used, note


def refuse_numbers(name: str, cells: Iterable[str], where: str) -> None:
    """Raise DataError where 0, 1 and 2 of a column called partition may be splits, as in CelebA, or anything else."""
    given = {cell.strip() for cell in cells} - {""}
    if name in _NUMBERED and len(given) > 1 and given <= _NUMBERS:
        raise DataError(
            f"{where} has {' and '.join(sorted(given))}: whether these are splits is not known",
            "write train, validation or test into a column split; or rename the column if it has another meaning",
        )


def _describe(found: Mapping[str, str]) -> str:
    """Cells that are not named as vit names splits, with their splits; "" where there are none."""
    others = [
        f"{cell} is {split}" for cell, split in sorted(found.items()) if SPLIT_OF_NAME.get(cell.casefold()) != split
    ]
    return f" ({', '.join(others)})" if others else ""


def _split_named(cell: str) -> str | None:
    """The split that a cell in small letters names, such as train, training set, val_1 or publictest."""
    return _JOINED.get("".join(word for word in words_of(cell) if word not in _THINGS))


def is_index(name: str) -> bool:
    """Whether a column is the index of pandas, which has no name."""
    return not name.strip() or plain_name(name).startswith("unnamed:")


def plain_name(name: str) -> str:
    """The name of a column as `NAMES` spells it: small letters, and "_" for spaces and hyphens."""
    return name.strip().casefold().replace(" ", "_").replace("-", "_")
