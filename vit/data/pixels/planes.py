"""Planes: the values of an image as they stand in its file, before they become 8 bits; and their window"""

import os
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from vit.data.core.image_bytes import ImageError
from vit.data.pixels.preprocess import COLORS, Window
from vit.registry import IMAGE_READERS

MAX_VALUE_BYTES = 768_000_000  # of decoded planes: 64 million pixels of three 32-bit values
ORIENTATION_TAG = 274  # of TIFF and EXIF
DARKEST = 4096  # below it the high bytes of an image are fewer than 16 levels, as of a camera of 12 bits
_LUMA = (19_595, 38_470, 7_471)  # of 65,536: ITU-R BT.601, as Pillow's "L"


class ValuesError(ValueError):
    """Values of more than 8 bits that are not gray levels."""


class ChannelsError(ImageError):
    """An image that can be read, with another number of channels than the model's."""

    def __init__(self, path: str | os.PathLike[str], found: int, channels: int) -> None:
        count = "1 channel" if found == 1 else f"{found} channels"
        super().__init__(path, "unreadable", f"{count}, and the model sees {channels} (model.preprocess.channels)")
        self.found = found  # number of its channels


@dataclass(frozen=True)
class Planes:
    """The values of an image."""

    values: npt.NDArray[Any]  # (C, H, W) of the file's type
    window: Window | None = None  # values that the file itself says are black and white; None: it says nothing
    is_inverted: bool = False  # whether the lowest value is white
    full_range: Window | None = None  # all values that the bits of the file can be; None: those of its type
    orientation: int = 1  # how the values lie, by the numbers of EXIF; 1: upright

    @property
    def is_deep(self) -> bool:
        """Whether the values need more than 8 bits."""
        return self.values.dtype not in (np.uint8, np.bool_)


class FormatReader(Protocol):
    """Reads images of a format that Pillow does not read, or does not keep whole."""

    def header_size(self, data: bytes, path: str | os.PathLike[str]) -> tuple[int, int]:
        """(width, height) by the header; no pixel is decoded. ImageError for a file that is not read."""

    def read(self, data: bytes, path: str | os.PathLike[str], window: Window | None, channels: int) -> Planes:
        """The planes for a model with some number of channels. ImageError as above."""


def format_reader(image_format: str) -> FormatReader:
    """The reader of DICOM or TIFF images."""
    return cast(FormatReader, IMAGE_READERS[image_format].import_module())


def as_pixels(planes: Planes, window: Window | None) -> Tensor:
    """Planes (C, H, W) as uint8.

    Values of 8 bits stay as they are. Others are seen through the window of the model, else of the file, else as all
    values of 16 bits. One plane seen through a window for each of three colors gives three planes. ValuesError where
    values need a window and there is none, or are not finite.
    """
    values = planes.values
    window = window or planes.window or planes.full_range
    if not planes.is_deep:
        levels = values * np.uint8(255) if values.dtype == np.bool_ else values
    elif window is not None:
        if len(values) == 1 and len(window) == 2 * COLORS:
            values = values.repeat(COLORS, axis=0)
        pairs = window if len(window) == 2 * len(values) else window[:2] * len(values)  # who reads refuses others
        levels = np.empty(values.shape, dtype=np.uint8)
        for plane, low, high, level in zip(values, pairs[::2], pairs[1::2], levels, strict=True):
            if plane.dtype.kind == "f" and not np.isfinite(plane).all():
                raise ValuesError("pixels that are not finite numbers")
            level[:] = np.rint(np.clip((plane.astype(np.float64) - low) / (high - low), 0, 1) * 255)
    else:
        levels = without_window(values).astype(np.uint8)
    levels = np.ascontiguousarray(255 - levels if planes.is_inverted else levels)
    return torch.from_numpy(levels.copy() if not levels.flags.writeable else levels)


def without_window(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values of 16 bits as 0 to 255; floating-point values from 0 to 255, or from 0 to 1. ValuesError for others."""
    if values.dtype.kind == "f":
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > 255:
            raise ValuesError("floating-point pixels outside 0 to 255 are not gray values without a window")
        return values * 255 if values.max() <= 1 else values
    if values.min() < 0 or values.max() > 65_535:
        raise ValuesError(f"{8 * values.itemsize}-bit integers outside 0 to 65535 are not gray values without a window")
    if 0 < values.max() < DARKEST:
        raise ValuesError(f"16-bit values up to {values.max():,} of 65,535 would be almost black without a window")
    return values >> 8


def with_channels(pixels: Tensor, channels: int, path: str | os.PathLike[str]) -> Tensor:
    """Pixels (C, H, W) uint8 as (channels, H, W): one channel gives three equal ones, and RGB its gray as Pillow's "L".

    ChannelsError for another number of channels: none is left out, and none is made up.
    """
    num_channels = len(pixels)
    if num_channels == channels:
        return pixels
    if num_channels == 1 and channels == COLORS:
        return pixels.expand(COLORS, -1, -1).contiguous()
    if num_channels == COLORS and channels == 1:
        weighted = sum(pixels[at].to(torch.int32) * weight for at, weight in enumerate(_LUMA))
        assert isinstance(weighted, Tensor)
        return ((weighted + 0x8000) >> 16).to(torch.uint8)[None]  # three equal channels keep their values
    raise ChannelsError(path, num_channels, channels)


def shown(pixels: Tensor) -> Tensor:
    """What people see of (C, ...) pixels, of the same type: (3, ...).

    One channel is gray, and of two the first. Of more than three, the first three are red, green and blue.
    """
    if len(pixels) < COLORS:
        return pixels[:1].expand(COLORS, *pixels.shape[1:])
    return pixels[:COLORS]


def check_planes(channels: int, height: int, width: int, item_bytes: int, path: str | os.PathLike[str]) -> None:
    """Raise ImageError if planes would take more memory than the limit. Nothing is allocated."""
    needed = channels * height * width * item_bytes
    if needed > MAX_VALUE_BYTES:
        raise ImageError(path, "too_large", f"{needed:,} bytes of values; the limit is {MAX_VALUE_BYTES:,} bytes")
