"""Image formats by the endings of file names, and how to read or convert other formats; imports no library."""

import shlex
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path, PurePath

from vit.errors import install

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "MPO", "AVIF", "HEIF", "DICOM")
FORMATS_OF = {  # ending -> formats that such a file may hold; cameras name MPO files .jpg
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"), ("JPEG", "MPO")),
    **dict.fromkeys((".tif", ".tiff"), ("TIFF",)),
    **dict.fromkeys((".ppm", ".pgm", ".pbm", ".pnm"), ("PPM",)),
    ".png": ("PNG",),
    ".webp": ("WEBP",),
    ".bmp": ("BMP",),
    ".gif": ("GIF",),
    ".avif": ("AVIF",),
    **dict.fromkeys((".heic", ".heif", ".hif"), ("HEIF",)),
    **dict.fromkeys((".dcm", ".dicom"), ("DICOM",)),
}
CONVERTIBLE = {  # endings of photographs that this program does not decode
    ".jxl": "JPEG XL",
    ".jp2": "JPEG 2000",
    **dict.fromkeys((".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2"), "raw"),
}


@cache
def has_heif() -> bool:
    """Whether the extra `heif` is installed, which reads HEIC photographs."""
    return find_spec("pillow_heif") is not None


@cache
def has_tifffile() -> bool:
    """Whether the extra `tiff` is installed, which reads TIFF files of many channels."""
    return find_spec("tifffile") is not None


@cache
def has_dicom() -> bool:
    """Whether the extra `dicom` is installed, which reads DICOM images."""
    return find_spec("pydicom") is not None


def has_image_extension(path: PurePath) -> bool:
    """Whether `read_image` reads files with this ending."""
    formats = FORMATS_OF.get(path.suffix.lower(), ())
    readers: dict[tuple[str, ...], Callable[[], bool]] = {("HEIF",): has_heif, ("DICOM",): has_dicom}
    has_reader = readers.get(formats)
    return bool(formats) and (has_reader is None or has_reader())


def how_to_convert(endings: Iterable[str], folder: Path) -> str:
    """How to read or convert the photographs of other formats below a folder; empty if no ending belongs to one."""
    given = [ending.lower() for ending in endings]
    known = [ending for ending in given if ending in CONVERTIBLE]
    ways = []
    if any(FORMATS_OF.get(ending) == ("HEIF",) for ending in given):
        ways.append(f"to read the HEIC files: {install('heif')}")
    if any(FORMATS_OF.get(ending) == ("DICOM",) for ending in given):
        ways.append(f"to read the DICOM files: {install('dicom')}")
    if known:
        names = " and ".join(sorted({CONVERTIBLE[ending] for ending in known}))
        find = f"find {shlex.quote(str(folder))} -name '*{known[0]}' -exec magick mogrify -format jpg {{}} +"
        ways.append(f"convert the {names} files to JPEG, for example with ImageMagick: {find}")
    return "; ".join(ways)
