"""Files on other machines that each hold one image, with a cache on this machine"""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from vit.data.core.image_bytes import MAX_BYTES, ImageError, ImageReader
from vit.extras.s3.cache import FETCHED_AT_ONCE, PartCache
from vit.extras.s3.far_files import FarFiles, MissingError, TooLargeError


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
            version = self._of(path).state(path)[1] or self._no_version
            self._keys[path] = hashlib.sha256(f"{path}\0{version}".encode("utf-8", "surrogateescape")).hexdigest()
        return self._keys[path]
