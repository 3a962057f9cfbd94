"""Parquet files, on this machine or on others: opened in ranges, and recognized as changed

A file is untrusted. Only its footer and the columns that are asked for are read.
"""

import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vit.errors import DataError, first_line

if TYPE_CHECKING:
    from vit.extras.s3.far_files import FarFiles

BUFFER_BYTES = 2**23  # that pyarrow reads ahead of a column
_FOOTER_BYTES = 2**16  # fetched at first, as pyarrow reads them


class TableFile:
    """A parquet file. DataError where it is missing, refused or no regular file, or another machine does not answer.

    Args:
        where: its path or address.
        far: how files at this kind of address are read; None: the file is on this machine.

    Attributes:
        identity: changes where the file changes.
    """

    def __init__(self, where: str | os.PathLike[str], far: "FarFiles | None" = None) -> None:
        self.where = os.fspath(where)
        self._far = far
        self._metadata: Any = None  # what its footer says, of pyarrow, once it was read
        self._size, self.identity = self._state()

    @contextmanager
    def opened(self, ranges: Sequence[tuple[int, int]] = ()) -> Iterator[Any]:
        """The file as pyarrow's ParquetFile. DataError: it is not one, or is damaged where the block reads it.

        Args:
            ranges: (first byte, byte after the last) that will be read for sure. Of a far file they are fetched at the
                same time.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        opened: str | _RangeFile = self.where
        if self._far is not None:
            footer = [(max(0, self._size - _FOOTER_BYTES), self._size)] if self._metadata is None else []
            opened = _RangeFile(self._far, self.where, self._size, [*footer, *ranges])
        try:
            with pq.ParquetFile(
                opened,
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
        if self._state()[1] != self.identity:
            fix = "give the command again: it lists the file as it is"
            raise DataError(f"{self.where} has changed since it was listed", fix)

    def _state(self) -> tuple[int, str]:
        """Size and identity of what is there now."""
        if self._far is not None:
            size, version = self._far.state(self.where)
            if size is None:
                raise DataError(f"the server of {self.where} does not say its size", "copy the file to this machine")
            return size, f"{self.where}\0{size}\0{version}"
        try:
            status = os.stat(self.where)
        except OSError as error:
            raise DataError(f"cannot read {self.where}: {error.strerror}", "restore it") from error
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{self.where} is not a regular file", "give a parquet file")
        return status.st_size, f"{os.path.realpath(self.where)}\0{status.st_size}\0{status.st_mtime_ns}"


class _RangeFile(io.RawIOBase):
    """A far file as a file of Python: ranges that were fetched beforehand come from memory, the rest from far."""

    def __init__(self, far: "FarFiles", address: str, size: int, ranges: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self._far, self._address, self._size, self._place = far, address, size, 0
        wanted = [(address, start, min(stop, size)) for start, stop in ranges if start < min(stop, size)]
        contents = far.ranges(wanted) if wanted else []
        self._ready = [(start, content) for (_, start, _), content in zip(wanted, contents, strict=True)]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

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
        return self._far.ranges([(self._address, start, stop)])[0]


def chunks_of(metadata: Any, paths: Sequence[str]) -> list[list[Any]]:
    """The chunks of some columns, such as "image.path", in each row group, from pyarrow's metadata of a file."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    every = [[group.column(place) for place in range(group.num_columns)] for group in groups]
    return [[chunk for chunk in chunks if chunk.path_in_schema in paths] for chunks in every]
