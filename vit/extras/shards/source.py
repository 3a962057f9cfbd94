"""An index of shards -> a source, whose images are ranges of bytes, each checked by its hash

A shard on another machine is fetched in parts of equal size, because a training reads neighboring images soon after
each other. The cache on this machine keeps only answers of the right length.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vit.data.core.dataset_names import INDEX_NAME, PARQUET, is_far
from vit.data.core.image_bytes import ChangedError, ImageReader
from vit.data.core.samples import Samples, Source, label_files
from vit.errors import DataError, UsageError, explained
from vit.extras.s3.far_files import FarFiles, MissingError
from vit.extras.s3.far_images import PartCache
from vit.extras.shards.index import ShardIndex, read_index
from vit.tasks.label_text import sorted_classes

PART_BYTES = 2**20
_MOST_READY = 4096  # images
_DOWNLOAD = "download it first, for example with wget or 'aws s3 cp', and give the file or folder on this machine"


class ByteRange(NamedTuple):
    """The bytes of one image: its shard, relative to the index, the first byte, and the byte after the last one."""

    shard: str
    start: int
    stop: int

    @property
    def parts(self) -> range:
        """Numbers of the parts of the shard that have the range."""
        return range(self.start // PART_BYTES, -(-self.stop // PART_BYTES))


class ShardReader(ImageReader):
    """Reads the images of an index, whose shards are files below its folder; `where` is the index, for errors."""

    def __init__(self, index: ShardIndex, folder: str, where: str) -> None:
        self.index = index
        self._folder, self._where = folder, where
        self._rows = {key: row for row, key in enumerate(index.keys)}

    def read(self, path: str) -> bytes:
        row = self._rows[path]
        part = self._range(path)
        data = b""
        for is_again in (False, True):
            data = self._bytes(part, is_again)
            if hashlib.sha256(data).digest() == self.index.sha256[row]:
                return data
        wanted = part.stop - part.start
        why = f"{len(data):,} of {wanted:,} bytes" if len(data) < wanted else "another sha256"
        problem = f"{path!r} in {part.shard} is not the image that {self._where} lists ({why})"
        raise ChangedError(problem, "restore the shard, or make the index again with 'vit data index'")

    def content_hash(self, path: str) -> str:
        return self.index.content_hashes[self._rows[path]]

    def shards(self, paths: Sequence[str]) -> npt.NDArray[np.int64]:
        rows = np.fromiter((self._rows[path] for path in paths), dtype=np.int64, count=len(paths))
        return self.index.shards[rows]

    def check_sizes(self) -> None:
        """Raise DataError where a shard is missing, or ends before its last image."""
        for name, end in zip(self.index.shard_names, self.index.shard_ends().tolist(), strict=True):
            path = Path(self._folder, name)
            if not path.is_file():
                raise DataError(f"{self._where} lists the shard {name}, and there is no {path}", "restore the shard")
            size = path.stat().st_size
            if size < end:
                raise DataError(
                    f"the shard {path} has {size:,} bytes, and {self._where} lists images up to byte {end:,}",
                    "restore the shard, which is cut; or make the index again with 'vit data index'",
                )

    def _range(self, path: str) -> ByteRange:
        row = self._rows[path]
        start = int(self.index.offsets[row])
        return ByteRange(self.index.shard_names[self.index.shards[row]], start, start + int(self.index.lengths[row]))

    def _bytes(self, part: ByteRange, is_again: bool) -> bytes:
        """The bytes of a range; fewer where the shard ends before. `is_again`: a kept copy was wrong."""
        path = Path(self._folder, part.shard)
        with explained(DataError, f"cannot read the shard {path}", "restore it"), open(path, "rb") as file:
            file.seek(part.start)
            return file.read(part.stop - part.start)


class FarShardReader(ShardReader):
    """Reads the images of an index on another machine, with a cache on this one."""

    def __init__(self, index: ShardIndex, folder: str, where: str, files: FarFiles) -> None:
        super().__init__(index, folder, where)
        self._files = files
        self._cache = PartCache.of_machine()
        self._ends = dict(zip(index.shard_names, index.shard_ends().tolist(), strict=True))
        self._ready: dict[ByteRange, bytes] = {}  # images that are fetched for the next batch, where nothing is kept

    @property
    def shares_prepared(self) -> bool:
        return self._cache.max_bytes > 0

    def prepare(self, paths: Sequence[str]) -> None:
        """Fetch the parts of shards that the cache does not have; without a cache, the ranges."""
        ranges = [self._range(path) for path in paths]
        if self.shares_prepared:
            wanted = {(one.shard, number) for one in ranges for number in one.parts}
            self._cache.fill({self._key(*one): one for one in sorted(wanted)}, self._fetch)
            return
        if len(self._ready) > _MOST_READY:  # of callers that do not read what they asked for
            self._ready.clear()
        self._ready.update(zip(ranges, self._files.ranges([self._address(*one) for one in ranges]), strict=True))

    def _bytes(self, part: ByteRange, is_again: bool) -> bytes:
        if not self.shares_prepared:
            ready = self._ready.pop(part, None)
            return self._files.ranges([self._address(*part)])[0] if ready is None else ready
        pieces = []
        for number in part.parts:
            key, start = self._key(part.shard, number), number * PART_BYTES
            first, stop = max(0, part.start - start), min(PART_BYTES, part.stop - start)
            cached = None if is_again else self._cache.get(key, first, stop)
            pieces.append(self._fetch([(part.shard, number)])[0][first:stop] if cached is None else cached)
        return b"".join(pieces)

    def _fetch(self, wanted: list[tuple[str, int]]) -> list[bytes]:
        """Parts of shards from far. Each is kept."""
        starts = [(shard, number * PART_BYTES) for shard, number in wanted]
        contents = self._files.ranges(
            [self._address(shard, start, min(start + PART_BYTES, self._ends[shard])) for shard, start in starts]
        )
        for one, content in zip(wanted, contents, strict=True):
            self._cache.put(self._key(*one), content)
        return contents

    def _address(self, shard: str, start: int, stop: int) -> tuple[str, int, int]:
        return f"{self._folder}/{shard}", start, stop

    def _key(self, shard: str, number: int) -> str:
        return hashlib.sha256(f"{self._folder}/{shard}\0{PART_BYTES}\0{number}".encode()).hexdigest()


def read_index_source(data: str, needs_train: bool = True) -> Source:
    """List the images of an index, or of its folder, each split in the order of its rows; errors: `TableSource`."""
    reader: ShardReader
    if is_far(data):
        folder = data.rstrip("/").removesuffix(f"/{INDEX_NAME}")
        if folder.endswith(PARQUET):
            problem = f"{data} is a parquet table on another machine; an index of shards is called {INDEX_NAME} there"
            raise UsageError(problem, _DOWNLOAD)
        where, file_name = f"{folder}/{INDEX_NAME}", INDEX_NAME
        files = FarFiles(where)
        try:
            index = read_index(files.whole(where), where)
        except MissingError as error:
            raise MissingError(f"there is no {where}", f"check the address; of parquet tables: {_DOWNLOAD}") from error
        folder_name, reader = folder.rpartition("/")[2], FarShardReader(index, folder, where, files)
    else:
        path = Path(data).expanduser()
        file = path / INDEX_NAME if path.is_dir() else path
        where, file_name, folder_name = os.fspath(file), file.name, file.resolve().parent.name
        with explained(DataError, f"cannot read {file}", "check its permissions"):
            content = file.read_bytes()
        index = read_index(content, where)
        reader = ShardReader(index, os.fspath(file.parent), where)
        reader.check_sizes()
    rows: dict[str, list[int]] = {"train": []}
    for row, split in enumerate(index.splits):
        rows.setdefault(split, []).append(row)
    if not rows["train"] and needs_train:
        raise DataError(f"{where} has no training images", "write train into the column split, or leave it empty")
    defining = rows["train"] if needs_train else range(len(index))
    class_names = index.class_names or sorted_classes(index.labels[row] for row in defining)
    splits = {split: _samples(index, split_rows, class_names, reader, where) for split, split_rows in rows.items()}
    name = folder_name if file_name == INDEX_NAME else file_name.removesuffix(PARQUET)
    return Source(name, class_names, splits)


def _samples(
    index: ShardIndex, rows: list[int], class_names: tuple[str, ...], reader: ShardReader, where: str
) -> Samples:
    keys, labels, groups = ([column[row] for row in rows] for column in (index.keys, index.labels, index.groups))
    if any(groups) and not all(groups):
        problem = f"{where}: {keys[groups.index('')]} has no group, where other images of its split have one"
        raise DataError(problem, "fill in the column group of the index, or leave it empty")
    if index.task.is_exclusive:
        pairs = list(zip(keys, labels, strict=True))
        return label_files(None, pairs, class_names, where, groups, reader)
    fix = "make the index again with 'vit data index'"
    with explained(DataError, f"{where}: a label is wrong", fix, (KeyError, ValueError)):
        values = index.task.array(labels, class_names)
    return Samples(keys, values, groups=tuple(groups) if any(groups) else None, reader=reader)
