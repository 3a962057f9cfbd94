"""Images of parquet tables by their rows, read when they are needed

A file is untrusted. Only its footer and the columns that are asked for are read. A row group can only be read from its
start. Its images are therefore read in one pass, and kept in parts of about 4 MiB: the last ones in memory, and those
of large tables in the cache on this machine's disk.
"""

import hashlib
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from vit.data.core.image_bytes import MAX_BYTES, ImageError, ImageReader
from vit.errors import DataError, explained, first_line
from vit.extras.s3.far_images import PartCache

BUFFER_BYTES = 2**23  # that pyarrow reads ahead of a column
MEMORY_BYTES = 2**27  # of parts that a process keeps; a table with fewer bytes of images is small
PART_BYTES = 2**22
_MOST_ROWS = 512  # of a part
_FETCHED_AT_ONCE = 8  # row groups
_DIGEST_BYTES = 16

Rows = Sequence[bytes | None]


class TableFile:
    """A parquet file. DataError where it is missing, or not a regular file.

    Attributes:
        identity: text that changes where the file changes.
    """

    def __init__(self, where: str | os.PathLike[str]) -> None:
        self.where = os.fspath(where)
        self._metadata: Any = None  # what its footer says, of pyarrow, once it was read
        self.identity = self._current_identity()

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The file as pyarrow's ParquetFile. DataError: it is not one, or is damaged where the block reads it."""
        try:
            with pq.ParquetFile(
                self.where,
                metadata=self._metadata,
                buffer_size=BUFFER_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            ) as table:
                self._metadata = table.metadata
                yield table
        except (pa.ArrowException, OSError, ValueError) as error:
            problem = f"{self.where} is not a whole parquet file: {first_line(error)[:200]}"
            raise DataError(problem, "get the file again") from error

    def check_unchanged(self) -> None:
        """Raise DataError where the file is not the one that was listed."""
        if self._current_identity() != self.identity:
            fix = "give the command again: it lists the file as it is"
            raise DataError(f"{self.where} has changed since it was listed", fix)

    def _current_identity(self) -> str:
        with explained(DataError, f"cannot read {self.where}", "restore it"):
            status = os.stat(self.where)
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{self.where} is not a regular file", "give a parquet file")
        return f"{os.path.realpath(self.where)}\0{status.st_size}\0{status.st_mtime_ns}"


@dataclass(frozen=True)
class RowGroup:
    """The images of a row group of a parquet file."""

    file: TableFile  # the file
    number: int  # number of the row group in the file
    column: str  # path of the column with the bytes of images, such as "image.bytes"
    num_rows: int  # number of images
    num_bytes: int  # bytes of the images, unpacked

    @property
    def part_rows(self) -> int:
        """Number of rows of a part."""
        return max(1, min(_MOST_ROWS, PART_BYTES * self.num_rows // max(1, self.num_bytes)))

    def key(self, part: int) -> str:
        """The key of a part in the cache."""
        text = f"{self.file.identity}\0{self.column}\0{self.number}\0{part}\0{self.part_rows}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def read_parts(self) -> Iterator[Rows]:
        """The parts in order. DataError where the file cannot be read, or has changed."""
        self.file.check_unchanged()
        with self.file.opened() as table:
            left: list[bytes | None] = []
            size = self.part_rows
            for batch in table.iter_batches(size, row_groups=[self.number], columns=[self.column], use_threads=False):
                column = batch.column(0)
                left += (column.field("bytes") if pa.types.is_struct(column.type) else column).to_pylist()
                while len(left) >= size:
                    yield left[:size]
                    left = left[size:]
            if left:
                yield left


class TableReader(ImageReader):
    """Reads the images of parquet tables.

    Args:
        groups: the row groups of all tables.
        keys: name of each image, in the order of tables and rows; unique.
    """

    def __init__(self, groups: Sequence[RowGroup], keys: Sequence[str]) -> None:
        self._groups = groups
        self._numbers = {key: number for number, key in enumerate(keys)}
        self._starts = np.cumsum([0, *(group.num_rows for group in groups)], dtype=np.int64)
        self._num_bytes = sum(group.num_bytes for group in groups)
        self._is_small = self._num_bytes <= MEMORY_BYTES
        self._cache = None if self._is_small else PartCache.of_machine()
        self._memory: tuple[int, _Memory] | None = None  # process, and what it keeps: a fork needs its own

    @property
    def shares_prepared(self) -> bool:
        return self._cache is not None and self._cache.max_bytes > 0

    def read(self, path: str) -> bytes:
        group, part, row = self._place(path)
        data = self._part(group, part)[row]
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
        missing: dict[int, int] = {}  # row group -> its first part that is missing
        for group, part, _ in map(self._place, paths):
            if (group, part) not in self._kept.parts and not self._cache.has(self._groups[group].key(part)):
                missing.setdefault(group, part)
        if missing:
            with ThreadPoolExecutor(_FETCHED_AT_ONCE) as pool:
                list(pool.map(self._part, missing.keys(), missing.values()))

    def versions(self, paths: Sequence[str]) -> list[str]:
        """(n,) the file of each image as it was listed, with the image's row group and row."""
        return [f"{self._groups[group].key(part)}\0{row}" for group, part, row in map(self._place, paths)]

    def shards(self, paths: Sequence[str]) -> npt.NDArray[np.int64] | None:
        """(n,) number of the row group of each image; None for small tables, which need no order of their own."""
        if self._is_small:
            return None
        numbers = np.fromiter((self._numbers[path] for path in paths), dtype=np.int64, count=len(paths))
        return np.searchsorted(self._starts, numbers, side="right") - 1

    @property
    def size_notes(self) -> list[str]:
        """A warning where the cache on the disk is smaller than the images of large tables."""
        if self._cache is None or self._num_bytes <= (limit := self._cache.max_bytes):
            return []
        return [
            f"{self._num_bytes / 1e9:,.1f} GB of images, and a cache of {limit / 1e9:g} GB on the disk: row groups are "
            f"read again and again; set VIT_CACHE_GB to {self._num_bytes / 1e9 * 1.1:,.0f}, or make shards with "
            "'vit data pack'"
        ]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_memory": None}

    @property
    def _kept(self) -> "_Memory":
        if self._memory is None or self._memory[0] != os.getpid():
            self._memory = os.getpid(), _Memory()
        return self._memory[1]

    def _place(self, path: str) -> tuple[int, int, int]:
        """Row group, part of the row group, and row of the part that have an image."""
        number = self._numbers[path]
        group = int(np.searchsorted(self._starts, number, side="right")) - 1
        return group, *divmod(number - int(self._starts[group]), self._groups[group].part_rows)

    def _part(self, group: int, part: int) -> Rows:
        """The rows of a part: from memory, from the disk, or from the table."""
        memory = self._kept
        rows = memory.get(group, part)
        if rows is None:
            # threads that need the same row group wait for one of them
            with memory.locks.setdefault(group, threading.Lock()):
                rows = memory.get(group, part) or self._from_disk(group, part) or self._from_table(group, part)
        return rows

    def _from_disk(self, group: int, part: int) -> Rows | None:
        content = self._cache.get(self._groups[group].key(part)) if self._cache and self.shares_prepared else None
        rows = None if content is None else _unpacked(content)
        if rows is not None:
            self._kept.put(group, part, rows)
        return rows

    def _from_table(self, group: int, wanted: int) -> Rows:
        """Read a row group up to a part, and on as far as its parts can be kept. DataError as of `read_parts`."""
        one, cache = self._groups[group], self._cache if self.shares_prepared else None
        result: Rows | None = None
        ahead = 0
        for part, rows in enumerate(one.read_parts()):
            if cache is not None:
                cache.put(one.key(part), _packed(rows))
            if part == wanted:
                result = rows
            if result is not None or cache is None:
                self._kept.put(group, part, rows)
            if result is not None and cache is None:
                ahead += _bytes_of(rows)
                if ahead > MEMORY_BYTES // 2:
                    break
        if result is None:
            problem = f"{one.file.where}: row group {one.number} has fewer rows than the file says"
            raise DataError(problem, "get the file again")
        return result


class _Memory:
    """The parts that one process keeps: those that were read last."""

    def __init__(self) -> None:
        self.parts: OrderedDict[tuple[int, int], Rows] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self.locks: dict[int, threading.Lock] = {}  # of the row groups that are read

    def get(self, group: int, part: int) -> Rows | None:
        with self._lock:
            if (group, part) in self.parts:
                self.parts.move_to_end((group, part))
            return self.parts.get((group, part))

    def put(self, group: int, part: int, rows: Rows) -> None:
        """Keep a part, and forget those that were not read for the longest time."""
        with self._lock:
            self._size += _bytes_of(rows) - _bytes_of(self.parts.pop((group, part), ()))
            self.parts[group, part] = rows
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
    pairs = zip(lengths.tolist(), ends.tolist(), strict=True)
    return [None if length < 0 else rest[end - length : end] for length, end in pairs]
