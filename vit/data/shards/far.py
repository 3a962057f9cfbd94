"""Shards and files on other machines, read by fsspec in ranges: tried again with pauses, and kept in a cache.

An answer is trusted only as far as its length here; `ShardReader` checks every image by its hash. A shard is fetched in
parts of equal size, because a training reads neighboring images soon after each other.
"""

import hashlib
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vit.data.image_bytes import MAX_BYTES, ImageError
from vit.data.shards.cache import PartCache
from vit.data.shards.index import ShardIndex
from vit.data.shards.reader import ByteRange
from vit.errors import DataError, UsageError, first_line, install

PART_BYTES = 2**20
_MOST_READY = 4096  # images
EXTRAS = {"s3": "s3", "gs": "gcs"}  # kind of address -> extra with its library
_REFUSED = (401, 403)
_NO_SUCH_RANGE = 416
_PASSING = (408, 425, 429)  # answers below 500 that may change


@dataclass(frozen=True)
class Patience:
    """How long far files are waited for.

    Attributes:
        attempts: number of times that a range is asked for.
        first_pause: seconds before the second time; every pause is about twice the one before.
        seconds: time without a byte after which an answer is given up.
    """

    attempts: int = 6
    first_pause: float = 0.5
    seconds: float = 30.0


PATIENCE = Patience()


class MissingError(DataError):
    """A file that is not there."""


class FarFiles:
    """Files of one kind of address.

    Args:
        kind: https, http, s3 or gs.
        patience: how long files are waited for.
    """

    def __init__(self, kind: str, patience: Patience) -> None:
        self._kind, self._patience = kind, patience
        self._opened: tuple[int, Any] | None = None  # process, and its file system: a fork needs its own

    def whole(self, address: str) -> bytes:
        """The content of a file.

        Raises:
            DataError: it is not there, is refused, or does not come.
        """
        return self.ranges([(address, None, None)])[0]

    def ranges(self, wanted: Sequence[tuple[str, int | None, int | None]]) -> list[bytes]:
        """Ranges of files, fetched at the same time: (address, first byte, byte after the last) -> all these bytes.

        Raises:
            DataError: one is not there, is refused, or does not come.
        """
        found: dict[int, bytes] = {}
        failed: Exception | None = None
        for attempt in range(self._patience.attempts):
            missing = [place for place in range(len(wanted)) if place not in found]
            if not missing:
                break
            if attempt:
                pause = self._patience.first_pause * 2 ** (attempt - 1)
                time.sleep(pause * random.uniform(0.75, 1.25))  # noqa: S311  processes must not ask all at once
            addresses, starts, stops = zip(*(wanted[place] for place in missing), strict=True)
            answers = self._ask(list(addresses), list(starts), list(stops))
            for place, answer in zip(missing, answers, strict=True):
                address = wanted[place][0]
                if isinstance(answer, bytes):
                    found[place] = answer
                elif isinstance(answer, Exception):
                    self._raise_final(address, answer)
                    failed = answer
        if len(found) < len(wanted):
            address = next(wanted[place][0] for place in range(len(wanted)) if place not in found)
            raise DataError(
                f"{address} does not come after {self._patience.attempts} attempts: {_words(failed)}",
                "check the network and the address; 'vit train --resume' continues a training",
            ) from failed
        return [found[place] for place in range(len(wanted))]

    def _ask(self, addresses: list[str], starts: list[int | None], stops: list[int | None]) -> list[Any]:
        """What comes for each range: bytes or an exception."""
        try:
            answers: list[Any] = self._files().cat_ranges(addresses, starts, stops, on_error="return")
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001  libraries of object stores raise errors of many types
            return [error] * len(addresses)
        for place, (start, stop, answer) in enumerate(zip(starts, stops, answers, strict=True)):
            if isinstance(answer, bytes) and start is not None and stop is not None and len(answer) != stop - start:
                answers[place] = OSError(f"{len(answer):,} bytes came instead of the {stop - start:,} of a range")
        return answers

    def _raise_final(self, address: str, error: Exception) -> None:
        """Raise DataError where another attempt would end the same."""
        status = getattr(error, "status", None) or getattr(error, "code", None)
        if isinstance(error, FileNotFoundError) or status in (404, 410):
            raise MissingError(f"there is no {address}", "check the address") from error
        if isinstance(error, PermissionError) or status in _REFUSED or "credential" in str(error).casefold():
            raise DataError(
                f"{address} is refused ({_words(error)})", "check the permissions and credentials of this machine"
            ) from error
        if status == _NO_SUCH_RANGE:
            fix = "restore the file, which is cut; or make the index again with 'vit data index'"
            raise DataError(f"{address} ends before the bytes that the index lists", fix) from error
        if isinstance(status, int) and 400 <= status < 500 and status not in _PASSING:
            raise DataError(f"{address} cannot be read ({_words(error)})", "check the address") from error

    def _files(self) -> Any:
        """The file system of fsspec of this process."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), _open(self._kind, self._patience)
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def far_files(address: str, patience: Patience | None = None) -> FarFiles:
    """The files of the kind of an address.

    Raises:
        UsageError: the library for them is not installed.
    """
    kind = address.partition("://")[0]
    files = FarFiles(kind, patience or PATIENCE)
    files._files()
    return files


def _open(kind: str, patience: Patience) -> Any:
    import fsspec

    options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    try:
        if kind in ("http", "https"):
            import aiohttp

            timeout = aiohttp.ClientTimeout(total=None, sock_connect=patience.seconds, sock_read=patience.seconds)
            options["client_kwargs"] = {"timeout": timeout}
        elif kind == "s3":
            options["config_kwargs"] = {"connect_timeout": patience.seconds, "read_timeout": patience.seconds}
        return fsspec.filesystem(kind, **options)
    except ImportError as error:
        extra = EXTRAS.get(kind)
        fix = install(extra) if extra else "pip install aiohttp"
        raise UsageError(f"{kind}:// needs a library that is not installed: {first_line(error)}", fix) from error


def _words(error: Exception | None) -> str:
    if error is None:
        return "no answer"
    status = getattr(error, "status", None)
    return f"{type(error).__name__}: {status or first_line(error)}"


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

    def read(self, part: ByteRange) -> bytes:
        """The bytes of a range, from the cache or from far.

        Raises:
            DataError: the shard does not come.
        """
        if self._cache.max_bytes == 0:
            ready = self._ready.pop(part, None)
            return ready if ready is not None else self._fetch_exactly([part])[0]
        numbers = _parts(part)
        contents = self._get(part.shard, numbers)
        joined = b"".join(contents)
        first = part.start - numbers.start * PART_BYTES
        return joined[first : first + part.stop - part.start]

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
        if self._cache.max_bytes == 0:
            if len(self._ready) > _MOST_READY:  # of callers that do not read what they asked for
                self._ready.clear()
            self._ready.update(zip(parts, self._fetch_exactly(parts), strict=True))
            return
        wanted = dict.fromkeys((part.shard, number) for part in parts for number in _parts(part))
        self._fetch([one for one in wanted if not self._cache.has(self._key(*one))])

    def _get(self, shard: str, numbers: range) -> list[bytes]:
        """Some parts of a shard."""
        found = {number: self._cache.get(self._key(shard, number)) for number in numbers}
        missing = [number for number, content in found.items() if content is None]
        fetched = dict(zip(missing, self._fetch([(shard, number) for number in missing]), strict=True))
        return [content if (content := found[number]) is not None else fetched[number] for number in numbers]

    def _fetch(self, wanted: list[tuple[str, int]]) -> list[bytes]:
        """Parts of shards from far. Each is kept."""
        if not wanted:
            return []
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

    Args:
        patience: how long files are waited for.
        cache: files on this machine; None: the cache that the environment names.
    """

    def __init__(self, patience: Patience | None = None, cache: PartCache | None = None) -> None:
        self._patience = patience or PATIENCE
        self._cache = cache or PartCache.of_machine()
        self._files: dict[str, FarFiles] = {}

    def read(self, path: str) -> bytes:
        """The encoded image at an address.

        Raises:
            ImageError: the file is not there, is empty or too large.
            DataError: it is refused, or does not come.
        """
        content = self._cache.get(_key(path))
        if content is None:
            try:
                content = self._of(path).whole(path)
            except MissingError as error:
                raise ImageError(path, "unreadable", "there is no such file") from error
            self._cache.put(_key(path), content)
        if not content:
            raise ImageError(path, "not_image", "the file is empty")
        if len(content) > MAX_BYTES:
            raise ImageError(path, "too_large", f"more than {MAX_BYTES:,} bytes")
        return content

    def prepare(self, paths: Sequence[str]) -> None:
        """Nothing is fetched beforehand."""

    def content_hash(self, path: str) -> str:
        """Only the bytes of a file tell."""
        return ""

    def shards(self, paths: Sequence[str]) -> npt.NDArray[np.int64] | None:
        """There are no shards."""
        return None

    def _of(self, path: str) -> FarFiles:
        kind = path.partition("://")[0]
        if kind not in self._files:
            self._files[kind] = far_files(path, self._patience)
        return self._files[kind]


def _key(address: str) -> str:
    return hashlib.sha256(address.encode("utf-8", "surrogateescape")).hexdigest()
