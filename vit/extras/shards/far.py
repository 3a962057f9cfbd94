"""Shards on other machines, with a cache on this machine

A shard is fetched in parts of equal size, because a training reads neighboring images soon after each other. The cache
keeps only answers of the right length. `ShardReader` checks every image by its hash.
"""

import hashlib
from collections.abc import Sequence

from vit.extras.s3.cache import PartCache
from vit.extras.s3.far_files import FarFiles
from vit.extras.shards.index import ShardIndex
from vit.extras.shards.reader import ByteRange, Shards

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
