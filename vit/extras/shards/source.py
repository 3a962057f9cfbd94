"""An index of shards -> a source"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from vit.data.core.dataset_names import INDEX_NAME, is_far
from vit.data.core.samples import Samples, Source, label_files
from vit.errors import DataError
from vit.extras.s3.cache import PartCache
from vit.extras.s3.far_files import FarFiles
from vit.extras.shards.index import ShardIndex, read_index
from vit.extras.shards.reader import ByteRange, LocalShards, ShardReader, Shards

# Shards on other machines, with a cache on this machine
#
# A shard is fetched in parts of equal size, because a training reads neighboring images soon after each other. The
# cache keeps only answers of the right length. `ShardReader` checks every image by its hash.

PART_BYTES = 2**20
_MOST_READY = 4096  # images


class FarShards(Shards):
    """The shards of an index on other machines.

    Args:
        folder: address of the folder of the index.
        files: how files of this kind are read.
        index: the index, which knows how far each shard is needed.
        cache: parts of shards on this machine; None: the cache that the environment names.
    """

    def __init__(self, folder: str, files: FarFiles, index: ShardIndex, cache: PartCache | None = None) -> None:
        self._folder, self._files = folder, files
        self._cache = cache or PartCache.of_machine()
        self._ends = dict(zip(index.shard_names, index.shard_ends().tolist(), strict=True))
        self._ready: dict[ByteRange, bytes] = {}  # images that are fetched for the next batch, where nothing is kept

    @property
    def shares_prepared(self) -> bool:
        return self._cache.max_bytes > 0

    def read(self, part: ByteRange) -> bytes:
        if not self.shares_prepared:
            ready = self._ready.pop(part, None)
            return ready if ready is not None else self._fetch_exactly([part])[0]
        return b"".join(self._piece(part, number) for number in _parts(part))

    def read_again(self, part: ByteRange) -> bytes:
        """The bytes of a range from far. What the cache has of it is removed."""
        for number in _parts(part):
            self._cache.remove(self._key(part.shard, number))
        return self.read(part)

    def prepare(self, parts: Sequence[ByteRange]) -> None:
        """Fetch the parts of shards that the cache does not have; without a cache, the ranges."""
        if not self.shares_prepared:
            if len(self._ready) > _MOST_READY:  # of callers that do not read what they asked for
                self._ready.clear()
            self._ready.update(zip(parts, self._fetch_exactly(parts), strict=True))
            return
        wanted = {(part.shard, number) for part in parts for number in _parts(part)}
        self._cache.fill({self._key(*one): one for one in sorted(wanted)}, self._fetch)

    def _piece(self, wanted: ByteRange, number: int) -> bytes:
        """What a part of a shard has of a range, from the cache or from far."""
        start = number * PART_BYTES
        first, stop = max(0, wanted.start - start), min(PART_BYTES, wanted.stop - start)
        kept = self._cache.get(self._key(wanted.shard, number), first, stop)
        return self._fetch([(wanted.shard, number)])[0][first:stop] if kept is None else kept

    def _fetch(self, wanted: list[tuple[str, int]]) -> list[bytes]:
        """Parts of shards from far. Each is kept."""
        ranges = []
        for shard, number in wanted:
            start = number * PART_BYTES
            ranges.append((f"{self._folder}/{shard}", start, min(start + PART_BYTES, self._ends[shard])))
        contents = self._files.ranges(ranges)
        for one, content in zip(wanted, contents, strict=True):
            self._cache.put(self._key(*one), content)
        return contents

    def _fetch_exactly(self, parts: Sequence[ByteRange]) -> list[bytes]:
        """Ranges from far, and no more."""
        return self._files.ranges([(f"{self._folder}/{part.shard}", part.start, part.stop) for part in parts])

    def _key(self, shard: str, number: int) -> str:
        return hashlib.sha256(f"{self._folder}/{shard}\0{PART_BYTES}\0{number}".encode()).hexdigest()


def _parts(part: ByteRange) -> range:
    """Numbers of the parts of a shard that have a range."""
    return range(part.start // PART_BYTES, -(-part.stop // PART_BYTES))


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
