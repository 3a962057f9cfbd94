"""Encoded images as bytes: of files, or of any other place that an `ImageReader` reads; nothing is decoded here."""

import hashlib
import os
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from vit.errors import DataError, ResourceError, how_to_read_again, is_of_machine
from vit.registry import SOURCES

MAX_BYTES = 512 * 2**20
HASH_BYTES = 16  # of a content hash
PAUSES = (0.1, 0.5, 2.0)  # seconds before a file is read again

Failure = Literal["unreadable", "not_image", "too_large"]

_OPENING = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))  # flags that this platform has


class ImageError(Exception):
    """An image that cannot be read."""

    def __init__(self, path: str | os.PathLike[str], kind: Failure, reason: str) -> None:
        super().__init__(f"{os.fspath(path)}: {reason}")
        self.path = os.fspath(path)  # of the file, or a name
        self.kind = kind
        self.reason = reason

    def __reduce__(self) -> tuple[type["ImageError"], tuple[str, Failure, str]]:
        return ImageError, (self.path, self.kind, self.reason)  # a worker process pickles its errors


@contextmanager
def damage(image_error: Callable[[Exception], ImageError]) -> Iterator[None]:
    """While entered: an error of a library, which may be any for an untrusted file, becomes the ImageError for it."""
    try:
        yield
    except ImageError:
        raise
    except Exception as error:
        raise image_error(error) from error


class ChangedError(DataError):
    """The bytes of an image are not those that were listed."""


class ImageReader(ABC):
    """Images that are not files below a folder: in shards, or on other machines. A path names each of them."""

    @property
    def shares_prepared(self) -> bool:
        """Whether what `prepare` fetches is then at hand for every process of this machine."""
        return False

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The encoded image with a path. ImageError where it cannot be read, DataError where no image can be."""

    def prepare(self, paths: Sequence[str]) -> None:  # noqa: B027  images that are near need nothing
        """Fetch several images at a time that are read next."""

    def content_hash(self, path: str) -> str:
        """The content hash of an image that begins as an image within the limits; "" where only its bytes tell."""
        return ""

    def versions(self, paths: Sequence[str]) -> list[str]:
        """(n,) a text of each image that changes with its bytes; "" of an image that is not there."""
        return [self.content_hash(path) for path in paths]

    def shards(self, paths: Sequence[str]) -> npt.NDArray[np.int64] | None:
        """(n,) number of the shard of each image; None where there are no shards."""
        return None


def address_reader() -> ImageReader:
    """A reader of images at addresses on other machines."""
    return cast(ImageReader, SOURCES["addresses"].load()())


class BytesReader(ImageReader):
    """An `ImageReader` of encoded images that are in memory, by their numbers as text."""

    def __init__(self, images: Sequence[bytes]) -> None:
        self._images = images

    def read(self, path: str) -> bytes:
        image = self._images[int(path)]
        if not image:
            raise ImageError(path, "not_image", "the file is empty")
        if len(image) > MAX_BYTES:
            raise ImageError(path, "too_large", f"more than {MAX_BYTES:,} bytes")
        return image


def content_hash(*parts: bytes) -> str:
    """The hash by which an image is recognized, whatever its name: of the bytes of its file."""
    return hashlib.blake2b(b"".join(parts), digest_size=HASH_BYTES).hexdigest()


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular file, without ever waiting for a FIFO or a device.

    What a disk or a network fails to give is asked for again: another image would change a training or a measurement.
    ImageError where the file is missing, empty, too large or not regular; ResourceError where the machine fails.
    """
    for pause in (*PAUSES, None):
        try:
            return _content(path)
        except ValueError as error:
            raise ImageError(path, "unreadable", str(error)) from error
        except OSError as error:
            reason = error.strerror or str(error)
            if not is_of_machine(error):
                raise ImageError(path, "unreadable", reason) from error
            if pause is None:
                problem = f"cannot read {os.fspath(path)}: {reason} ({len(PAUSES) + 1} attempts)"
                raise ResourceError(problem, how_to_read_again(error)) from error
            time.sleep(pause)
    raise AssertionError


def _content(path: str | os.PathLike[str]) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | _OPENING)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):  # before `open`, which has another message for a folder
            raise ImageError(path, "not_image", "not a regular file")
        if status.st_size == 0:
            raise ImageError(path, "not_image", "the file is empty")
        if status.st_size > MAX_BYTES:
            raise ImageError(path, "too_large", f"{status.st_size:,} bytes; the limit is {MAX_BYTES:,}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)
