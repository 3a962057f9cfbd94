"""Parquet tables with images -> a source"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from vit.data.core.dataset_names import SPLIT_OF_NAME, TableColumns
from vit.data.core.samples import Samples, Source, label_files
from vit.data.sources.csv_cells import MOST_SPLITS, plain_name, splits_in
from vit.errors import DataError, nearest
from vit.extras.parquet.columns import ChosenColumns, check_bars, choose_columns, column_notes
from vit.extras.parquet.files import TableFile, column_ranges, opened
from vit.extras.parquet.rows import ImageTable, TableReader
from vit.tasks.label_text import clean_label, sorted_classes

_NAME_CHARACTERS = 255  # of an image's own name in its key
_NO_CLASS = -1  # that Hugging Face writes for a ClassLabel that is not known
_DIGITS = 6  # of a row in a key
_SPLIT_BYTES = 64  # of a cell, at most, in a column that may hold splits: captions are not read


@dataclass(frozen=True)
class ParquetFiles:
    """The files of a data set."""

    name: str  # name of the data set
    where: str  # folder, address or name of the data set, for errors
    # {split: name and file of each table}. Names are relative, without ".parquet", and unique.
    splits: dict[str, list[tuple[str, TableFile]]]
    notes: list[str]  # messages for the user
    are_far: bool = False  # whether the files are on other machines
    has_named_splits: bool = False  # whether the names of the files decide the splits
    origin: str | None = None  # DATA with the revision of the hub that was read; None for other places


class _Row(NamedTuple):
    """One row: its key, its place for errors, its label, split and group; None or "" where it has none."""

    key: str
    where: str
    label: str | None
    split: str
    group: str | None


@dataclass(frozen=True)
class _Table:
    """A table without its images: how it is read, and its rows."""

    columns: ChosenColumns
    images: ImageTable
    rows: list[_Row]


def read_tables(files: ParquetFiles, columns: TableColumns, needs_train: bool = True) -> Source:
    """List the images of parquet tables.

    Args:
        columns: columns that are given by name.
        needs_train: whether there must be training images, which then define the classes.

    Raises:
        UsageError: a given column does not exist.
        DataError: a table cannot be read, columns cannot be chosen, or a row has no label.
    """
    rows = {
        split: [_read(name, file, columns, True) for name, file in tables] for split, tables in files.splits.items()
    }
    every = [one for tables in rows.values() for one in tables]
    _check_alike(every)
    if not files.has_named_splits:
        for one in every:
            _refuse_unread_splits(one)
    reader = _reader(every, files.are_far)
    by_split = rows if files.has_named_splits else {"train": every}
    listed = _listed(by_split, files.has_named_splits)
    defining = listed["train"] if needs_train else [row for part in listed.values() for row in part]
    class_names = every[0].columns.class_names or _class_names(defining, files.where, needs_train)
    check_bars(every[0].columns, class_names, columns.label is not None, files.where)
    notes = [*files.notes, *column_notes(every[0].columns, class_names, files.has_named_splits), *reader.size_notes]
    splits = {}
    for split, part in listed.items():
        unlabeled = [row.where for row in part if row.label is None]
        if unlabeled and len(unlabeled) == len(part) and not (split == "train" and needs_train):
            notes.append(f"left out {split}: none of its {len(part):,} images has a label")
            continue
        if unlabeled:
            raise DataError(
                f"{unlabeled[0]} has no label ({len(unlabeled):,} of {len(part):,} {split} images have none)",
                "fill it in or remove the row",
            )
        pairs = [(row.key, row.label or "") for row in part]
        splits[split] = label_files(None, pairs, class_names, files.where, _groups(part), reader)
    return Source(files.name, class_names, splits, notes, files.origin)


def list_tables(files: ParquetFiles, columns: TableColumns) -> Source:
    """The images of parquet tables, whatever their labels: a source without class names, whose splits have labels -1.

    Raises:
        UsageError: a given column does not exist.
        DataError: a table cannot be read, or has no column of images.
    """
    rows = {
        split: [_read(name, file, columns, False) for name, file in tables] for split, tables in files.splits.items()
    }
    every = [one for tables in rows.values() for one in tables]
    reader = _reader(every, files.are_far)
    splits = {}
    for split, tables in rows.items():
        keys = [row.key for one in tables for row in one.rows]
        splits[split] = Samples(keys, np.full(len(keys), -1, dtype=np.int64), reader=reader)
    return Source(files.name, (), splits, list(files.notes), files.origin)


def _read(name: str, file: TableFile, wanted: TableColumns, needs_label: bool) -> _Table:
    """Read the footer of a table, and all columns but the images."""
    with opened(file) as table:
        metadata, schema = table.metadata, table.schema_arrow
        columns = choose_columns(schema, wanted, file.where, needs_label)
        small = list(filter(None, (columns.name_path, columns.label, columns.split, columns.group)))
        group_rows, group_bytes = _groups_of(metadata, columns.bytes_path)
        ranges = column_ranges(metadata, small)
    num_rows = sum(group_rows)
    found: dict[str, list[Any]] = {}
    if small and num_rows:
        with opened(file, ranges) as table:
            read = table.read(columns=small, use_threads=False)
            for path in small:
                found[path] = _values(read, path)
    nothing: list[Any] = [None] * num_rows
    names, labels, splits, groups = (
        found.get(path or "", nothing) for path in (columns.name_path, columns.label, columns.split, columns.group)
    )
    rows = [
        _Row(
            _key(name, row, names[row]),
            f"{file.where}, row {row}",
            _label_name(labels[row], columns, f"{file.where}, row {row}"),
            "" if splits[row] is None else str(splits[row]).casefold(),
            _group_name(groups[row]),
        )
        for row in range(num_rows)
    ]
    return _Table(columns, ImageTable(file, columns.bytes_path, group_rows, group_bytes), rows)


def _group_name(value: object) -> str | None:
    """The group in a cell; None where it is empty, or not a number."""
    return None if value is None or value != value else str(value).strip() or None


def _values(table: Any, path: str) -> list[Any]:
    """The values of a column, or of the field `path` of a struct."""
    import pyarrow as pa

    if path in table.column_names:
        column = table.column(path)
    else:
        column = table.column(path.rpartition(".")[0])
        column = pa.chunked_array([chunk.field("path") for chunk in column.chunks], column.type.field("path").type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return list(column.to_pylist())


def _groups_of(metadata: Any, column: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Number of rows, and of bytes of the images, in each row group."""
    rows, sizes = [], []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(place) for place in range(group.num_columns)]
        rows.append(group.num_rows)
        sizes.append(sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == column))
    return tuple(rows), tuple(sizes)


def _key(name: str, row: int, own: str | None) -> str:
    """The key of a row: table, row, and the image's own name for people and for --data.groups."""
    last = PurePosixPath(own.replace("\\", "/")).name[:_NAME_CHARACTERS] if own else ""
    return f"{name}/{row:0{_DIGITS}d}" + (f"/{last}" if last else "")


def _label_name(value: Any, columns: ChosenColumns, where: str) -> str | None:
    """The class name in a cell; None where it has none."""
    names = columns.class_names
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if names is None:
        return clean_label(str(value))
    if isinstance(value, str):
        return value
    if value == _NO_CLASS:
        return None
    if not 0 <= value < len(names):
        raise DataError(
            f"{where}: the label is {value}, and {columns.label!r} has {len(names)} class names",
            "correct the row, or get the file again",
        )
    return names[value]


def _check_alike(tables: Sequence[_Table]) -> None:
    """Raise DataError where two tables of a data set have other columns or class names."""
    first = tables[0]
    for other in tables[1:]:
        for what, one, two in (
            ("column of images", first.columns.image, other.columns.image),
            ("column of labels", first.columns.label, other.columns.label),
            ("class names", first.columns.class_names, other.columns.class_names),
        ):
            if one != two:
                raise DataError(
                    f"{first.images.file.where} and {other.images.file.where} have another {what}",
                    "give tables of one data set",
                )


def _refuse_unread_splits(table: _Table) -> None:
    """Raise DataError where a column that is not read says which images are for training and for testing."""
    for name in table.columns.may_split if table.columns.split is None else ():
        cells: set[str] = set()
        with opened(table.images.file) as parquet:
            if _bytes_per_row(parquet.metadata, name) > _SPLIT_BYTES:
                continue
            for batch in parquet.iter_batches(columns=[name]):
                cells |= {"" if value is None else str(value) for value in batch.column(0).unique().to_pylist()}
                if len(cells) > MOST_SPLITS:
                    break
        where = f"{table.images.file.where}: column {name!r}"
        if len(cells) <= MOST_SPLITS and (found := splits_in(plain_name(name), cells, where, among_labels=False)):
            says = ", ".join(f"{cell} is {split}" for cell, split in sorted(found.items()))
            raise DataError(f"{where} names splits ({says}), and is not read", "name the column split, or leave it out")


def _bytes_per_row(metadata: Any, column: str) -> float:
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema == column)
    return size / max(1, metadata.num_rows)


def _reader(tables: Sequence[_Table], are_far: bool) -> TableReader:
    keys = [row.key for one in tables for row in one.rows]
    return TableReader([one.images for one in tables], keys, are_far)


def _listed(by_split: dict[str, list[_Table]], has_named_splits: bool) -> dict[str, list[_Row]]:
    """The rows of each split: of the files that are named so, or by the column `split`."""
    known = SPLIT_OF_NAME | {"": "train"}
    listed: dict[str, list[_Row]] = {split: [] for split in by_split}
    for split, tables in by_split.items():
        for row in (row for one in tables for row in one.rows):
            if not has_named_splits and row.split not in known:
                raise DataError(f"{row.where}: split is {row.split!r}", nearest(row.split, known.keys() - {""}))
            listed.setdefault(split if has_named_splits else known[row.split], []).append(row)
    return listed


def _class_names(rows: Sequence[_Row], where: str, are_training: bool) -> tuple[str, ...]:
    """The classes of some images; class numbers are sorted as numbers."""
    known = {row.label for row in rows if row.label is not None}
    if not known:
        if not are_training:
            raise DataError(f"{where} has no images with labels", "give a table with labels")
        raise DataError(f"{where} has no training images with labels", "write train into the column split")
    return sorted_classes(known)


def _groups(rows: Sequence[_Row]) -> list[str] | None:
    """The group of each row; None where no row has one. DataError where only some have one."""
    if not any(row.group for row in rows):
        return None
    missing = next((row.where for row in rows if row.group is None), None)
    if missing is not None:
        raise DataError(f"{missing} has no group, where other rows have one", "fill it in, or remove the column")
    return [row.group or "" for row in rows]
