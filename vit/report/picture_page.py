"""Rows of pictures with a few words each, as one self-contained HTML page"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from vit.data.core.dataset_names import is_far
from vit.data.core.image_bytes import ImageError, ImageReader
from vit.data.pixels.decode import read_image
from vit.data.pixels.preprocess import Preprocess
from vit.report.page.page import link_to, write_page
from vit.report.page.thumbnails import encoded, shrunk

THUMBNAIL = 160  # pixels of the longer side


@dataclass(frozen=True)
class PictureOfFile:
    """One picture."""

    path: str  # path of the file
    words: str  # words above the path; "" for none
    link: str | None  # address of the file, seen from the page; None for images of shards
    picture: Markup | None  # source of its <img>; None where the file cannot be read


@dataclass(frozen=True)
class PictureRow:
    """Pictures below a title, and a sentence about them, which may be ""."""

    title: str
    about: str
    pictures: Sequence[PictureOfFile]


def picture_of(
    path: str, words: str, page: Path, preprocess: Preprocess, reader: ImageReader | None = None
) -> PictureOfFile:
    """A file as a small picture, whole.

    Args:
        page: page that shows it, for its link.
        preprocess: the channels and the window that the picture is read with.
        reader: reader of images of shards or on other machines; None: files.
    """
    try:
        picture = encoded(shrunk(read_image(path, preprocess.decoding, reader), THUMBNAIL))
    except ImageError:
        picture = None
    return PictureOfFile(path, words, link_to(path, page) if reader is None or is_far(path) else None, picture)


def write_picture_page(path: Path, title: str, about: Sequence[str], rows: Sequence[PictureRow]) -> None:
    """Write the page.

    Args:
        about: paragraphs below the title.
    """
    write_page(path, "pictures.html", {"title": title, "about": about, "rows": rows})
