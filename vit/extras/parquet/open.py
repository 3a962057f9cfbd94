"""DATA that is read through parquet -> a source: an index of shards, or tables with images on this machine

The names of the files say which split they hold, as Hugging Face names them:

name                             split
train-00000-of-00004.parquet     the word before the number; all four files must be there
train/0000.parquet               the folder, as in the hub's branch of converted data sets
photos_test_2.parquet            the last of the usual words in the path
photos.parquet                   train, if no file names a split; else left out

A split that is not for training, validation or test, such as `unlabeled`, is left out with a note.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from vit.data.core.dataset_names import (
    INDEX_NAME,
    SPLIT_OF_WORD,
    TableColumns,
    is_far,
    last_split,
    parquet_names,
    words_of,
)
from vit.data.core.samples import Source
from vit.errors import DataError
from vit.extras.parquet.rows import TableFile
from vit.extras.parquet.source import ParquetFiles, list_tables, read_tables
from vit.extras.shards.source import read_index_source

PARTIAL = "partial-"  # begins the folder of a split of which the hub has converted only the first part
_NUMBERED = re.compile(r"(?P<name>.*)-(?P<number>[0-9]{5})-of-(?P<total>[0-9]{5})(-[0-9a-f]{8,})?")
_OF_FOLDER = re.compile(r"[0-9]{4,}")


def files_of_splits(
    names: Sequence[str], where: str, titles: Mapping[str, str] | None = None, needs_train: bool = True
) -> tuple[dict[str, list[str]], list[str]]:
    """The files of each split, and notes on those of others.

    DataError where files are missing, a split has two names, or there are no training images.

    Args:
        names: paths of the files relative to their folder, with "/" between the parts; at least one.
        where: the folder, for errors.
        titles: {file: name of its split}, where something else than the names of the files says it.
        needs_train: whether there must be training images.
    """
    _check_numbers(names, where)
    stated = {name: _stated(name) if titles is None else titles[name] for name in names}
    for name, title_of_file in stated.items():
        if title_of_file is not None and title_of_file.startswith(PARTIAL):
            problem = f"{where} has only the first part of {title_of_file.removeprefix(PARTIAL)}: {name}"
            raise DataError(problem, "give the files of the data set itself, for example in a folder")
    split_of = {name: last_split(name) for name in names}
    for name, title_of_file in stated.items():
        if title_of_file is not None:  # its last word counts, so that `train_extra` is not train
            split_of[name] = SPLIT_OF_WORD.get("".join(words_of(title_of_file)[-1:]))
    if not any(split_of.values()):
        return {"train": sorted(names)}, []
    files: dict[str, list[str]] = {}
    for split in ("train", "validation", "test"):
        split_files = sorted(name for name in names if split_of[name] == split)
        split_titles = sorted({title_of_file for name in split_files if (title_of_file := stated[name]) is not None})
        if len(split_titles) > 1:
            problem = f"{where} has {' and '.join(split_titles[:3])}, both for {split}"
            raise DataError(problem, "give a folder with one of them")
        if split_files:
            files[split] = split_files
    if "train" not in files and (needs_train or not files):
        problem = f"{where} has {', '.join(files)} but no training images"
        raise DataError(problem, "name the files of the training images train")
    others = Counter(stated[name] or PurePosixPath(name).stem for name in sorted(names) if split_of[name] is None)
    notes = [
        f"left out {title} ({count} file{'s' * (count != 1)}): it is not named train, validation or test"
        for title, count in others.items()
    ]
    return files, notes


def is_split_name(name: str) -> bool:
    """Whether a folder of this name holds a split."""
    return name.casefold().removeprefix(PARTIAL) in SPLIT_OF_WORD


def _stated(name: str) -> str | None:
    """The name of a split that a file's name or folder states; None for free names."""
    path = PurePosixPath(name)
    if match := _NUMBERED.fullmatch(path.stem):
        return match["name"]
    return path.parent.name or None if _OF_FOLDER.fullmatch(path.stem) else None


def _check_numbers(names: Sequence[str], where: str) -> None:
    """Raise DataError where a file of `-00000-of-00004` is missing."""
    numbers_of: dict[tuple[str, str, int], set[int]] = {}
    for name in names:
        path = PurePosixPath(name)
        if match := _NUMBERED.fullmatch(path.stem):
            key = str(path.parent), match["name"], int(match["total"])
            numbers_of.setdefault(key, set()).add(int(match["number"]))
    for (_, title, total), numbers in numbers_of.items():
        missing = sorted(set(range(total)) - numbers)
        if missing or max(numbers) >= total:
            raise DataError(
                f"{where} has {len(numbers):,} of {total} files of {title}"
                + (f"; {title}-{missing[0]:05d}-of-{total:05d} is missing" if missing else ""),
                "restore the missing files, or rename the others if this part is wanted",
            )


def open_source(data: str, columns: TableColumns, needs_train: bool) -> Source:
    """List the images of an index of shards, or of tables, with their labels; see `TableSource`."""
    tables = _tables(data, needs_train)
    return _shards(data, columns, needs_train) if tables is None else read_tables(tables, columns, needs_train)


def list_images(data: str, columns: TableColumns) -> Source:
    """List the images of an index of shards, or of tables that need no labels. No split is needed."""
    tables = _tables(data, needs_train=False)
    return _shards(data, columns, needs_train=False) if tables is None else list_tables(tables, columns)


def has_columns(data: str) -> bool:
    """Whether DATA is not an index of shards."""
    return _tables(data, needs_train=False) is not None


def _shards(data: str, columns: TableColumns, needs_train: bool) -> Source:
    source = read_index_source(data, needs_train)
    columns.refuse(data)  # not before: the address of a table has an error of its own
    return source


def _tables(data: str, needs_train: bool) -> ParquetFiles | None:
    """The tables of DATA; None for an index of shards, as every address is."""
    path = Path(data).expanduser()
    if is_far(data) or (path / INDEX_NAME).is_file():
        return None
    if path.is_dir():
        named, notes = files_of_splits(parquet_names(path), str(path), needs_train=needs_train)
        splits = {split: {one: TableFile(path / one) for one in own} for split, own in named.items()}
        return ParquetFiles(path.resolve().name, str(path), splits, notes)
    file = TableFile(path)
    with file.opened() as table:
        if {"key", "shard", "offset", "length"} <= set(table.schema_arrow.names):
            return None
    match = _NUMBERED.fullmatch(path.stem)
    count = int(match["total"]) if match else 1
    notes = [f"{path.name} is one of {count:,} files; give their folder for all images"] if count > 1 else []
    return ParquetFiles(path.stem, data, {"train": {path.stem: file}}, notes)
