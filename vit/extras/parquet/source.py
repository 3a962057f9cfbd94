"""Parquet tables with images -> a source"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from vit.data.core.dataset_names import PARQUET, SPLIT_OF_NAME, TableColumns
from vit.data.core.samples import Samples, Source, label_files
from vit.data.sources.csv_cells import MOST_SPLITS, plain_name, splits_in
from vit.errors import DataError, nearest
from vit.extras.parquet.columns import ChosenColumns, choose_columns, column_notes
from vit.extras.parquet.rows import RowGroup, TableFile, TableReader
from vit.tasks.label_text import clean_label, sorted_classes

_NAME_CHARACTERS = 255  # of an image's own name in its key
_NO_CLASS = -1  # that Hugging Face writes for a ClassLabel that is not known
_DIGITS = 6  # of a row in a key
_SPLIT_BYTES = 64  # of a cell, at most, in a column that may hold splits: captions are not read


@dataclass(frozen=True)
class ParquetFiles:
    """The files of a data set."""

    name: str  # name of the data set
    where: str  # folder or name of the data set, for errors
    splits: dict[str, dict[str, TableFile]]  # {split: {relative name: file}}
    notes: list[str]  # messages for the user
    origin: str | None = None  # DATA with the revision of the hub that was read; None for other places

    @property
    def has_named_splits(self) -> bool:
        """Whether the names of the files decide the splits, and not only say that all images are training images."""
        return self.splits.keys() != {"train"}


class _Row(NamedTuple):
    """One row: its key, its place for errors, its label (None: it has none), split and group ("": it has none)."""

    key: str
    where: str
    label: str | None
    split: str
    group: str


@dataclass(frozen=True)
class _Table:
    """A table without its images: its file, how it is read, and its rows."""

    file: TableFile
    columns: ChosenColumns
    row_groups: list[RowGroup]
    rows: list[_Row]


def read_tables(files: ParquetFiles, columns: TableColumns, needs_train: bool = True) -> Source:
    """List the images of parquet tables; errors as of `TableSource`.

    Args:
        columns: columns that are given by name.
        needs_train: whether there must be training images, which then define the classes.
    """
    tables, reader = _read_all(files, columns, needs_label=True)
    every = [table for split_tables in tables.values() for table in split_tables]
    first_columns, has_named_splits = every[0].columns, files.has_named_splits
    if not has_named_splits:
        for table in every:
            _refuse_unread_splits(table)
    _check_alike(every, has_named_splits)
    listed = _rows_by_split(tables, has_named_splits)
    defining = listed["train"] if needs_train else [row for rows in listed.values() for row in rows]
    class_names = first_columns.class_names or sorted_classes({row.label for row in defining if row.label is not None})
    if not class_names and needs_train:
        raise DataError(f"{files.where} has no training images with labels", "write train into the column split")
    if not class_names:
        raise DataError(f"{files.where} has no images with labels", "give a table with labels")
    of_columns = column_notes(first_columns, class_names, has_named_splits, columns.label is not None, files.where)
    notes = [*files.notes, *of_columns, *reader.size_notes]
    splits = {}
    for split, rows in listed.items():
        unlabeled = [row.where for row in rows if row.label is None]
        if unlabeled and len(unlabeled) == len(rows) and not (split == "train" and needs_train):
            notes.append(f"left out {split}: none of its {len(rows):,} images has a label")
            continue
        if unlabeled:
            problem = f"{unlabeled[0]} has no label ({len(unlabeled):,} of {len(rows):,} {split} images have none)"
            raise DataError(problem, "fill it in or remove the row")
        groups = [row.group for row in rows]
        if any(groups) and not all(groups):
            where = rows[groups.index("")].where
            raise DataError(f"{where} has no group, where other rows have one", "fill it in, or remove the column")
        pairs = [(row.key, row.label or "") for row in rows]
        splits[split] = label_files(None, pairs, class_names, files.where, groups, reader)
    return Source(files.name, class_names, splits, notes, files.origin)


def list_tables(files: ParquetFiles, columns: TableColumns) -> Source:
    """The images of parquet tables, whatever their labels: a source without class names, with labels -1."""
    tables, reader = _read_all(files, columns, needs_label=False)
    splits = {}
    for split, split_tables in tables.items():
        keys = [row.key for table in split_tables for row in table.rows]
        splits[split] = Samples(keys, np.full(len(keys), -1, dtype=np.int64), reader=reader)
    return Source(files.name, (), splits, list(files.notes), files.origin)


def _read_all(
    files: ParquetFiles, columns: TableColumns, needs_label: bool
) -> tuple[dict[str, list[_Table]], TableReader]:
    tables = {
        split: [_read(name.removesuffix(PARQUET), file, columns, needs_label) for name, file in named.items()]
        for split, named in files.splits.items()
    }
    every = [table for split_tables in tables.values() for table in split_tables]
    keys = [row.key for table in every for row in table.rows]
    return tables, TableReader([group for table in every for group in table.row_groups], keys)


def _read(name: str, file: TableFile, wanted: TableColumns, needs_label: bool) -> _Table:
    """Read the footer of a table, and all columns but the images."""
    with file.opened() as table:
        metadata = table.metadata
        columns = choose_columns(table.schema_arrow, wanted, file.where, needs_label)
        paths = columns.name_path, columns.label, columns.split, columns.group
        read = table.read(columns=[path for path in paths if path is not None], use_threads=False)
    groups = [
        RowGroup(file, number, columns.bytes_path, metadata.row_group(number).num_rows, size)
        for number, size in enumerate(_sizes(metadata, columns.bytes_path))
    ]
    nothing = [None] * metadata.num_rows
    names, labels, splits, group_cells = (nothing if path is None else _values(read, path) for path in paths)
    rows = [
        _Row(
            _key(name, row, names[row]),
            f"{file.where}, row {row}",
            _label_name(labels[row], columns, f"{file.where}, row {row}"),
            "" if splits[row] is None else str(splits[row]).casefold(),
            _group_name(group_cells[row]),
        )
        for row in range(metadata.num_rows)
    ]
    return _Table(file, columns, groups, rows)


def _group_name(value: object) -> str:
    """The group in a cell; "" where it is empty, or not a number."""
    return "" if value is None or value != value else str(value).strip()


def _sizes(metadata: Any, column: str) -> list[int]:
    """The unpacked bytes of a column, such as "image.path", in each row group; `metadata`: of a file, by pyarrow."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    every = [[group.column(place) for place in range(group.num_columns)] for group in groups]
    return [sum(one.total_uncompressed_size for one in chunks if one.path_in_schema == column) for chunks in every]


def _values(table: Any, path: str) -> list[Any]:
    """The values of a column, or of the field `path` of a struct."""
    if path in table.column_names:
        column = table.column(path)
    else:
        column = table.column(path.rpartition(".")[0])
        column = pa.chunked_array([chunk.field("path") for chunk in column.chunks], column.type.field("path").type)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return list(column.to_pylist())


def _key(name: str, row: int, own_name: str | None) -> str:
    """The key of a row: table, row, and the image's own name for people and for --data.groups."""
    last = PurePosixPath(own_name.replace("\\", "/")).name[:_NAME_CHARACTERS] if own_name else ""
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
        problem = f"{where}: the label is {value}, and {columns.label!r} has {len(names):,} class names"
        raise DataError(problem, "correct the row, or get the file again")
    return names[value]


def _check_alike(tables: Sequence[_Table], has_named_splits: bool) -> None:
    """Raise DataError where two tables of a data set have other columns of images, labels or splits, or class names."""
    first, *others = tables
    for other in others:
        for attribute, what in (
            ("image", "column of images"),
            ("label", "column of labels"),
            ("class_names", "class names"),
            ("split", "column of splits"),  # rows without one would all count as training images
        ):
            is_read = attribute != "split" or not has_named_splits
            if is_read and getattr(first.columns, attribute) != getattr(other.columns, attribute):
                problem = f"{first.file.where} and {other.file.where} have another {what}"
                raise DataError(problem, "give tables of one data set")


def _refuse_unread_splits(table: _Table) -> None:
    """Raise DataError where a column that is not read says which images are for training and for testing."""
    for name in table.columns.may_split if table.columns.split is None else ():
        cells: set[str] = set()
        with table.file.opened() as parquet:
            if sum(_sizes(parquet.metadata, name)) > _SPLIT_BYTES * max(1, len(table.rows)):
                continue
            for batch in parquet.iter_batches(columns=[name]):
                cells |= {"" if value is None else str(value) for value in batch.column(0).unique().to_pylist()}
                if len(cells) > MOST_SPLITS:
                    break
        where = f"{table.file.where}: column {name!r}"
        if len(cells) <= MOST_SPLITS and (splits := splits_in(plain_name(name), cells, where, among_labels=False)):
            says = ", ".join(f"{cell} is {split}" for cell, split in sorted(splits.items()))
            raise DataError(f"{where} names splits ({says}), and is not read", "name the column split, or leave it out")


def _rows_by_split(tables: dict[str, list[_Table]], has_named_splits: bool) -> dict[str, list[_Row]]:
    """The rows of each split: of the files that are named so, or by the column `split`."""
    if has_named_splits:
        return {split: [row for table in split_tables for row in table.rows] for split, split_tables in tables.items()}
    known = SPLIT_OF_NAME | {"": "train"}
    listed: dict[str, list[_Row]] = {"train": []}
    for row in (row for table in tables["train"] for row in table.rows):
        if row.split not in known:
            raise DataError(f"{row.where}: split is {row.split!r}", nearest(row.split, known.keys() - {""}))
        listed.setdefault(known[row.split], []).append(row)
    return listed
