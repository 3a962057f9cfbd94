"""Every image of a source opened once, on all cores; of each 800 bytes are kept, whatever its size."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vit.data.dataset import array_image
from vit.data.decode import ImageError, decode_image, image_format, read_bytes
from vit.data.fingerprint import SMALL, Bytes, Fingerprint, fingerprint
from vit.data.formats import FORMATS_OF
from vit.data.samples import Labels, Source
from vit.data.split import SPLITS
from vit.data.threads import decode_threads

_AT_ONCE = 32  # images that a thread takes at a time


class Listing:
    """All images of a source under one number: those of train, then validation, then test.

    Attributes:
        splits: names of the splits that the source has.
        class_names: names of the classes.
        split_numbers: (n,) place in `splits` of each image's split.
        labels: (n,) class numbers.
    """

    def __init__(self, source: Source) -> None:
        self.splits = [split for split in SPLITS if split in source.splits]
        self.class_names = source.class_names
        self._parts = [source.splits[split] for split in self.splits]
        self._starts = np.cumsum([0, *map(len, self._parts)])
        self.split_numbers: Labels = np.repeat(np.arange(len(self._parts)), [len(part) for part in self._parts])
        self.labels: Labels = np.concatenate([part.labels for part in self._parts])

    def __len__(self) -> int:
        return len(self.labels)

    def path(self, number: int) -> str:
        """An image's path as the user would write it, or its name where it is no file."""
        part, place = self._parts[self.split_numbers[number]], self._place(number)
        return part.paths[place] if part.root is None else os.fspath(part.file(place))

    def where(self, number: int) -> tuple[str, str, str]:
        """Split, class name and path of an image."""
        return self.splits[self.split_numbers[number]], self.class_names[self.labels[number]], self.path(number)

    def look(self, number: int) -> tuple[Fingerprint, str] | ImageError:
        """An image's fingerprint and the format of its file, empty where it is none; or why it cannot be read."""
        part, place = self._parts[self.split_numbers[number]], self._place(number)
        if part.arrays is not None:
            return fingerprint(array_image(part, place)), ""
        try:
            data = read_bytes(part.file(place))
            return fingerprint(decode_image(data, part.file(place))), image_format(data)
        except ImageError as error:
            return error

    def _place(self, number: int) -> int:
        return number - int(self._starts[self.split_numbers[number]])


class Seen:
    """What is kept of `count` images.

    Attributes:
        readable: (n,) whether the image could be decoded; what follows is zero where not.
        sides: (n, 2) height and width in pixels.
        spreads: (n,) largest difference between two pixels in a channel, in gray levels.
        hashes: (n,) perceptual hashes.
        small: (n, 768) 16x16 pictures.
        reasons: of each unreadable image, why.
        formats: the formats of files whose name promises another one.
    """

    def __init__(self, count: int) -> None:
        self.readable = np.zeros(count, dtype=np.bool_)
        self.sides = np.zeros((count, 2), dtype=np.int32)
        self.spreads = np.zeros(count, dtype=np.uint8)
        self.hashes: npt.NDArray[np.uint64] = np.zeros(count, dtype=np.uint64)
        self.small: Bytes = np.zeros((count, SMALL), dtype=np.uint8)
        self.reasons: dict[int, str] = {}
        self.formats: dict[int, str] = {}
        self._digests = np.zeros((count, 2), dtype=np.uint64)

    def add(self, number: int, image: Fingerprint) -> None:
        """Keep an image's fingerprint."""
        self.readable[number] = True
        self.sides[number] = image.height, image.width
        self.spreads[number] = image.spread
        self.hashes[number] = image.phash
        self.small[number] = image.small
        self._digests[number] = np.frombuffer(image.digest, dtype=np.uint64)

    def groups(self) -> Labels:
        """(n,) a number that images share if and only if their pixels are the same; -1 for unreadable images."""
        groups = np.full(len(self.readable), -1, dtype=np.int64)
        if self.readable.any():
            _, numbers = np.unique(self._digests[self.readable], axis=0, return_inverse=True)
            groups[self.readable] = numbers.reshape(-1)
        return groups


def inspect(listing: Listing, progress: Callable[[int, int], None]) -> Seen:
    """Open every image once; `progress` is told images done and images in all."""
    total = len(listing)
    seen = Seen(total)
    parts = [range(start, min(start + _AT_ONCE, total)) for start in range(0, total, _AT_ONCE)]

    def look(part: range) -> list[tuple[Fingerprint, str] | ImageError]:
        return [listing.look(number) for number in part]

    with decode_threads() as parallel:
        for part, looks in zip(parts, parallel(look, parts), strict=True):
            for number, found in zip(part, looks, strict=True):
                if isinstance(found, ImageError):
                    seen.reasons[number] = found.reason
                    continue
                image, file_format = found
                seen.add(number, image)
                ending = Path(listing.path(number)).suffix.lower()
                if file_format and file_format not in FORMATS_OF.get(ending, (file_format,)):
                    seen.formats[number] = file_format
            progress(part.stop, total)
    return seen
