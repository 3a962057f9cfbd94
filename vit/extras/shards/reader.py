"""Images of shards by their keys: a range of bytes each, checked by its hash."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vit.data.core.image_bytes import ChangedError, ImageReader
from vit.errors import DataError
from vit.extras.shards.index import ShardIndex


class ByteRange(NamedTuple):
    """The bytes of one image.

    Attributes:
        shard: path of the shard, relative to the index.
        start, stop: first byte, and the byte after the last one.
    """

    shard: str
    start: int
    stop: int


class Shards(ABC):
    """The shards of one index, wherever they lie."""

    @property
    def shares_prepared(self) -> bool:
        """Whether what `prepare` fetches is then at hand for every process of this machine."""
        return False

    @abstractmethod
    def read(self, part: ByteRange) -> bytes:
        """The bytes of a range; fewer where the shard ends before. DataError where the shard cannot be read."""

    def read_again(self, part: ByteRange) -> bytes:
        """The same from where the shards lie, if `read` may have given an old copy."""
        return self.read(part)

    def prepare(self, parts: Sequence[ByteRange]) -> None:  # noqa: B027  a system reads its own disks ahead
        """Fetch ranges that are read next."""


class ShardReader(ImageReader):
    """Reads the images of an index.

    Args:
        where: path of the index, for errors.
    """

    def __init__(self, index: ShardIndex, shards: Shards, where: str) -> None:
        self.index = index
        self._shards = shards
        self._where = where
        self._rows = {key: row for row, key in enumerate(index.keys)}

    @property
    def shares_prepared(self) -> bool:
        return self._shards.shares_prepared

    def read(self, path: str) -> bytes:
        row = self._rows[path]
        part = self._range(row)
        data = self._shards.read(part)
        if not self._is_listed(row, data):
            data = self._shards.read_again(part)
        if not self._is_listed(row, data):
            wanted = part.stop - part.start
            why = f"{len(data):,} of {wanted:,} bytes" if len(data) < wanted else "another sha256"
            raise ChangedError(
                f"{path!r} in {part.shard} is not the image that {self._where} lists ({why})",
                "restore the shard, or make the index again with 'vit data index'",
            )
        return data

    def prepare(self, paths: Sequence[str]) -> None:
        self._shards.prepare([self._range(self._rows[path]) for path in paths])

    def content_hash(self, path: str) -> str:
        return self.index.content_hashes[self._rows[path]]

    def shards(self, paths: Sequence[str]) -> npt.NDArray[np.int64]:
        rows = np.fromiter((self._rows[path] for path in paths), dtype=np.int64, count=len(paths))
        return self.index.shards[rows]

    def _range(self, row: int) -> ByteRange:
        start = int(self.index.offsets[row])
        return ByteRange(self.index.shard_names[self.index.shards[row]], start, start + int(self.index.lengths[row]))

    def _is_listed(self, row: int, data: bytes) -> bool:
        return hashlib.sha256(data).digest() == self.index.sha256[row]


class LocalShards(Shards):
    """Shards below a folder of this machine.

    Args:
        folder: folder of the index.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check(self, index: ShardIndex, where: str) -> None:
        """Raise DataError where a shard is missing, or ends before its last image."""
        for name, end in zip(index.shard_names, index.shard_ends().tolist(), strict=True):
            path = self._folder / name
            if not path.is_file():
                raise DataError(f"{where} lists the shard {name}, and there is no {path}", "restore the shard")
            size = path.stat().st_size
            if size < end:
                raise DataError(
                    f"the shard {path} has {size:,} bytes, and {where} lists images up to byte {end:,}",
                    "restore the shard, which is cut; or make the index again with 'vit data index'",
                )

    def read(self, part: ByteRange) -> bytes:
        path = self._folder / part.shard
        try:
            with open(path, "rb") as file:
                file.seek(part.start)
                return file.read(part.stop - part.start)
        except OSError as error:
            raise DataError(f"cannot read the shard {path}: {os.strerror(error.errno or 0)}", "restore it") from error
