"""One pass over all images of a source, on all cores, which keeps 800 bytes of each image."""

import threading
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from vit.data.checks.image_hashes import THUMBNAIL_SIZE, Bytes, ImageHashes, hash_image
from vit.data.core.formats import FORMATS_OF
from vit.data.core.image_bytes import ChangedError
from vit.data.core.image_header import image_format
from vit.data.core.samples import Labels, Source
from vit.data.loading.dataset import image_of
from vit.data.loading.threads import decode_threads
from vit.data.pixels.decode import ImageError, decode_image, deep_values
from vit.data.pixels.gray_window import measured_window
from vit.data.pixels.planes import ChannelsError, shown
from vit.data.pixels.preprocess import COLORS, Decoding, Window
from vit.data.splits.split import SPLITS
from vit.tasks.label_text import label_text

NO_LABEL = "(no label)"  # in a table, of an image that may have several labels
_PER_TASK = 32  # images that a thread takes at a time


@dataclass(frozen=True)
class Scan:
    """What is kept of one readable image."""

    hashes: ImageHashes  # hashes of its pixels
    format: str  # format of its file; empty for arrays
    channels: int  # number of its channels, 3 for gray
    is_deep: bool  # whether its values have more than 8 bits


class ImageList:
    """All images of a source in one list: train first, then validation, then test.

    Attributes:
        splits: names of the source's splits.
        split_numbers: (n,) index into `splits` for each image.
        labels: (n,) class numbers; with several labels for an image a number for each set of labels.
    """

    def __init__(self, source: Source) -> None:
        self.splits = [split for split in SPLITS if split in source.splits]
        self._parts = [source.splits[split] for split in self.splits]
        self._starts = np.cumsum([0, *map(len, self._parts)])
        self.split_numbers: Labels = np.repeat(np.arange(len(self._parts)), [len(part) for part in self._parts])
        rows = np.concatenate([part.labels for part in self._parts])
        self.labels: Labels = rows
        self._rows: Labels = rows.reshape(len(rows), -1)  # (n, 1), or (n, L) with several labels for an image
        self._names: Sequence[str] = source.class_names
        self._lock, self._windows = threading.Lock(), dict[int, Window | None]()
        if not source.task.is_exclusive:
            sets, numbers = np.unique(rows, axis=0, return_inverse=True)
            self.labels = numbers.reshape(-1)
            self._names = [label_text(row, source.class_names) or NO_LABEL for row in sets]

    def __len__(self) -> int:
        return len(self.labels)

    def differ(self, one: Labels, other: Labels) -> npt.NDArray[np.bool_]:
        """Whether images (n,) have another class than others (n,), or another label that is known of both."""
        rows, others = self._rows[one], self._rows[other]
        differ: npt.NDArray[np.bool_] = ((rows != others) & (rows >= 0) & (others >= 0)).any(axis=-1)
        return differ

    def path(self, image: int) -> str:
        """The path as the user would write it; the name of an image that is not a file."""
        part, index = self._parts[self.split_numbers[image]], self._index_in_split(image)
        return part.name(index)

    def describe(self, image: int) -> tuple[str, str, str]:
        """Split, class name or labels, and path of an image."""
        return self.splits[self.split_numbers[image]], self._names[self.labels[image]], self.path(image)

    def places(self, wanted: Set[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Places in this list of images by their split and their path."""
        found: dict[tuple[str, str], int] = {}
        for image, number in enumerate(self.split_numbers.tolist()):
            key = self.splits[number], self.path(image)
            if key in wanted:
                found.setdefault(key, image)
        return found

    def number(self, split: str, index: int) -> int:
        """The place in this list of an image by its place in a split."""
        return int(self._starts[self.splits.index(split)]) + index

    def picture(self, image: int) -> Tensor | None:
        """Pixels of an image (3, H, W), as people see them; None where it cannot be read."""
        part, index = self._parts[self.split_numbers[image]], self._index_in_split(image)
        try:
            if part.arrays is not None:
                return image_of(part, index)
            return shown(self._pixels(part.encoded(index), part.name(index))).contiguous()
        except (ImageError, ChangedError):
            return None

    def prepare(self, images: range) -> None:
        """Fetch images that are read next, where they are on other machines."""
        for number, part in enumerate(self._parts):
            first = int(self._starts[number])
            own = [image - first for image in images if first <= image < first + len(part)]
            part.prepare(own)

    def scan(self, image: int) -> Scan | ImageError:
        """What is kept of an image, or why the file cannot be read."""
        part, index = self._parts[self.split_numbers[image]], self._index_in_split(image)
        if part.arrays is not None:
            return Scan(hash_image(image_of(part, index)), "", COLORS, False)
        try:
            data = part.encoded(index)
            pixels = self._pixels(data, part.name(index))
            is_deep = deep_values(data, part.name(index), len(pixels)) is not None
            return Scan(hash_image(pixels), image_format(data), len(pixels), is_deep)
        except ImageError as error:
            return error
        except ChangedError as error:
            return ImageError(part.name(index), "unreadable", error.problem)

    def _pixels(self, data: bytes, name: str) -> Tensor:
        """What a training sees of an image (C, H, W): three channels, or the file's own number."""
        try:
            return decode_image(data, name, Decoding(self._window(COLORS)))
        except ChannelsError as error:
            return decode_image(data, name, Decoding(self._window(error.found), error.found))

    def _window(self, channels: int) -> Window | None:
        """The window that a training measures, once for each number of channels."""
        with self._lock:
            if channels not in self._windows:
                self._windows[channels] = measured_window(self._parts[0], channels)
            return self._windows[channels]

    def _index_in_split(self, image: int) -> int:
        return image - int(self._starts[self.split_numbers[image]])


class ScannedImages:
    """What a scan keeps of n images.

    Attributes:
        readable: (n,) whether the image could be decoded; the arrays below are zero where not.
        sides: (n, 2) height and width in pixels.
        channels: (n,) number of channels; gray images count as 3, because a training reads both alike.
        deep: (n,) whether the values have more than 8 bits, and no window of their own.
        spreads: (n,) largest difference between two pixels of one channel, in gray levels.
        perceptual_hashes: (n,) 64 bits each.
        thumbnails: (n, 768) pictures of 16x16 pixels.
        reasons: {image: why it cannot be read}.
        formats: {image: format of the file}, where the ending of the file's name promises another format.
    """

    def __init__(self, num_images: int) -> None:
        self.readable = np.zeros(num_images, dtype=np.bool_)
        self.sides = np.zeros((num_images, 2), dtype=np.int32)
        self.channels = np.zeros(num_images, dtype=np.uint8)
        self.deep = np.zeros(num_images, dtype=np.bool_)
        self.spreads = np.zeros(num_images, dtype=np.uint8)
        self.perceptual_hashes: npt.NDArray[np.uint64] = np.zeros(num_images, dtype=np.uint64)
        self.thumbnails: Bytes = np.zeros((num_images, THUMBNAIL_SIZE), dtype=np.uint8)
        self.reasons: dict[int, str] = {}
        self.formats: dict[int, str] = {}
        self._pixel_hashes = np.zeros((num_images, 2), dtype=np.uint64)

    def add(self, image: int, hashes: ImageHashes) -> None:
        """Keep the hashes of an image."""
        self.readable[image] = True
        self.sides[image] = hashes.height, hashes.width
        self.spreads[image] = hashes.spread
        self.perceptual_hashes[image] = hashes.perceptual_hash
        self.thumbnails[image] = hashes.thumbnail
        self._pixel_hashes[image] = np.frombuffer(hashes.pixel_hash, dtype=np.uint64)

    def groups(self) -> Labels:
        """(n,) a number that two images share if and only if their pixels are equal; -1 for unreadable images."""
        groups = np.full(len(self.readable), -1, dtype=np.int64)
        if self.readable.any():
            _, numbers = np.unique(self._pixel_hashes[self.readable], axis=0, return_inverse=True)
            groups[self.readable] = numbers.reshape(-1)
        return groups


def scan_images(images: ImageList, progress: Callable[[int, int], None]) -> ScannedImages:
    """Decode every image once.

    Args:
        progress: called with the number of finished images and the number of all images.
    """
    total = len(images)
    scanned = ScannedImages(total)
    parts = [range(start, min(start + _PER_TASK, total)) for start in range(0, total, _PER_TASK)]

    def scan(part: range) -> list[Scan | ImageError]:
        images.prepare(part)
        return [images.scan(image) for image in part]

    with decode_threads() as parallel:
        for part, results in zip(parts, parallel(scan, parts), strict=True):
            for image, result in zip(part, results, strict=True):
                if isinstance(result, ImageError):
                    scanned.reasons[image] = result.reason
                    continue
                file_format = result.format
                scanned.add(image, result.hashes)
                scanned.channels[image], scanned.deep[image] = result.channels, result.is_deep
                ending = Path(images.path(image)).suffix.lower()
                if file_format and file_format not in FORMATS_OF.get(ending, (file_format,)):
                    scanned.formats[image] = file_format
            progress(part.stop, total)
    return scanned
