"""Which files are taken for images by their names, and what to do with other cameras' files; needs no library."""

import shlex
from collections.abc import Iterable
from pathlib import Path

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "MPO")
FORMATS_OF = {  # the ending of a file's name -> what it may hold; cameras call MPO files .jpg
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"), ("JPEG", "MPO")),
    **dict.fromkeys((".tif", ".tiff"), ("TIFF",)),
    **dict.fromkeys((".ppm", ".pgm", ".pbm", ".pnm"), ("PPM",)),
    ".png": ("PNG",),
    ".webp": ("WEBP",),
    ".bmp": ("BMP",),
    ".gif": ("GIF",),
}
EXTENSIONS = frozenset(FORMATS_OF)
CONVERTIBLE = {  # photographs that this program does not decode, and what they are
    **dict.fromkeys((".heic", ".heif", ".hif"), "HEIC"),
    ".avif": "AVIF",
    ".jxl": "JPEG XL",
    ".jp2": "JPEG 2000",
    **dict.fromkeys((".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2"), "raw"),
}


def has_image_extension(path: Path) -> bool:
    """Whether the name ends as an image file that `read_image` reads."""
    return path.suffix.lower() in EXTENSIONS


def how_to_convert(endings: Iterable[str], folder: Path) -> str:
    """What to do with photographs of other formats below a folder; empty where no ending is that of one."""
    known = [ending for ending in endings if ending.lower() in CONVERTIBLE]
    if not known:
        return ""
    names = " and ".join(sorted({CONVERTIBLE[ending.lower()] for ending in known}))
    find = f"find {shlex.quote(str(folder))} -name '*{known[0]}' -exec magick mogrify -format jpg {{}} +"
    return f"convert the {names} files to JPEG, for example with ImageMagick: {find}"
