"""TIFF files that Pillow does not read, by tifffile (extra `tiff`): many channels, 16 bits for a color, OME, GeoTIFF

The channels of a file are, in this order:

- the samples of its first page, where a page has several (GeoTIFF, planar or not);
- the axis C of an OME-TIFF or ImageJ file, at the first place of all other axes;
- its pages, where the model has as many channels as the file has pages, and other than 1 or 3;
- its first page.
"""

import io
import logging
import math
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from vit.data.core.image_bytes import ImageError, damage
from vit.data.core.image_header import check_size
from vit.data.pixels.planes import ORIENTATION_TAG, Planes, check_planes
from vit.data.pixels.preprocess import COLORS, MAX_CHANNELS, Window
from vit.errors import first_line

MAX_PAGES = 10_000
_SIZES = re.compile(r"\b(?:Size[A-Z]|images|channels|slices|frames)\s*=\s*[\"']?(\d{1,20})")
_PLAIN, _ZIP, _BOUNDED = (1, 32773), (8, 32946), (5, 50000)  # none and PackBits; deflate; LZW and Zstandard
_WHITE_IS_ZERO, _GRAY, _RGB = 0, 1, 2  # photometric interpretations
_ALPHA = (1, 2)  # extra samples that are transparency


def header_size(data: bytes, path: str | os.PathLike[str]) -> tuple[int, int]:
    """(width, height) of the first page; no pixel is decoded. ImageError as of `read`."""
    with _opened(data, path) as file:
        first = file.pages[0]
        _check_page(first, data, path, 1)
        return int(first.imagewidth), int(first.imagelength)


def read(data: bytes, path: str | os.PathLike[str], window: Window | None, channels: int) -> Planes:
    """The planes of a TIFF for a model with some number of channels.

    ImageError where it is damaged, beyond the limits, or stores its values in a way that is not read.
    """
    with _opened(data, path) as file:
        pages = _chosen_pages(file, channels, path)
        for page in pages:
            _check_page(page, data, path, len(pages))
        values, first = np.concatenate([_samples(page) for page in pages]), pages[0]
        is_inverted, orientation = int(first.photometric) == _WHITE_IS_ZERO, first.tags.valueof(ORIENTATION_TAG, 1)
    return Planes(values, is_inverted=is_inverted, orientation=orientation)


@contextmanager
def _opened(data: bytes, path: str | os.PathLike[str]) -> Iterator[Any]:
    """A file of tifffile. ImageError for any error in the block."""
    import tifffile

    logging.getLogger("tifffile").setLevel(logging.CRITICAL + 1)  # a damaged file is one error, not lines of a log
    # with `_multifile` other files would be opened
    with damage(partial(_damaged, path)), tifffile.TiffFile(io.BytesIO(data), _multifile=False) as file:
        yield file


def _damaged(path: str | os.PathLike[str], error: Exception) -> ImageError:
    if isinstance(error, MemoryError):
        return ImageError(path, "too_large", "a TIFF that needs more memory than there is")
    return ImageError(path, "unreadable", f"damaged TIFF: {first_line(error)}")


def _chosen_pages(file: Any, channels: int, path: str | os.PathLike[str]) -> list[Any]:
    first = file.pages[0]
    if int(first.samplesperpixel) > 1:
        return [first]
    if file.is_ome or file.is_imagej:
        return _pages_of_channel_axis(file, first, path)
    if channels in (1, COLORS):
        return [first]
    pages = list(islice(file.pages, MAX_CHANNELS + 1))  # a damaged chain of pages may be long
    return pages if len(pages) == channels else [first]


def _pages_of_channel_axis(file: Any, first: Any, path: str | os.PathLike[str]) -> list[Any]:
    """Pages along the axis C of the first series, at the first place of its other axes."""
    words = str(first.description) + str(getattr(file, "imagej_metadata", None) or "" if file.is_imagej else "")
    sizes = _SIZES.findall(re.sub(r"Size[XY]\s*=\s*[\"']\d*[\"']", "", words))[:5]
    product = math.prod(max(1, int(size)) for size in sizes)
    if product > MAX_PAGES:
        raise ImageError(path, "too_large", f"a TIFF of {product:,} pages; the limit is {MAX_PAGES:,}")
    series = file.series[0]
    if "S" in series.axes or not series.axes.endswith("YX"):
        raise ImageError(path, "unreadable", f"a TIFF with the axes {series.axes[:12]}; the last two must be Y and X")
    place, shape = series.axes[:-2].rfind("C"), series.shape[:-2]
    number, step = (shape[place], math.prod(shape[place + 1 :])) if place >= 0 else (1, 1)
    if number > MAX_CHANNELS:
        raise ImageError(path, "too_large", f"{number} channels; the limit is {MAX_CHANNELS}")
    if len(series) == 1 and number > 1:  # ImageJ may store all pages behind one header
        raise ImageError(path, "unreadable", "channels without pages of their own; save the file as OME-TIFF")
    pages = [series[at * step] for at in range(number)]
    if any(page is None for page in pages):
        raise ImageError(path, "unreadable", "a TIFF without the page of each channel")
    return [page.aspage() if hasattr(page, "aspage") else page for page in pages]


def _check_page(page: Any, data: bytes, path: str | os.PathLike[str], num_pages: int) -> None:
    """Limits from the header of a page, before anything is allocated."""
    width, height, samples = int(page.imagewidth), int(page.imagelength), int(page.samplesperpixel)
    check_size((width, height), path)
    if page.dtype is None or page.dtype.kind not in "uifb":
        raise ImageError(path, "unreadable", "a TIFF whose values are not whole or floating-point numbers")
    if int(getattr(page, "imagedepth", 1)) != 1:
        raise ImageError(path, "unreadable", "a TIFF of volumes, not of images")
    if samples > MAX_CHANNELS:
        raise ImageError(path, "too_large", f"{samples} channels; the limit is {MAX_CHANNELS}")
    check_planes(samples * num_pages, height, width, page.dtype.itemsize, path)
    if int(page.photometric) not in (_WHITE_IS_ZERO, _GRAY, _RGB):
        raise ImageError(path, "unreadable", f"a TIFF of {samples} samples with colors other than gray and RGB")
    if samples == COLORS + 1 and int(page.photometric) == _RGB and any(int(x) in _ALPHA for x in page.extrasamples):
        reason = "RGB and transparency, which is not a channel; save it without transparency"
        raise ImageError(path, "unreadable", reason)
    tile = (int(page.tilewidth) or width) * (int(page.tilelength) or height) if page.is_tiled else 0
    rows = int(page.rowsperstrip or height)
    # a header asks for memory by its tiles, its strips and its number of segments
    if tile > 4 * max(width * height, 2**20) or len(page.dataoffsets) > max(10_000, 4 * samples * height):
        raise ImageError(path, "unreadable", "a damaged TIFF: its tiles do not fit its size")
    plane_samples = samples if int(page.planarconfig) == 1 else 1
    expected = (tile or width * min(rows, height)) * plane_samples * page.dtype.itemsize
    compression = int(page.compression)
    if compression in _ZIP:
        for offset, length in zip(page.dataoffsets, page.databytecounts, strict=True):
            unpacked = zlib.decompressobj().decompress(data[offset : offset + length], expected + 1)
            if len(unpacked) > expected:
                raise ImageError(path, "too_large", "a TIFF that unpacks to more bytes than its size")
    elif compression not in (*_PLAIN, *_BOUNDED):  # imagecodecs unpacks the last two into no more than their size
        name = str(getattr(page.compression, "name", compression))
        raise ImageError(path, "unreadable", f"a TIFF of {samples} channels with the compression {name}; use deflate")


def _samples(page: Any) -> npt.NDArray[Any]:
    """The samples of a page (S, H, W)."""
    values: npt.NDArray[Any] = page.asarray(maxworkers=1)
    if values.ndim == 2:
        return values[None]
    if values.ndim != 3:
        raise ValueError(f"{values.ndim} axes in a page")
    return values if int(page.planarconfig) == 2 else np.ascontiguousarray(values.transpose(2, 0, 1))
