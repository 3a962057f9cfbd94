"""Images of parquet tables by their rows, read when they are needed

A row group can only be read from its start. Its images are therefore read in one pass, and kept in parts of about
4 MiB: the last ones in memory, and those of large or far tables in the cache on this machine's disk.
"""

import hashlib
import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vit.data.core.image_bytes import MAX_BYTES, ImageError, ImageReader
from vit.errors import DataError
from vit.extras.parquet.files import TableFile, opened
from vit.extras.s3.cache import PartCache

MEMORY_BYTES = 2**27  # of parts that a process keeps; a table with fewer bytes of images is small
PART_BYTES = 2**22
_MOST_ROWS = 512  # of a part
_FETCHED_AT_ONCE = 8  # row groups
_DIGEST_BYTES = 16

Rows = Sequence[bytes | None]


@dataclass(frozen=True)
class ImageTable:
    """The images of one parquet file."""

    file: TableFile  # the file
    column: str  # path of the column with the bytes of images, such as "image.bytes"
    group_rows: tuple[int, ...]  # number of rows of each row group
    group_bytes: tuple[int, ...]  # bytes of the images of each row group, unpacked


class _Place(NamedTuple):
    """Where an image stands: its table, row group, part of the row group, and row of the part."""

    table: int
    group: int
    part: int
    row: int


class TableReader(ImageReader):
    """Reads the images of parquet tables.

    Args:
        keys: name of each image, in the order of tables and rows; unique.
        are_far: whether the tables are on other machines.
        cache: parts on this machine; None: the cache that the environment names.
    """

    def __init__(
        self, tables: Sequence[ImageTable], keys: Sequence[str], are_far: bool, cache: PartCache | None = None
    ) -> None:
        self._tables = tables
        self._numbers = {key: number for number, key in enumerate(keys)}
        rows = [count for table in tables for count in table.group_rows]
        self._group_starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        self._groups = [
            (number, group) for number, table in enumerate(tables) for group in range(len(table.group_rows))
        ]
        self.num_bytes = sum(size for table in tables for size in table.group_bytes)
        self.is_small = self.num_bytes <= MEMORY_BYTES
        self._cache = (cache or PartCache.of_machine()) if are_far or not self.is_small else None
        self._memory: tuple[int, _Memory] | None = None  # process, and what it keeps: a fork needs its own

    @property
    def shares_prepared(self) -> bool:
        return self._cache is not None and self._cache.max_bytes > 0

    def read(self, path: str) -> bytes:
        place = self._place(self._numbers[path])
        data = self._part(place)[place.row]
        if data is None:
            raise ImageError(path, "not_image", "the row has no bytes of an image")
        if not data:
            raise ImageError(path, "not_image", "the image is empty")
        if len(data) > MAX_BYTES:
            raise ImageError(path, "too_large", f"{len(data):,} bytes; the limit is {MAX_BYTES:,}")
        return data

    def prepare(self, paths: Sequence[str]) -> None:
        """Read several row groups at the same time, where the images that are read next are not at hand."""
        if self._cache is None or not self.shares_prepared:
            return
        missing: dict[tuple[int, int], _Place] = {}
        for path in paths:
            place = self._place(self._numbers[path])
            if place[:3] not in self._kept.parts and not self._cache.has(self._key(*place[:3])):
                missing.setdefault(place[:2], place)
        if missing:
            with ThreadPoolExecutor(_FETCHED_AT_ONCE) as pool:
                for _ in pool.map(self._part, missing.values()):
                    pass

    def versions(self, paths: Sequence[str]) -> list[str]:
        """(n,) the file of each image as it was listed, with the image's row group and row."""
        places = [self._place(self._numbers[path]) for path in paths]
        return [f"{self._key(*place[:3])}\0{place.row}" for place in places]

    def shards(self, paths: Sequence[str]) -> npt.NDArray[np.int64] | None:
        """(n,) number of the row group of each image; None for small tables, which need no order of their own."""
        if self.is_small:
            return None
        numbers = np.fromiter((self._numbers[path] for path in paths), dtype=np.int64, count=len(paths))
        return np.searchsorted(self._group_starts, numbers, side="right") - 1

    @property
    def size_notes(self) -> list[str]:
        """A warning where the cache on the disk is smaller than the images of large tables."""
        limit = PartCache.of_machine().max_bytes
        if self.is_small or self.num_bytes <= limit:
            return []
        return [
            f"{self.num_bytes / 1e9:,.1f} GB of images, and a cache of {limit / 1e9:g} GB on the disk: row groups are "
            f"read again and again; set VIT_CACHE_GB to {self.num_bytes / 1e9 * 1.1:,.0f}, or make shards with "
            "'vit data pack'"
        ]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_memory": None}

    @property
    def _kept(self) -> "_Memory":
        """What this process keeps."""
        if self._memory is None or self._memory[0] != os.getpid():
            self._memory = os.getpid(), _Memory()
        return self._memory[1]

    def _place(self, number: int) -> _Place:
        group = int(np.searchsorted(self._group_starts, number, side="right")) - 1
        table, of_table = self._groups[group]
        row = number - int(self._group_starts[group])
        size = self._rows_of_part(table, of_table)
        return _Place(table, of_table, row // size, row % size)

    def _rows_of_part(self, table: int, group: int) -> int:
        """Number of rows of a part, from what the footer says of the row group."""
        rows, size = self._tables[table].group_rows[group], self._tables[table].group_bytes[group]
        return max(1, min(_MOST_ROWS, PART_BYTES * rows // max(1, size)))

    def _part(self, place: _Place) -> Rows:
        """The rows of a part: from memory, from the disk, or from the table."""
        kept, key = self._kept, place[:3]
        rows = kept.get(key)
        if rows is None:
            with kept.lock_of(place[:2]):  # threads that need the same row group wait for one of them
                rows = kept.get(key) or self._from_disk(key) or self._from_table(place)
        return rows

    def _from_disk(self, key: tuple[int, int, int]) -> Rows | None:
        if self._cache is None or self._cache.max_bytes == 0:
            return None
        content = self._cache.get(self._key(*key))
        rows = None if content is None else _unpacked(content)
        if rows is not None:
            self._kept.put(key, rows)
        return rows

    def _from_table(self, place: _Place) -> Rows:
        """Read a row group up to a part, and on as far as its parts can be kept.

        Raises:
            DataError: the table cannot be read, or has changed.
        """
        on_disk = self._cache is not None and self._cache.max_bytes > 0
        found: Rows | None = None
        ahead = 0
        for part, rows in enumerate(self._read_group(place.table, place.group)):
            key = (place.table, place.group, part)
            if self._cache is not None and on_disk:
                self._cache.put(self._key(*key), _packed(rows))
            if part == place.part:
                found = rows
            if found is not None or not on_disk:
                self._kept.put(key, rows)
            if found is not None and not on_disk:
                ahead += sum(len(row or b"") for row in rows)
                if ahead > MEMORY_BYTES // 2:
                    break
        if found is None:
            raise DataError(
                f"{self._tables[place.table].file.where}: row group {place.group} has fewer rows than the file says",
                "get the file again",
            )
        return found

    def _read_group(self, table: int, group: int) -> Iterator[Rows]:
        """The parts of a row group in order."""
        import pyarrow as pa

        one = self._tables[table]
        one.file.check_unchanged()
        with opened(one.file) as file:
            size = self._rows_of_part(table, group)
            left: list[bytes | None] = []
            for batch in file.iter_batches(size, row_groups=[group], columns=[one.column], use_threads=False):
                column = batch.column(0)
                left += (column.field("bytes") if pa.types.is_struct(column.type) else column).to_pylist()
                while len(left) >= size:
                    yield left[:size]
                    left = left[size:]
            if left:
                yield left

    def _key(self, table: int, group: int, part: int) -> str:
        one = self._tables[table]
        text = f"{one.file.identity}\0{one.column}\0{group}\0{part}\0{self._rows_of_part(table, group)}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class _Memory:
    """The parts that one process keeps: those that were read last."""

    def __init__(self) -> None:
        self.parts: OrderedDict[tuple[int, int, int], Rows] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._locks: defaultdict[tuple[int, int], threading.Lock] = defaultdict(threading.Lock)

    def lock_of(self, group: tuple[int, int]) -> threading.Lock:
        """The lock of a row group."""
        with self._lock:
            return self._locks[group]

    def get(self, key: tuple[int, int, int]) -> Rows | None:
        """The rows of a part, or None."""
        with self._lock:
            if key in self.parts:
                self.parts.move_to_end(key)
            return self.parts.get(key)

    def put(self, key: tuple[int, int, int], rows: Rows) -> None:
        """Keep a part, and forget those that were not read for the longest time."""
        with self._lock:
            self._size += _bytes_of(rows) - _bytes_of(self.parts.pop(key, ()))
            self.parts[key] = rows
            while self._size > MEMORY_BYTES and len(self.parts) > 1:
                self._size -= _bytes_of(self.parts.popitem(last=False)[1])


def _bytes_of(rows: Rows) -> int:
    return sum(len(row or b"") for row in rows)


def _packed(rows: Rows) -> bytes:
    """The rows of a part as one text of bytes, which begins with a hash of the rest."""
    lengths = np.array([len(rows), *(-1 if row is None else len(row) for row in rows)], dtype="<i8")
    content = lengths.tobytes() + b"".join(row or b"" for row in rows)
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest() + content


def _unpacked(content: bytes) -> Rows | None:
    """The rows of `_packed`; None where the bytes are damaged."""
    digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.blake2b(rest, digest_size=_DIGEST_BYTES).digest() != digest:
        return None
    count = int(np.frombuffer(rest[:8], dtype="<i8")[0])
    lengths = np.frombuffer(rest[8 : 8 * (count + 1)], dtype="<i8")
    ends = 8 * (count + 1) + np.cumsum(np.maximum(lengths, 0))
    return [
        None if length < 0 else rest[end - length : end]
        for length, end in zip(lengths.tolist(), ends.tolist(), strict=True)
    ]
