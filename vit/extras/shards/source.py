"""An index of shards -> a source"""

import os
from pathlib import Path

from vit.data.core.dataset_names import INDEX_NAME, is_far
from vit.data.core.samples import Samples, Source, label_files
from vit.errors import DataError
from vit.extras.shards.index import ShardIndex, read_index
from vit.extras.shards.reader import LocalShards, ShardReader


def read_index_source(data: str, needs_train: bool = True) -> Source:
    """List the images of an index.

    Args:
        data: path or address of the index, or of its folder.
        needs_train: whether there must be training images, which then define the classes.

    Raises:
        UsageError: the library for this kind of address is not installed.
        DataError: the index cannot be read, a row is wrong, or a shard is missing.
    """
    if is_far(data):
        return _far(data, needs_train)
    path = Path(data).expanduser()
    file = path / INDEX_NAME if path.is_dir() else path
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}", "check its permissions") from error
    index = read_index(content, os.fspath(file))
    shards = LocalShards(file.parent)
    shards.check(index, os.fspath(file))
    name = file.resolve().parent.name if file.name == INDEX_NAME else file.stem
    return source_of_index(index, ShardReader(index, shards, os.fspath(file)), name, os.fspath(file), needs_train)


def _far(data: str, needs_train: bool) -> Source:
    from vit.extras.s3.far_files import far_files
    from vit.extras.shards.far import FarShards

    address = data if data.endswith(".parquet") else f"{data.rstrip('/')}/{INDEX_NAME}"
    files = far_files(address)
    content = files.whole(address)
    folder, _, file_name = address.rpartition("/")
    index = read_index(content, address)
    name = folder.rpartition("/")[2] if file_name == INDEX_NAME else file_name.removesuffix(".parquet")
    reader = ShardReader(index, FarShards(folder, files, index), address)
    return source_of_index(index, reader, name, address, needs_train)


def source_of_index(index: ShardIndex, reader: ShardReader, name: str, where: str, needs_train: bool) -> Source:
    """The splits of an index, each in the order of its rows.

    Args:
        index: the images.
        reader: reader of the images.
        name: name of the data set.
        where: path of the index, for errors.
        needs_train: as for `read_index_source`.

    Raises:
        DataError: there are no training images, or a label is wrong.
    """
    rows: dict[str, list[int]] = {"train": []}
    for row, split in enumerate(index.splits):
        rows.setdefault(split, []).append(row)
    if not rows["train"] and needs_train:
        raise DataError(f"{where} has no training images", "write train into the column split, or leave it empty")
    defining = rows["train"] if needs_train else range(len(index))
    class_names = index.class_names or tuple(sorted({index.labels[row] for row in defining}))
    splits = {split: _samples(index, own, class_names, reader, where) for split, own in rows.items()}
    return Source(name, class_names, splits)


def _samples(
    index: ShardIndex, rows: list[int], class_names: tuple[str, ...], reader: ShardReader, where: str
) -> Samples:
    """The images at some rows."""
    keys, labels = [index.keys[row] for row in rows], [index.labels[row] for row in rows]
    groups = _groups([index.groups[row] for row in rows], keys, where)
    if index.task.is_exclusive:
        return label_files(None, list(zip(keys, labels, strict=True)), class_names, where, groups, reader)
    try:
        values = index.task.array(labels, class_names)
    except (KeyError, ValueError) as error:
        raise DataError(f"{where}: a label is wrong: {error}", "make the index again with 'vit data index'") from error
    return Samples(keys, values, groups=None if groups is None else tuple(groups), reader=reader)


def _groups(found: list[str], keys: list[str], where: str) -> list[str] | None:
    """The groups of a split; None where no image has one. DataError where only some have one."""
    if not any(found):
        return None
    if not all(found):
        raise DataError(
            f"{where}: {keys[found.index('')]} has no group, where other images of its split have one",
            "fill in the column group of the index, or leave it empty",
        )
    return found
