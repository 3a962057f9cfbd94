"""Files on other machines that each hold one image, and the cache on this machine, which far shards and tables share

The cache is bounded, shared by all processes, and has each file whole or absent. A file that is read is touched. Where
the folder grows too large, the files that were not read for the longest time are removed. A process that reads a file
while another one removes it fetches it again.

VIT_CACHE     folder; default ~/.cache/vit-lightning/shards (XDG_CACHE_HOME counts)
VIT_CACHE_GB  largest size in gigabytes; default 20; 0 keeps nothing
"""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from vit.atomic_files import ABANDONED_SECONDS, partial_name
from vit.data.core.image_bytes import MAX_BYTES, ImageError, ImageReader
from vit.errors import UsageError
from vit.extras.s3.far_files import FETCHED_AT_ONCE, FarFiles, MissingError, TooLargeError
from vit.layout import cache_folder

DEFAULT_GIGABYTES = 20.0
_KEPT = 0.9  # of the largest size, after files were removed
_COUNT_AFTER, _LEAST = 1 / 8, 1 / 100  # of the free part, and of all, that a process writes between two counts
_T = TypeVar("_T")


class PartCache:
    """Files by their keys, of at most so many bytes together; 0 keeps nothing."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._until_count = 0.0  # bytes that this process may still write before it counts the folder's size

    @classmethod
    def of_machine(cls) -> "PartCache":
        """The cache that the environment names. UsageError where VIT_CACHE_GB is not a number."""
        folder = Path(os.environ.get("VIT_CACHE") or cache_folder("shards")).expanduser()
        limit = os.environ.get("VIT_CACHE_GB") or str(DEFAULT_GIGABYTES)
        try:
            gigabytes = float(limit)
            if not 0 <= gigabytes < float("inf"):
                raise ValueError
        except ValueError as error:
            raise UsageError(f"VIT_CACHE_GB is {limit!r}", "give gigabytes, such as 20; 0 keeps nothing") from error
        return cls(folder, int(gigabytes * 1e9))

    def get(self, key: str, first: int = 0, stop: int | None = None) -> bytes | None:
        """The content of a key from byte `first` to before `stop`, or None where it is not there."""
        path = self._path(key)
        try:
            with open(path, "rb", buffering=0) as file:
                file.seek(first)
                content = file.read(-1 if stop is None else stop - first)
            os.utime(path)
        except OSError:
            return None
        return content

    def has(self, key: str) -> bool:
        """Whether a key is there; another process may remove it at any time."""
        return self._path(key).is_file()

    def fill(self, wanted: Mapping[str, _T], fetch: Callable[[list[_T]], object]) -> None:
        """Have what is missing fetched, a few at a time, by a function that puts it into the cache.

        Args:
            wanted: key of each content, and what `fetch` calls it.
        """
        missing = [name for key, name in wanted.items() if not self.has(key)]
        for first in range(0, len(missing), FETCHED_AT_ONCE):
            fetch(missing[first : first + FETCHED_AT_ONCE])

    def put(self, key: str, content: bytes) -> None:
        """Keep a content. A full disk is not an error: the content is fetched again where it is needed."""
        if len(content) > self.max_bytes:
            return
        path = self._path(key)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = partial_name(path)
            try:
                partial.write_bytes(content)
                os.replace(partial, path)
            except OSError:
                partial.unlink(missing_ok=True)
                raise
        self._until_count -= len(content)
        if self._until_count < 0:  # so a file costs the same, whether the cache has a thousand or a million
            free = self.max_bytes - self._shrink()
            self._until_count = max(free * _COUNT_AFTER, self.max_bytes * _LEAST)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def _shrink(self) -> int:
        """Remove the files that were not read for the longest time, where the folder is too large; its size then."""
        files: list[tuple[float, int, str]] = []
        now = time.time()
        for folder in self.folder.glob("*/"):
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(OSError):  # another process has removed it
                        status = entry.stat()
                        if not entry.name.startswith("."):
                            files.append((status.st_mtime, status.st_size, entry.path))
                        elif now - status.st_mtime >= ABANDONED_SECONDS:  # a partial file
                            Path(entry.path).unlink()
        size = sum(length for _, length, _ in files)
        for _, length, path in sorted(files) if size > self.max_bytes else ():
            if size <= self.max_bytes * _KEPT:
                break
            with suppress(OSError):
                Path(path).unlink()
            size -= length
        return min(size, self.max_bytes)


class FarImages(ImageReader):
    """Files that each hold one image, by their addresses.

    The cache has a file under its address and its version, such as its ETag. The version is asked for once, so that a
    training keeps the files that it began with, as long as the cache does. Its loader workers are copies of this object
    and know the versions. A server may have no versions. Then the files are kept for this object and its copies alone.
    """

    def __init__(self) -> None:
        self._cache = PartCache.of_machine()
        self._files: dict[str, FarFiles] = {}
        self._keys: dict[str, str] = {}  # key in the cache of each address whose version is known
        self._no_version = secrets.token_hex()  # stands for the versions that a server does not have

    @property
    def shares_prepared(self) -> bool:
        return self._cache.max_bytes > 0

    def read(self, path: str) -> bytes:
        try:
            content = self._cache.get(self._key(path)) if self.shares_prepared else None
            if not content:  # after a power cut a file of the cache may be empty
                content = self._fetch(path)
        except MissingError as error:
            raise ImageError(path, "unreadable", "there is no such file") from error
        except TooLargeError as error:
            raise ImageError(path, "too_large", f"more than {MAX_BYTES:,} bytes") from error
        if not content:
            raise ImageError(path, "not_image", "the file is empty")
        return content

    def prepare(self, paths: Sequence[str]) -> None:
        """Fetch the files that the cache does not have. A file that is not there, or too large, is left to `read`."""
        if self.shares_prepared:
            self._at_once(self._key, [path for path in paths if path not in self._keys])
            known = {self._keys[path]: path for path in paths if path in self._keys}
            self._cache.fill(known, partial(self._at_once, self._fetch))

    def versions(self, paths: Sequence[str]) -> list[str]:
        """(n,) the keys of the files in the cache."""
        self._at_once(self._key, [path for path in paths if path not in self._keys])
        return [self._keys.get(path, "") for path in paths]

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

    def _of(self, path: str) -> FarFiles:
        kind = path.partition("://")[0]
        if kind not in self._files:
            self._files[kind] = FarFiles(path, MAX_BYTES)
        return self._files[kind]

    def _key(self, path: str) -> str:
        """The key of a file in the cache. The first call for a file asks its server for the version."""
        if path not in self._keys:
            version = self._of(path).version(path) or self._no_version
            self._keys[path] = hashlib.sha256(f"{path}\0{version}".encode("utf-8", "surrogateescape")).hexdigest()
        return self._keys[path]
