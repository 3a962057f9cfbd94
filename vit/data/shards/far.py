"""Shards on other machines, and files that each hold one image, with a cache on this machine

A shard is fetched in parts of equal size, because a training reads neighboring images soon after each other. The cache
keeps only answers of the right length. `ShardReader` checks every image by its hash.
"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from vit.data.image_bytes import MAX_BYTES, ImageError
from vit.data.shards.cache import FETCHED_AT_ONCE, PartCache
from vit.data.shards.far_files import FarFiles, MissingError, Patience, TooLargeError, far_files
from vit.data.shards.index import ShardIndex
from vit.data.shards.reader import ByteRange

PART_BYTES = 2**20
_MOST_READY = 4096  # images


class FarShards:
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
        """Whether parts are kept in the cache of this machine."""
        return self._cache.max_bytes > 0

    def read(self, part: ByteRange) -> bytes:
        """The bytes of a range, from the cache or from far.

        Raises:
            DataError: the shard does not come.
        """
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
        """Fetch the parts of shards that the cache does not have, all at the same time; without a cache, the ranges.

        Raises:
            DataError: one does not come.
        """
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


class FarImages:
    """Files that each hold one image, by their addresses.

    The cache has a file under its address and its version, such as its ETag. The version is asked for once, so that a
    training keeps the files that it began with, as long as the cache does. Its loader workers are copies of this object
    and know the versions. A server may have no versions. Then the files are kept for this object and its copies alone.

    Args:
        patience: how long files are waited for.
        cache: files on this machine; None: the cache that the environment names.
    """

    def __init__(self, patience: Patience | None = None, cache: PartCache | None = None) -> None:
        self._patience = patience
        self._cache = cache or PartCache.of_machine()
        self._files: dict[str, FarFiles] = {}
        self._keys: dict[str, str] = {}  # key in the cache of each address whose version is known
        self._no_version = secrets.token_hex()  # stands for the versions that a server does not have

    @property
    def shares_prepared(self) -> bool:
        """Whether files are kept in the cache of this machine."""
        return self._cache.max_bytes > 0

    def read(self, path: str) -> bytes:
        """The encoded image at an address.

        Raises:
            ImageError: the file is not there, is empty or too large.
            DataError: it is refused, or does not come.
        """
        try:
            content = self._cache.get(self._key(path)) if self.shares_prepared else None
            if content is None:
                content = self._fetch(path)
        except MissingError as error:
            raise ImageError(path, "unreadable", "there is no such file") from error
        except TooLargeError as error:
            raise ImageError(path, "too_large", f"more than {MAX_BYTES:,} bytes") from error
        if not content:
            raise ImageError(path, "not_image", "the file is empty")
        return content

    def prepare(self, paths: Sequence[str]) -> None:
        """Fetch the files that the cache does not have, several at a time.

        Raises:
            DataError: one is refused, or does not come. A file that is not there, or too large, is left to `read`.
        """
        if self.shares_prepared:
            self._at_once(self._key, [path for path in paths if path not in self._keys])
            self._cache.fill({self._keys[path]: path for path in paths if path in self._keys}, self._fetch_all)

    def _fetch_all(self, paths: list[str]) -> None:
        self._at_once(self._fetch, paths)

    def _at_once(self, ask: Callable[[str], object], paths: Sequence[str]) -> None:
        """Ask for several files at the same time. A file that is not there, or too large, is passed over."""
        for path in paths:
            self._of(path)  # opened here, not by several threads
        with ThreadPoolExecutor(FETCHED_AT_ONCE) as pool:
            for asked in [pool.submit(ask, path) for path in paths]:
                with suppress(MissingError, TooLargeError):
                    asked.result()

    def _fetch(self, path: str) -> bytes:
        """A file from far, which is kept."""
        content = self._of(path).whole(path)
        if self.shares_prepared:
            self._cache.put(self._key(path), content)
        return content

    def content_hash(self, path: str) -> str:
        """Only the bytes of a file tell."""
        return ""

    def shards(self, paths: Sequence[str]) -> npt.NDArray[np.int64] | None:
        """There are no shards."""
        return None

    def _of(self, path: str) -> FarFiles:
        kind = path.partition("://")[0]
        if kind not in self._files:
            self._files[kind] = far_files(path, self._patience, MAX_BYTES)
        return self._files[kind]

    def _key(self, path: str) -> str:
        """The key of a file in the cache. The first call for a file asks its server for the version."""
        if path not in self._keys:
            version = self._of(path).version(path) or self._no_version
            self._keys[path] = hashlib.sha256(f"{path}\0{version}".encode("utf-8", "surrogateescape")).hexdigest()
        return self._keys[path]
