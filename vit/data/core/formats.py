"""Image formats by the endings of file names and by first bytes; imports no library."""

import os
from pathlib import PurePath

from vit.data.registry import has_extra
from vit.errors import ResourceError, how_to_read_again, is_of_machine

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
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # the last two of BigTIFF
_STARTS = (  # first bytes of a file -> its format
    (b"\xff\xd8\xff", "JPEG"), (b"\x89PNG\r\n\x1a\n", "PNG"), (b"GIF87a", "GIF"), (b"GIF89a", "GIF"), (b"BM", "BMP"),
    *((start, "TIFF") for start in _TIFF_STARTS),
    *((f"P{number}{space}".encode(), "PPM") for number in range(1, 7) for space in "\n "),
)  # fmt: skip
CONVERTIBLE = {  # endings of photographs that this program does not decode
    ".jxl": "JPEG XL",
    ".jp2": "JPEG 2000",
    **dict.fromkeys((".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2"), "raw"),
}


def is_dicom(data: bytes) -> bool:
    """Whether bytes begin as a DICOM file."""
    return data[128:132] == b"DICM"


def is_tiff(data: bytes) -> bool:
    """Whether bytes begin as a TIFF."""
    return data[:4] in _TIFF_STARTS


def has_image_extension(path: PurePath) -> bool:
    """Whether `read_image` reads files with this ending."""
    formats = FORMATS_OF.get(path.suffix.lower(), ())
    return bool(formats) and _is_read(formats[0])


def _is_read(image_format: str) -> bool:
    return image_format not in ("HEIF", "DICOM") or has_extra(image_format)


def begins_as_image(path: str) -> bool:
    """Whether the first bytes of a regular file are those of an image that `read_image` reads, whatever its name is."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            start = file.read(132)
    except OSError as error:
        if is_of_machine(error):
            raise ResourceError(f"cannot read {path}: {error.strerror}", how_to_read_again(error)) from error
        return False
    found = next((kind for mark, kind in _STARTS if start.startswith(mark)), "")
    if start[4:8] == b"ftyp":
        found = {b"avif": "AVIF", b"heic": "HEIF", b"heix": "HEIF", b"mif1": "HEIF"}.get(start[8:12], "")
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        found = "WEBP"
    if is_dicom(start):
        found = "DICOM"
    return bool(found) and _is_read(found)
