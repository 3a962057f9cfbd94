"""Parts of far shards on this machine's disk: bounded, shared by all processes, each file whole or absent.

VIT_CACHE     folder; default ~/.cache/vit-lightning/shards (XDG_CACHE_HOME counts)
VIT_CACHE_GB  largest size in gigabytes; default 20; 0 keeps nothing

A file that is read is touched. Where the folder grows too large, the files that were not read for the longest time
are removed. A process that reads a file while another one removes it fetches it again.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from vit.atomic_files import ABANDONED_SECONDS, partial_name
from vit.errors import UsageError
from vit.layout import cache_folder

DEFAULT_GIGABYTES = 20.0
_KEPT = 0.9  # of the largest size, after files were removed
_COUNT_AFTER, _LEAST = 1 / 8, 1 / 100  # of the free part, and of all, that a process writes between two counts
FETCHED_AT_ONCE = 8  # requests of a process: small servers drop connections, if 50 come at the same time
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
        given = os.environ.get("VIT_CACHE_GB") or str(DEFAULT_GIGABYTES)
        try:
            gigabytes = float(given)
            if not 0 <= gigabytes < float("inf"):
                raise ValueError
        except ValueError as error:
            raise UsageError(f"VIT_CACHE_GB is {given!r}", "give gigabytes, such as 20; 0 keeps nothing") from error
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
        found: list[tuple[float, int, str]] = []
        now = time.time()
        for folder in self.folder.glob("*/"):
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(OSError):  # another process has removed it
                        status = entry.stat()
                        if not entry.name.startswith("."):
                            found.append((status.st_mtime, status.st_size, entry.path))
                        elif now - status.st_mtime >= ABANDONED_SECONDS:  # a partial file
                            Path(entry.path).unlink()
        size = sum(length for _, length, _ in found)
        for _, length, path in sorted(found) if size > self.max_bytes else ():
            if size <= self.max_bytes * _KEPT:
                break
            with suppress(OSError):
                Path(path).unlink()
            size -= length
        return min(size, self.max_bytes)
