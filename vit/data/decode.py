"""Files -> upright RGB uint8 tensors. The one decoder of training, evaluation, prediction and export.

Files are untrusted. The order is: a regular file, its header by Pillow with an allowlist of formats, limits on what the
header announces, and only then pixels. JPEG pixels come from torchvision (1.8 times as fast as Pillow, equal to 2 gray
levels); everything else from Pillow, because torchvision's PNG decoder crashes the process on damaged files. No other
program ever runs. Animated and multi-page files give their first frame.
"""

import io
import os
import stat
import threading
import warnings

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg

from vit.data.formats import FORMATS

MAX_PIXELS = 64_000_000
MAX_ASPECT = 50
MAX_BYTES = 512 * 2**20
MAX_SCANS = 100  # of a JPEG: ten are usual; each is a pass over all pixels, and one may be 36 bytes
BACKGROUND = 255  # alpha is laid over white

_OPENING = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))  # each where it exists
_ORIENTATION_TAG = 0x0112
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1", b"avif", b"avis")
_SCAN = b"\xff\xda"  # the marker of a scan; in the data of one, ff is followed by 00 or a restart


class ImageError(Exception):
    """One image could not be read. `kind` is "unreadable", "not_image" or "too_large"; the text says why."""

    def __init__(self, path: str | os.PathLike[str], kind: str, reason: str) -> None:
        super().__init__(f"{os.fspath(path)}: {reason}")
        self.path = os.fspath(path)
        self.kind = kind
        self.reason = reason

    def __reduce__(self) -> tuple[type["ImageError"], tuple[str, str, str]]:
        return ImageError, (self.path, self.kind, self.reason)  # so that it survives the way out of a worker process


class _NoWarnings:
    """Silences warnings for a while, in any number of threads at a time.

    `warnings.catch_warnings` alone is not for threads: where two of them overlap, everything stays silenced for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._filters.__exit__(None, None, None)


_no_warnings = _NoWarnings()


def read_image(path: str | os.PathLike[str]) -> Tensor:
    """The file's image, upright, alpha over white: (3, H, W) uint8.

    Raises:
        ImageError: the file is missing, not a regular file, not an image, damaged, or larger than the limits.
    """
    return decode_image(read_bytes(path), path)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular file; never waits on a FIFO or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _OPENING)
    except (OSError, ValueError) as error:
        raise ImageError(path, "unreadable", getattr(error, "strerror", None) or str(error)) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):  # before `open`, which refuses a folder in words of its own
        os.close(descriptor)
        raise ImageError(path, "not_image", "not a regular file")
    with open(descriptor, "rb") as file:
        if status.st_size == 0:
            raise ImageError(path, "not_image", "the file is empty")
        if status.st_size > MAX_BYTES:
            raise ImageError(path, "too_large", f"{status.st_size:,} bytes; the limit is {MAX_BYTES:,}")
        try:
            return file.read()
        except OSError as error:
            raise ImageError(path, "unreadable", error.strerror or str(error)) from error


def decode_image(data: bytes, path: str | os.PathLike[str] = "<bytes>") -> Tensor:
    """Encoded bytes -> (3, H, W) uint8, upright, alpha over white; ImageError as `read_image`."""
    with _no_warnings:  # Pillow warns of odd metadata; only pixels matter here
        image = _opened(data, path)
        try:
            if image.format == "JPEG" and image.mode in ("L", "RGB"):
                return _upright(
                    decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB), image
                )
        except Exception as error:
            raise ImageError(path, "unreadable", f"damaged {image.format}: {_first_line(error)}") from error
        return from_pillow(image, path)


def check_header(data: bytes, path: str | os.PathLike[str]) -> None:
    """Raise ImageError if encoded bytes are not an image within the limits; no pixel is decoded."""
    with _no_warnings:
        _opened(data, path)


def _opened(data: bytes, path: str | os.PathLike[str]) -> Image.Image:
    """The image of encoded bytes, of which the header alone is read."""
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise ImageError(path, "too_large", f"more pixels than the limit of {MAX_PIXELS:,}") from error
    except Exception as error:
        raise ImageError(path, "not_image", _not_an_image(data)) from error
    check_size(image.size, path)
    if image.format in ("JPEG", "MPO") and data.count(_SCAN) > MAX_SCANS:
        raise ImageError(path, "too_large", f"{data.count(_SCAN):,} scans in a JPEG; the limit is {MAX_SCANS}")
    return image


def image_format(data: bytes) -> str:
    """The format that encoded bytes announce, one of FORMATS; empty where it is none of them."""
    with _no_warnings:
        try:
            return Image.open(io.BytesIO(data), formats=FORMATS).format or ""
        except Exception:  # noqa: BLE001  whatever a stranger's header does
            return ""


def check_size(size: tuple[int, int], path: str | os.PathLike[str]) -> None:
    """Raise ImageError if (width, height) are beyond the limits."""
    width, height = size
    if width < 1 or height < 1:
        raise ImageError(path, "unreadable", f"{width}x{height} pixels")
    if width * height > MAX_PIXELS:
        raise ImageError(path, "too_large", f"{width}x{height} pixels; the limit is {MAX_PIXELS:,} pixels")
    if max(size) > MAX_ASPECT * min(size):
        raise ImageError(
            path, "too_large", f"{width}x{height} pixels; the longer side may be {MAX_ASPECT} times the shorter"
        )


def _upright(pixels: Tensor, image: Image.Image) -> Tensor:
    """Undo the EXIF orientation of (3, H, W); where the metadata are damaged, the pixels are taken as they lie."""
    try:
        orientation = image.getexif().get(_ORIENTATION_TAG, 1)
    except Exception:  # noqa: BLE001  as above
        return pixels
    if orientation in (5, 6, 7, 8):
        pixels = pixels.transpose(1, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels.flip(2)
    if orientation in (3, 4, 7, 8):
        pixels = pixels.flip(1)
    return pixels.contiguous()


def from_pillow(image: Image.Image, path: str | os.PathLike[str]) -> Tensor:
    """Pillow's image, of a size within the limits -> (3, H, W) uint8 as `read_image`; ImageError where damaged."""
    try:
        with _no_warnings:
            image.seek(0)
            image.load()
            return _upright(_pixels(image), image)
    except Exception as error:
        raise ImageError(path, "unreadable", f"damaged {image.format or 'image'}: {_first_line(error)}") from error


def _pixels(image: Image.Image) -> Tensor:
    if image.mode.startswith("I;16"):
        gray = np.asarray(image).astype(np.uint16) >> 8
    elif image.mode == "I":  # 32-bit integers: 16-bit files that Pillow widened, or more than a picture holds
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65_535:
            raise ValueError("32-bit integers outside 0 to 65535 are not gray values")
        gray = values >> 8
    elif image.mode == "F":
        values = np.asarray(image)
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > 255:
            raise ValueError("floating-point pixels outside 0 to 255 are not gray values")
        gray = values * 255 if values.max() <= 1 else values
    else:
        return _color(image)
    plane = torch.from_numpy(np.ascontiguousarray(gray).astype(np.uint8))
    return plane.expand(3, -1, -1).contiguous()


def _color(image: Image.Image) -> Tensor:
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        page = Image.new("RGBA", image.size, (BACKGROUND, BACKGROUND, BACKGROUND, 255))
        image = Image.alpha_composite(page, image)
    array = np.array(image if image.mode == "RGB" else image.convert("RGB"))
    return torch.from_numpy(array).permute(2, 0, 1).contiguous()


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def _not_an_image(data: bytes) -> str:
    start = data[:64].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html")):
        return "an HTML page, not an image"
    if start.startswith(b"version https://git-lfs"):
        return "a git-lfs pointer, not the image itself"
    if data[4:8] == b"ftyp" and data[8:12] in _HEIF_BRANDS:
        return "a HEIC or AVIF photograph; convert it to JPEG"
    return f"not one of {', '.join(FORMATS)}"
