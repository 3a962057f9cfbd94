"""One pass over all images of a source, on all cores, which keeps 800 bytes of each image

A pixel hash, a perceptual hash and a 16x16 thumbnail recognize an image. The perceptual hash is the DCT hash of Zauner
("Implementation and Benchmarking of Perceptual Image Hash Functions", 2010), as imagehash's `phash` defines it. Of
32x32 gray pixels, the 8x8 lowest frequencies of a discrete cosine transform give one bit each, above the median or not.
Saving or resizing a picture hardly changes the hash. The thumbnail tells different pictures of one hash apart.
"""

import hashlib
import threading
from collections.abc import Set
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from vit.data.checks.contents import KnownHashes, Progress, read_in_parts
from vit.data.core.image_bytes import ChangedError
from vit.data.core.image_files import FORMATS_OF
from vit.data.core.image_header import holds_frames, image_format, no_warnings, opened
from vit.data.core.samples import Labels, Samples, Source, label_names
from vit.data.pixels.decode import ImageError, decode_image, deep_values, from_pillow
from vit.data.pixels.images import image_of, measured_window
from vit.data.pixels.planes import ChannelsError, shown
from vit.data.pixels.preprocess import COLORS, Decoding, Window
from vit.data.splits.split import SPLITS

Bytes = npt.NDArray[np.uint8]
Squares = npt.NDArray[np.float32]

SIDE = 32  # pixels of the reduced picture
LOW = 8  # frequencies of the perceptual hash, per side
THUMBNAIL_SIDE = 16  # pixels
THUMBNAIL_SIZE = 3 * THUMBNAIL_SIDE**2  # values
NO_LABEL = "(no label)"  # in a table, of an image that may have several labels

_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # of ITU-R BT.601, as Pillow's "L"
_COSINES = np.cos(np.pi / SIDE * np.outer(np.arange(LOW), np.arange(SIDE) + 0.5)).astype(np.float32)


class ImageFacts(NamedTuple):
    """What is kept of one readable image. `FACTS` has the same fields."""

    sides: tuple[int, int]  # height and width in pixels
    pixel_hash: bytes  # 16 bytes, equal for two images if and only if the pixels of all channels are equal
    perceptual_hash: int  # 64 bits, half of them set; similar images differ in few bits
    thumbnail: Bytes  # (768,) the picture averaged to 16x16 pixels of three channels
    spread: int  # largest difference between two pixels of one channel; 0 for an image of one color
    channels: int  # gray images count as 3, because a training reads both alike
    is_deep: bool = False  # whether the values have more than 8 bits, and no window of their own
    has_frames: bool = False  # whether the file has several frames or pages, of which the first is read


FACTS = np.dtype([
    ("sides", np.int32, 2), ("pixel_hash", "V16"), ("perceptual_hash", np.uint64),
    ("thumbnail", np.uint8, THUMBNAIL_SIZE), ("spread", np.uint8), ("channels", np.uint8), ("is_deep", np.bool_),
    ("has_frames", np.bool_),
])  # fmt: skip


def hash_image(image: Tensor) -> ImageFacts:
    """The facts of upright pixels (C, H, W) uint8. Of other channels than three, people see some (`shown`)."""
    number, height, width = image.shape
    pixels = image.contiguous().numpy()
    digest = hashlib.blake2b(f"{height}x{width}:".encode(), digest_size=16)
    digest.update(pixels.data)
    channels = pixels.reshape(number, -1)
    spread = int((channels.max(1) - channels.min(1)).max())
    hashes, thumbnails = hash_squares(_square(image)[None])
    return ImageFacts((height, width), digest.digest(), int(hashes[0]), thumbnails[0], spread, number)


def small_square(samples: Samples, index: int, data: bytes, min_side: int) -> Squares | None:
    """The picture (3, 32, 32) that is hashed, with no more of its bytes decoded than it needs.

    A JPEG is decoded at an eighth or more of its size, at 64 pixels or more. The hashes differ from those of the whole
    picture by 2 bits at most for 97 of 100 photographs. None for an image that cannot be read, that has other channels
    than gray or colors, or a shorter side than `min_side`.
    """
    try:
        if samples.arrays is not None:
            image = image_of(samples, index)
        else:
            with no_warnings:
                small = opened(data, samples.name(index))
                if min(small.size) < min_side:
                    return None
                small.draft("RGB", (2 * SIDE, 2 * SIDE))
            image = from_pillow(small, samples.name(index)) if small.format == "JPEG" else decode_image(data)
    except ImageError:
        return None
    return _square(image) if min(image.shape[1:]) >= min_side else None


def _square(image: Tensor) -> Squares:
    reduced = TF.resize(shown(image), [SIDE, SIDE], interpolation=InterpolationMode.BILINEAR, antialias=True)
    return reduced.to(torch.float32).contiguous().numpy()


def hash_squares(squares: Squares) -> tuple[npt.NDArray[np.uint64], Bytes]:
    """(n,) perceptual hashes of 64 bits, and (n, 768) thumbnails of 16x16 pixels, of pictures (n, 3, 32, 32)."""
    frequencies = _COSINES @ np.tensordot(squares, _LUMA, axes=(1, 0)) @ _COSINES.T
    bits = frequencies > np.median(frequencies, axis=(1, 2), keepdims=True)
    hashes = np.packbits(bits.reshape(len(squares), -1), axis=1).view(">u8")[:, 0].astype(np.uint64)
    step = SIDE // THUMBNAIL_SIDE
    blocks = squares.reshape(-1, 3, THUMBNAIL_SIDE, step, THUMBNAIL_SIDE, step)
    return hashes, blocks.mean((3, 5)).round().astype(np.uint8).reshape(-1, THUMBNAIL_SIZE)


class ImageList:
    """All images of a source in one list: train first, then validation, then test."""

    def __init__(self, source: Source) -> None:
        self.splits = [split for split in SPLITS if split in source.splits]
        parts = [source.splits[split] for split in self.splits]
        self.samples = reduce(Samples.followed_by, parts)
        self.starts = np.cumsum([0, *map(len, parts)]).tolist()  # place of the first image of each split
        # (n,) index into `splits`, and (n,) class numbers or (n, K) labels
        self.split_numbers: Labels = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        self.labels: npt.NDArray[Any] = self.samples.labels
        self._first, self._names = parts[0], source.class_names
        self._lock, self._windows = threading.Lock(), dict[int, Window | None]()

    def __len__(self) -> int:
        return len(self.samples)

    def describe(self, image: int) -> tuple[str, str, str]:
        """Split, class name or labels, and path of an image as the user would write it, or its name."""
        (label,) = label_names(self.samples.select([image]), self._names)
        return self.splits[self.split_numbers[image]], label or NO_LABEL, self.samples.name(image)

    def places(self, wanted: Set[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Places in this list of images by their split and their path."""
        place_of: dict[tuple[str, str], int] = {}
        for image, number in enumerate(self.split_numbers.tolist()):
            key = self.splits[number], self.samples.name(image)
            if key in wanted:
                place_of.setdefault(key, image)
        return place_of

    def picture(self, image: int) -> Tensor | None:
        """Pixels of an image (3, H, W), as people see them; None where it cannot be read."""
        try:
            if self.samples.arrays is not None:
                return image_of(self.samples, image)
            return shown(self.pixels(image, self.samples.encoded(image))).contiguous()
        except (ImageError, ChangedError):
            return None

    def pixels(self, image: int, data: bytes) -> Tensor:
        """What a training sees of an image (C, H, W): three channels, or the file's own number."""
        name = self.samples.name(image)
        try:
            return decode_image(data, name, Decoding(self._window(COLORS)))
        except ChannelsError as error:
            return decode_image(data, name, Decoding(self._window(error.found), error.found))

    def _window(self, channels: int) -> Window | None:
        """The window that a training measures, once for each number of channels."""
        with self._lock:
            if channels not in self._windows:
                self._windows[channels] = measured_window(self._first, channels)
            return self._windows[channels]


@dataclass(frozen=True)
class ScannedImages:
    """What a scan keeps of n images."""

    facts: npt.NDArray[Any]  # (n,) of type FACTS; zeros where an image could not be decoded
    reasons: dict[int, str] = field(default_factory=dict)  # {image: why it cannot be read}
    # {image: format of the file}, where the ending of the file's name promises another format
    formats: dict[int, str] = field(default_factory=dict)

    @property
    def readable(self) -> npt.NDArray[np.bool_]:
        """(n,) whether the image could be decoded."""
        readable: npt.NDArray[np.bool_] = self.facts["sides"][:, 0] > 0
        return readable

    def groups(self) -> Labels:
        """(n,) a number that two images share if and only if their pixels are equal; -1 for unreadable images."""
        groups = np.full(len(self.facts), -1, dtype=np.int64)
        groups[self.readable] = np.unique(self.facts["pixel_hash"][self.readable], return_inverse=True)[1]
        return groups


def scan_images(images: ImageList, progress: Progress) -> ScannedImages:
    """Decode every image once."""
    scanned = ScannedImages(np.zeros(len(images), FACTS))

    def scan(_: KnownHashes, part: range) -> list[tuple[ImageFacts, str] | ImageError]:
        images.samples.prepare(part)
        return [_scan(images, image) for image in part]

    for _, part, results in read_in_parts([images.samples], scan, progress):
        for image, result in zip(part, results, strict=True):
            if isinstance(result, ImageError):
                scanned.reasons[image] = result.reason
                continue
            scanned.facts[image], file_format = result
            ending = Path(images.samples.paths[image]).suffix.lower()
            if file_format and file_format not in FORMATS_OF.get(ending, (file_format,)):
                scanned.formats[image] = file_format
    return scanned


def _scan(images: ImageList, image: int) -> tuple[ImageFacts, str] | ImageError:
    """The facts of an image, and the format of its file ("" for an array); or why the file cannot be read."""
    samples = images.samples
    if samples.arrays is not None:
        return hash_image(image_of(samples, image)), ""
    try:
        data = samples.encoded(image)
        pixels = images.pixels(image, data)
        is_deep = deep_values(data, samples.name(image), len(pixels)) is not None
        return hash_image(pixels)._replace(is_deep=is_deep, has_frames=holds_frames(data)), image_format(data)
    except ImageError as error:
        return error
    except ChangedError as error:
        return ImageError(samples.name(image), "unreadable", error.problem)
