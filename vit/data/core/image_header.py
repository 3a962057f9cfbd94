"""Headers of encoded images: format and size, within limits, before any pixel is decoded"""

import io
import os
import re
import threading
import warnings

from PIL import Image

from vit.console import count_of
from vit.data.core.image_bytes import ImageError
from vit.data.core.image_files import FORMATS, is_dicom, is_tiff
from vit.errors import install
from vit.registry import IMAGE_READERS, has_extra

MAX_PIXELS = 64_000_000
MAX_ASPECT = 50
# A blank A4 page at 600 dpi has up to 30,208 pixels a byte (JPEG 2000), 25,036 (WebP) and 11,600 (TIFF, group 4).
MAX_PIXELS_PER_BYTE, FEW_PIXELS = 100_000, 4_000_000
MAX_SCANS = 100  # of a JPEG: ten are usual; each scan is a pass over all pixels, and takes as little as 36 bytes
_MAX_SEGMENTS = 100_000  # of a JPEG: metadata of 100 MB have 1,600

_AVIF_BRANDS = (b"avif", b"avis")
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"msf1")
_OPENED = tuple(name for name in FORMATS if name not in ("MPO", "HEIF", "DICOM"))  # an MPO opens as a JPEG
_SCAN, _END = b"\xff\xda", b"\xff\xd9"  # markers of a JPEG
# A marker with a length behind it, or _END. In the bytes of a scan 00 or a restart (d0 to d7) follows ff.
_MARKER = re.compile(rb"\xff[\xc0-\xcf\xd9-\xfe]")

DESCRIPTION_TAG = 270  # of TIFF
_CHANNELS_OF_OME = re.compile(r"\bSizeC\s*=\s*[\"'](\d{1,20})")
_CHANNELS_OF_IMAGEJ = re.compile(r"^channels=(\d{1,20})", re.MULTILINE)
_OTHER_AXES = re.compile(r"\bSize[ZT]\s*=\s*[\"']0*(?:[2-9]|1\d)|^(?:slices|frames)=0*(?:[2-9]|1\d)", re.MULTILINE)

# NumberOfFrames above 1 in a DICOM, with its type and length before the digits, or with its length alone
_FRAMES_OF_DICOM = re.compile(rb"\x28\0\x08\0(IS..|..\0\0)[ 0]*([2-9]|1[0-9])", re.DOTALL)


class NoWarnings:
    """Silences warnings inside a `with` block, in any number of threads.

    With `warnings.catch_warnings`, two blocks that overlap would silence them for ever.
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


no_warnings = NoWarnings()


def opened(data: bytes, path: str | os.PathLike[str]) -> Image.Image:
    """Pillow's image, with only the header read."""
    try:
        image = Image.open(io.BytesIO(data), formats=_formats(data))
    except Image.DecompressionBombError as error:
        raise ImageError(path, "too_large", f"more pixels than the limit of {MAX_PIXELS:,}") from error
    except Exception as error:
        raise ImageError(path, "not_image", _not_an_image(data)) from error
    check_size(image.size, path)
    pixels = image.width * image.height
    if pixels > max(FEW_PIXELS, len(data) * MAX_PIXELS_PER_BYTE):
        raise ImageError(path, "too_large", f"{pixels:,} pixels in {len(data):,} bytes; an image of one color")
    if image.format in ("JPEG", "MPO") and _has_too_many_scans(data):
        raise ImageError(path, "too_large", f"too many segments or scans in a JPEG; the limit is {MAX_SCANS} scans")
    return image


def _has_too_many_scans(data: bytes) -> bool:
    """Whether a JPEG has more than MAX_SCANS, or too many segments to count them; bytes behind its end do not count.

    As libjpeg does, segments are skipped by their lengths, and other bytes until the next marker.
    """
    if data.count(_SCAN) <= MAX_SCANS:  # quick, and true of nearly all files
        return False
    scans, place = 0, len(_SCAN)
    for _ in range(_MAX_SEGMENTS):  # of at least four bytes: millions of them would take minutes
        marker = _MARKER.search(data, place)
        if marker is None or marker.group() == _END:
            return False
        scans += marker.group() == _SCAN
        if scans > MAX_SCANS:
            return True
        place = marker.end() + max(2, int.from_bytes(data[marker.end() : marker.end() + 2]))
    return True


def image_format(data: bytes) -> str:
    """The format of encoded bytes, one of FORMATS; empty for any other format."""
    if is_dicom(data):
        return "DICOM"
    if is_tiff(data):
        return "TIFF"
    with no_warnings:
        try:
            return Image.open(io.BytesIO(data), formats=_formats(data)).format or ""
        except Exception:  # noqa: BLE001  an untrusted header may raise anything
            return ""


class Frames(set[str]):
    """Files that have several frames or pages, of which the first was read."""

    @property
    def warning(self) -> str:
        """A warning that names one of them; "" where there are none."""
        several = f"{count_of(len(self), 'file')} with several frames or pages, such as {min(self, default='')}"
        return f"\nWARNING: {several}: only the first was read" * bool(self)


def holds_frames(data: bytes) -> bool:
    """Whether an image has several frames or pages, of which the first is read.

    Previews in an MPO are none, and neither are pages of an OME-TIFF or of ImageJ that are channels.
    """
    if data.startswith(b"\xff\xd8"):  # a JPEG or an MPO
        return False
    if is_dicom(data):
        return _FRAMES_OF_DICOM.search(data, 0, 2**20) is not None  # in its header
    with no_warnings:
        try:
            image = opened(data, "")
            description = getattr(image, "tag_v2", {}).get(DESCRIPTION_TAG, "")
            are_channels = has_channel_axis(description) and _OTHER_AXES.search(description) is None
            return bool(getattr(image, "is_animated", False)) and not are_channels
        except Exception:  # noqa: BLE001  as above
            return False


def has_channel_axis(description: object) -> bool:
    """Whether the description of a first page announces several channels, as OME-TIFF and ImageJ do.

    In an untrusted file the value of the tag may be anything, so it is searched, not parsed.
    """
    if not isinstance(description, str):
        return False
    pattern = None
    if description.startswith("ImageJ="):
        pattern = _CHANNELS_OF_IMAGEJ
    elif description.rstrip("\0\r\n\t ").endswith("OME>"):
        pattern = _CHANNELS_OF_OME
    match = pattern.search(description) if pattern else None
    return match is not None and int(match[1]) > 1


def _formats(data: bytes) -> tuple[str, ...]:
    """The formats that bytes are tried as. pillow-heif is imported where they may be HEIF."""
    if not (data[4:8] == b"ftyp" and data[8:12] in _HEIF_BRANDS and has_extra("HEIF")):
        return _OPENED
    IMAGE_READERS["HEIF"].load()()
    return (*_OPENED, "HEIF")


def check_size(size: tuple[int, int], path: str | os.PathLike[str]) -> None:
    """Raise ImageError if (width, height) exceeds the limits."""
    width, height = size
    if width < 1 or height < 1:
        raise ImageError(path, "unreadable", f"{width}x{height} pixels")
    if width * height > MAX_PIXELS:
        raise ImageError(path, "too_large", f"{width}x{height} pixels; the limit is {MAX_PIXELS:,} pixels")
    if max(size) > MAX_ASPECT * min(size):
        raise ImageError(path, "too_large", f"{width}x{height} pixels; the limit is a ratio of {MAX_ASPECT} to 1")


def header_size(data: bytes, path: str | os.PathLike[str]) -> tuple[int, int]:
    """(width, height) of an image by its header. ImageError where it is damaged, or beyond the limits."""
    if is_dicom(data) and has_extra("DICOM"):
        width, height = IMAGE_READERS["DICOM"].import_module().header_size(data, path)
        return width, height
    return opened(data, path).size


def num_pixels(data: bytes) -> int:
    """Pixels that bytes would become, by their header: a measure of memory and time, taken before any is decoded.

    0 for what is not an image within the limits. A TIFF that Pillow does not open counts as the largest image.
    """
    with no_warnings:
        try:
            width, height = header_size(data, "")
        except ImageError:
            return MAX_PIXELS if is_tiff(data) else 0
    return width * height


def _not_an_image(data: bytes) -> str:
    """The reason why bytes are not an image, with the kinds of files that are common among images."""
    start = data[:64].lstrip().lower()
    if start.startswith((b"<!doctype", b"<html")):
        return "an HTML page, not an image"
    if start.startswith(b"version https://git-lfs"):
        return "a git-lfs pointer, not the image itself"
    brand = data[8:12] if data[4:8] == b"ftyp" else b""  # of an ISO media file
    if brand in _AVIF_BRANDS:
        return "a damaged AVIF"
    if brand in _HEIF_BRANDS:
        return "a damaged HEIC" if has_extra("HEIF") else f"a HEIC photograph; to read it: {install('heif')}"
    return f"not one of {', '.join(FORMATS)}"
