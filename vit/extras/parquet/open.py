"""DATA that is read through parquet -> a source: an index of shards, or tables with images, near or far"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vit.data.core.dataset_names import INDEX_NAME, LISTED, PARQUET, TableColumns, is_far, parquet_names
from vit.data.core.samples import Source
from vit.extras.parquet.files import TableFile
from vit.extras.parquet.names import files_of_splits, siblings
from vit.extras.parquet.source import ParquetFiles, list_tables, read_tables
from vit.extras.shards.source import read_index_source

if TYPE_CHECKING:
    from vit.extras.s3.far_files import FarFiles


def open_source(data: str, columns: TableColumns, needs_train: bool) -> Source:
    """List the images of an index of shards, or of tables, with their labels; see `TableSource`."""
    return _opened(data, columns, needs_train, partial(read_tables, columns=columns, needs_train=needs_train))


def list_images(data: str, columns: TableColumns) -> Source:
    """List the images of an index of shards, or of tables that need no labels. No split is needed."""
    return _opened(data, columns, False, partial(list_tables, columns=columns))


def has_columns(data: str) -> bool:
    """Whether DATA is not an index of shards."""
    return _tables(data, needs_train=False) is not None


def _opened(data: str, columns: TableColumns, needs_train: bool, read: Callable[[ParquetFiles], Source]) -> Source:
    tables = _tables(data, needs_train)
    if tables is not None:
        return read(tables)
    columns.refuse(data)
    return read_index_source(data, needs_train)


def _tables(data: str, needs_train: bool) -> ParquetFiles | None:
    """The tables of DATA; None for an index of shards."""
    if is_far(data):
        return _far(data, needs_train)
    path = Path(data).expanduser()
    if not path.is_dir():
        return _one(path.stem, data, TableFile(path))
    if (path / INDEX_NAME).is_file():
        return None
    return _of_names(path.resolve().name, str(path), parquet_names(path), None, needs_train)


def _far(address: str, needs_train: bool) -> ParquetFiles | None:
    from vit.extras.s3.far_files import MissingError, far_files

    files = far_files(address)
    if address.endswith(PARQUET):
        return _one(PurePosixPath(address).stem, address, TableFile(address, files))
    folder = address.rstrip("/")
    prefix = f"{folder}/"
    try:
        files.state(f"{prefix}{INDEX_NAME}")
    except MissingError:
        if not address.startswith(LISTED):
            raise
    else:
        return None
    names = [one.removeprefix(prefix) for one in files.names(folder) if one.endswith(PARQUET)]
    if not names:
        raise MissingError(f"there is no {prefix}{INDEX_NAME}, and no other parquet file", "check the address")
    return _of_names(PurePosixPath(folder).name, folder, names, files, needs_train)


def _of_names(
    name: str, folder: str, names: Sequence[str], files: "FarFiles | None", needs_train: bool
) -> ParquetFiles:
    """The tables of a folder, whose names say the splits."""
    named = files_of_splits(names, folder, needs_train=needs_train)
    splits = {split: {one: TableFile(f"{folder}/{one}", files) for one in own} for split, own in named.files.items()}
    return ParquetFiles(name, folder, splits, named.notes, are_far=files is not None)


def _one(name: str, where: str, file: TableFile) -> ParquetFiles | None:
    """A table that is given alone, whatever its name; None for an index of shards."""
    with file.opened() as table:
        if {"key", "shard", "offset", "length"} <= set(table.schema_arrow.names):
            return None
    count = siblings(name)
    notes = [f"{name}{PARQUET} is one of {count:,} files; give their folder for all images"] if count > 1 else []
    return ParquetFiles(name, where, {"train": {name: file}}, notes, are_far=is_far(where))
