"""DATA that is read through parquet -> a source: an index of shards, or tables with images, near, far or on the hub"""

import os
from pathlib import Path, PurePosixPath

from vit.data.dataset_names import (
    HUB,
    INDEX_NAME,
    LISTED,
    PARQUET,
    TableColumns,
    is_far,
    parquet_names,
)
from vit.data.parquet.columns import is_index_schema
from vit.data.parquet.files import FarFile, LocalFile, TableFile, opened
from vit.data.parquet.names import files_of_splits, siblings
from vit.data.parquet.source import ParquetFiles, list_tables, read_tables
from vit.data.samples import Source
from vit.data.shards.source import read_index_source


def read_parquet_source(data: str, columns: TableColumns | None = None, needs_train: bool = True) -> Source:
    """List the images of an index of shards, or of parquet tables, with their labels.

    Args:
        data: path or address of an index, of a table, or of their folder; or hf:NAME.
        columns: columns of a table that are given by name.
        needs_train: whether there must be training images, which then define the classes.

    Raises:
        UsageError: the library for this kind of address is not installed, a column or config does not exist, or a
            column is given for an index of shards.
        DataError: a file cannot be read, or its columns or rows cannot be used.
        ResourceError: the hub does not give the data set.
    """
    found, columns = _found(data, needs_train), columns or TableColumns()
    if found is None:
        columns.refuse(data)
        return read_index_source(data, needs_train)
    return read_tables(found, columns, needs_train)


def is_index(data: str) -> bool:
    """Whether DATA that is read through parquet is an index of shards, as a data set of the hub never is.

    Raises:
        VitError: as for `read_parquet_source`.
    """
    return not data.startswith(HUB) and _found(data, needs_train=False) is None


def list_parquet_images(data: str, columns: TableColumns | None = None) -> Source:
    """List the images of an index of shards, or of parquet tables that need no labels. No split is needed.

    Raises:
        VitError: as for `read_parquet_source`.
    """
    found, columns = _found(data, needs_train=False), columns or TableColumns()
    if found is None:
        columns.refuse(data)
        return read_index_source(data, needs_train=False)
    return list_tables(found, columns)


def _found(data: str, needs_train: bool) -> ParquetFiles | None:
    """The tables of DATA; None for an index of shards."""
    if data.startswith(HUB):
        from vit.data.parquet.hub import fetch_files

        return fetch_files(data, needs_train)
    if is_far(data):
        return _far(data, needs_train)
    path = Path(data).expanduser()
    if path.is_dir():
        if (path / INDEX_NAME).is_file():
            return None
        return local_files(path, path.resolve().name, os.fspath(path), needs_train)
    return _one(path.stem, data, LocalFile(path))


def local_files(folder: Path, name: str, where: str, needs_train: bool) -> ParquetFiles:
    """The tables of a folder, by split."""
    named = files_of_splits(parquet_names(folder), where, needs_train=needs_train)
    splits: dict[str, list[tuple[str, TableFile]]] = {
        split: [(_stem(one), LocalFile(folder / one)) for one in names] for split, names in named.files.items()
    }
    return ParquetFiles(name, where, splits, named.notes, has_named_splits=named.decide)


def _far(address: str, needs_train: bool) -> ParquetFiles | None:
    from vit.data.shards.far_files import MissingError, far_files

    files = far_files(address)
    if address.endswith(PARQUET):
        return _one(PurePosixPath(address).stem, address, FarFile(address, files), are_far=True)
    folder = address.rstrip("/")
    try:
        files.state(f"{folder}/{INDEX_NAME}")
    except MissingError:
        if not address.startswith(LISTED):
            raise
    else:
        return None
    prefix = f"{folder}/"
    names = [one.removeprefix(prefix) for one in files.names(folder) if one.endswith(PARQUET)]
    if not names:
        raise MissingError(f"there is no {prefix}{INDEX_NAME}, and no other parquet file", "check the address")
    named = files_of_splits(names, folder, needs_train=needs_train)
    splits: dict[str, list[tuple[str, TableFile]]] = {
        split: [(_stem(one), FarFile(f"{prefix}{one}", files)) for one in found] for split, found in named.files.items()
    }
    return ParquetFiles(PurePosixPath(folder).name, folder, splits, named.notes, True, named.decide)


def _one(name: str, where: str, file: TableFile, are_far: bool = False) -> ParquetFiles | None:
    """A table that is given alone, whatever its name; None for an index of shards."""
    with opened(file) as table:
        if is_index_schema(table.schema_arrow.names):
            return None
    count = siblings(name)
    notes = [f"{name}{PARQUET} is one of {count:,} files; give their folder for all images"] if count > 1 else []
    return ParquetFiles(name, where, {"train": [(name, file)]}, notes, are_far)


def _stem(name: str) -> str:
    return name.removesuffix(PARQUET)
