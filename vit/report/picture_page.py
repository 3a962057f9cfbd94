"""Pages of pictures with a few words each: neighbors, images to label next, and labels that are probably wrong"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from vit.data.checks.scan import ImageList
from vit.data.core.dataset_names import is_far
from vit.data.core.image_bytes import ImageError, ImageReader
from vit.data.core.samples import Source
from vit.data.pixels.decode import read_image
from vit.data.pixels.preprocess import Preprocess
from vit.report.page.page import link_to, write_page
from vit.report.page.thumbnails import encoded, shrunk
from vit.study.fold_table import CheckedImage, LabelErrors

THUMBNAIL = 160  # pixels of the longer side
MOST_SUSPECTS = 500


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
    """A file as a small picture, whole, read with the channels and the window of `preprocess`; linked from `page`."""
    try:
        picture = encoded(shrunk(read_image(path, preprocess.decoding, reader), THUMBNAIL))
    except ImageError:
        picture = None
    return PictureOfFile(path, words, link_to(path, page) if reader is None or is_far(path) else None, picture)


def write_picture_page(path: Path, title: str, about: Sequence[str], rows: Sequence[PictureRow]) -> None:
    """Write the page, with the paragraphs `about` below the title."""
    write_page(path, "pictures.html", {"title": title, "about": about, "rows": rows})


def write_label_page(
    path: Path,
    source: Source,
    images: Sequence[CheckedImage],
    class_names: tuple[str, ...],
    errors: LabelErrors,
    seen_before: Sequence[str],
    left_out: str = "",
) -> None:
    """Write the page of the most suspicious labels.

    Args:
        images: the checked images, in the order of `errors`.
        class_names: classes of the predictions.
        seen_before: sentences about images that the networks have learned before.
        left_out: how many images are not checked, and why, without a full stop; "".
    """
    suspects, listed = [], ImageList(source)
    for place in errors.suspects[:MOST_SUSPECTS].tolist():
        split, index, row = images[place]
        pixels = listed.picture(listed.starts[listed.splits.index(split)] + index)
        suspects.append({
            "path": source.splits[split].paths[index],
            "label": row.label,
            "suggested": class_names[errors.suggested[place]],
            "confidence": float(errors.confidence[place]),  # probability of the label
            "picture": None if pixels is None else encoded(shrunk(pixels, THUMBNAIL)),
        })  # fmt: skip
    content = {
        "data": source.name,
        "num_images": len(images),
        "num_suspects": errors.num_suspects,
        "suspects": suspects,
        "seen_before": seen_before,
        "left_out": left_out,
    }
    write_page(path, "labels.html", content)
