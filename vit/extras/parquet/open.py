"""DATA that is read through parquet -> a source: an index of shards, or tables with images, near or far"""

from pathlib import Path, PurePosixPath

from vit.data.core.dataset_names import INDEX_NAME, LISTED, PARQUET, TableColumns, is_far, parquet_names
from vit.data.core.samples import Source
from vit.extras.parquet.columns import is_index_schema
from vit.extras.parquet.files import FarFile, LocalFile, TableFile, opened
from vit.extras.parquet.names import files_of_splits, siblings
from vit.extras.parquet.source import ParquetFiles, list_tables, read_tables
from vit.extras.shards.source import read_index_source


def open_source(data: str, columns: TableColumns, needs_train: bool) -> Source:
    """List the images of an index of shards, or of tables, with their labels; see `TableSource`."""
    tables = _tables(data, needs_train)
    if tables is None:
        columns.refuse(data)
        return read_index_source(data, needs_train)
    return read_tables(tables, columns, needs_train)


def list_images(data: str, columns: TableColumns) -> Source:
    """List the images of an index of shards, or of tables that need no labels. No split is needed."""
    tables = _tables(data, needs_train=False)
    if tables is None:
        columns.refuse(data)
        return read_index_source(data, needs_train=False)
    return list_tables(tables, columns)


def has_columns(data: str) -> bool:
    """Whether DATA is not an index of shards."""
    return _tables(data, needs_train=False) is not None


def _tables(data: str, needs_train: bool) -> ParquetFiles | None:
    """The tables of DATA; None for an index of shards."""
    if is_far(data):
        return _far(data, needs_train)
    path = Path(data).expanduser()
    if path.is_dir():
        if (path / INDEX_NAME).is_file():
            return None
        named = files_of_splits(parquet_names(path), str(path), needs_train=needs_train)
        splits: dict[str, list[tuple[str, TableFile]]] = {
            split: [(_stem(name), LocalFile(path / name)) for name in names] for split, names in named.files.items()
        }
        return ParquetFiles(path.resolve().name, str(path), splits, named.notes, has_named_splits=named.decide)
    return _one(path.stem, data, LocalFile(path))


def _far(address: str, needs_train: bool) -> ParquetFiles | None:
    from vit.extras.s3.far_files import MissingError, far_files

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
