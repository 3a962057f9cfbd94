"""Image formats by the endings of file names, and how to convert other formats; imports no library."""

import shlex
from collections.abc import Iterable
from pathlib import Path, PurePath

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "MPO")
FORMATS_OF = {  # ending -> formats that such a file may hold; cameras name MPO files .jpg
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"), ("JPEG", "MPO")),
    **dict.fromkeys((".tif", ".tiff"), ("TIFF",)),
    **dict.fromkeys((".ppm", ".pgm", ".pbm", ".pnm"), ("PPM",)),
    ".png": ("PNG",),
    ".webp": ("WEBP",),
    ".bmp": ("BMP",),
    ".gif": ("GIF",),
}
EXTENSIONS = frozenset(FORMATS_OF)
CONVERTIBLE = {  # endings of photographs that this program does not decode
    **dict.fromkeys((".heic", ".heif", ".hif"), "HEIC"),
    ".avif": "AVIF",
    ".jxl": "JPEG XL",
    ".jp2": "JPEG 2000",
    **dict.fromkeys((".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2"), "raw"),
}


def has_image_extension(path: PurePath) -> bool:
    """Whether `read_image` reads files with this ending."""
    return path.suffix.lower() in EXTENSIONS


def how_to_convert(endings: Iterable[str], folder: Path) -> str:
    """How to convert photographs of other formats below a folder; empty if no ending belongs to one."""
    known = [ending for ending in endings if ending.lower() in CONVERTIBLE]
    if not known:
        return ""
    names = " and ".join(sorted({CONVERTIBLE[ending.lower()] for ending in known}))
    find = f"find {shlex.quote(str(folder))} -name '*{known[0]}' -exec magick mogrify -format jpg {{}} +"
    return f"convert the {names} files to JPEG, for example with ImageMagick: {find}"
