"""Parquet files, on this machine or on others: opened in ranges, and recognized as changed

A file is untrusted. Only its footer and the columns that are asked for are read.
"""

import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vit.errors import DataError, first_line

if TYPE_CHECKING:
    from vit.extras.s3.far_files import FarFiles

BUFFER_BYTES = 2**23  # that pyarrow reads ahead of a column
_FOOTER_BYTES = 2**16  # fetched at first, as pyarrow reads them


class TableFile(Protocol):
    """A parquet file, wherever it lies."""

    where: str  # path or address, for errors
    identity: str  # changes where the file changes
    metadata: Any  # what its footer says, of pyarrow, once it was read

    def open(self, ranges: Sequence[tuple[int, int]] = ()) -> Any:
        """What pyarrow reads from. Ranges (first byte, byte after the last) are those that will be read for sure."""

    def check_unchanged(self) -> None:
        """Raise DataError where the file is not the one that was listed."""


class LocalFile:
    """A file on this machine.

    Raises:
        DataError: it is missing, or not a regular file.
    """

    def __init__(self, path: Path) -> None:
        self.where = os.fspath(path)
        self.identity = self._now()
        self.metadata: Any = None

    def open(self, ranges: Sequence[tuple[int, int]] = ()) -> Any:
        """The path."""
        return self.where

    def check_unchanged(self) -> None:
        """Raise DataError where another file stands here now."""
        if self._now() != self.identity:
            raise _changed(self.where)

    def _now(self) -> str:
        try:
            status = os.stat(self.where)
        except OSError as error:
            raise DataError(f"cannot read {self.where}: {error.strerror}", "restore it") from error
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{self.where} is not a regular file", "give a parquet file")
        return f"{os.path.realpath(self.where)}\0{status.st_size}\0{status.st_mtime_ns}"


class FarFile:
    """A file on another machine.

    Args:
        files: how files of this kind are read.

    Raises:
        DataError: it is not there, is refused, or does not come.
    """

    def __init__(self, address: str, files: "FarFiles") -> None:
        self.where = address
        self._files = files
        self.size, version = files.state(address)
        self.identity = f"{address}\0{self.size}\0{version}"
        self.metadata: Any = None

    def open(self, ranges: Sequence[tuple[int, int]] = ()) -> "RangeFile":
        """A file of Python that fetches what is read. The ranges are fetched at the same time; first, the footer."""
        footer = [(max(0, self.size - _FOOTER_BYTES), self.size)] if self.metadata is None else []
        return RangeFile(self._files, self.where, self.size, [*footer, *ranges])

    def check_unchanged(self) -> None:
        """Raise DataError where another file is at the address now."""
        size, version = self._files.state(self.where)
        if f"{self.where}\0{size}\0{version}" != self.identity:
            raise _changed(self.where)


class RangeFile(io.RawIOBase):
    """A far file as a file of Python: what was fetched beforehand comes from memory, the rest from far.

    Args:
        files: how files of this kind are read.
        address: address of the file.
        size: number of its bytes.
        ranges: (first byte, byte after the last) to fetch now, at the same time.
    """

    def __init__(self, files: "FarFiles", address: str, size: int, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self._files, self._address, self._size = files, address, size
        self._place = 0
        wanted = [(address, start, min(stop, size)) for start, stop in ranges if start < min(stop, size)]
        fetched = files.ranges(wanted) if wanted else []
        self._ready = [(start, content) for (_, start, _), content in zip(wanted, fetched, strict=True)]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = max(0, base + offset)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        stop = self._size if size is None or size < 0 else min(self._size, self._place + size)
        start, self._place = self._place, max(self._place, stop)
        if start >= stop:
            return b""
        for first, content in self._ready:
            if first <= start and stop <= first + len(content):
                return content[start - first : stop - first]
        return self._files.ranges([(self._address, start, stop)])[0]


@contextmanager
def opened(file: TableFile, ranges: Sequence[tuple[int, int]] = ()) -> Iterator[Any]:
    """A file as pyarrow's ParquetFile.

    Raises:
        DataError: it is not a parquet file, is cut, or is damaged where the block reads it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(
            file.open(ranges),
            metadata=file.metadata,
            buffer_size=BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        ) as table:
            file.metadata = table.metadata
            yield table
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(
            f"{file.where} is not a whole parquet file: {first_line(error)[:200]}", "get the file again"
        ) from error


def column_ranges(metadata: Any, paths: Sequence[str]) -> list[tuple[int, int]]:
    """Where the values of some columns stand in a file: (first byte, byte after the last) of each row group.

    Args:
        metadata: metadata of the file, of pyarrow.
        paths: paths of the columns, such as "image.path".
    """
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            if chunk.path_in_schema in paths:
                start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
                found.append((start, start + chunk.total_compressed_size))
    return found


def _changed(where: str) -> DataError:
    return DataError(f"{where} has changed since it was listed", "give the command again: it lists the file as it is")
