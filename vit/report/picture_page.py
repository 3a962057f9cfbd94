"""Small pictures, and pages of them: predictions, neighbors, images to label next, labels that are probably wrong"""

import heapq
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Self

from markupsafe import Markup
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from vit.checkpoints.run import unfinished_text
from vit.data.core.dataset_names import is_far
from vit.data.core.image_bytes import ImageError, ImageReader
from vit.data.core.samples import Source
from vit.data.pixels.decode import read_image
from vit.data.pixels.planes import shown
from vit.data.pixels.preprocess import Preprocess, resize_shorter
from vit.report.page.page import inline, link_to, write_new_page

if TYPE_CHECKING:
    from vit.inference.prediction import Prediction
    from vit.study.fold_table import CheckedImage, LabelErrors

LOSSLESS = 64  # pixels: a picture up to this side is stored without loss
THUMBNAIL = 160  # pixels of the longer side
MOST_SUSPECTS = 500
SQUARE = 144  # pixels of a picture in the gallery
MAX_PICTURES = 2000  # of the gallery
MAX_FILTERS = 40  # labels that one can choose; the counts of further labels are only listed
_LAST = 3.0  # rank of a file without an answer: a distance to a threshold is at most 2


def encoded(picture: Tensor) -> Markup:
    """Pixels (C, H, W) uint8 as the source of an <img>."""
    picture = shown(picture)
    buffer = io.BytesIO()
    kind = "PNG" if max(picture.shape[1:]) <= LOSSLESS else "JPEG"
    Image.fromarray(picture.permute(1, 2, 0).numpy()).save(buffer, kind, quality=80)
    return inline(buffer.getvalue(), f"image/{kind.lower()}")


def shrunk(picture: Tensor, side: int) -> Tensor:
    """The whole picture (C, H, W) with its longer side at most `side` pixels."""
    _, height, width = picture.shape
    longer = max(height, width)
    if longer <= side:
        return picture
    size = [max(1, height * side // longer), max(1, width * side // longer)]
    return TF.resize(picture, size, antialias=True)


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
    write_new_page(path, "pictures.html", {"title": title, "about": about, "rows": rows})


def write_label_page(
    path: Path,
    source: Source,
    images: "Sequence[CheckedImage]",
    class_names: tuple[str, ...],
    errors: "LabelErrors",
    seen_before: Sequence[str],
    notes: Sequence[str] = (),
) -> None:
    """Write the page of the most suspicious labels; `images` are in the order of `errors`.

    `seen_before` has sentences about images that the networks have learned before, and `notes` other sentences, such as
    how many images are not checked, and why; all are without a full stop.
    """
    from vit.data.checks.scan import ImageList  # imports scipy, which a gallery does not need

    suspects, listed = [], ImageList(source)
    for place in errors.suspects[:MOST_SUSPECTS].tolist():
        split, index, row = images[place]
        pixels = listed.picture(listed.starts[listed.splits.index(split)] + index)
        suspects.append({
            "path": source.splits[split].paths[index],
            "label": row.label,
            "suggested": class_names[errors.suggested[place]],
            "label_probability": float(errors.label_probability[place]),
            "picture": None if pixels is None else encoded(shrunk(pixels, THUMBNAIL)),
        })  # fmt: skip
    about = {"data": source.name, "num_images": len(images), "num_suspects": errors.num_suspects, "notes": notes}
    write_new_page(path, "labels.html", {**about, "suspects": suspects, "seen_before": seen_before})


class Gallery:
    """Collects predictions, and writes the page when the `with` block ends, also after an error.

    The page has the 2,000 least certain files: those with the lowest probabilities, or where an image may have several
    labels, those with a probability nearest to its threshold. Files without a label come last.

    Args:
        model: the model as the user named it.
        reader: reader of images of shards or on other machines; None: files.
        preprocess: the channels and the window that pictures are read with.
        lacks: what the training of the model lacks; "" where it is finished.
        thresholds: {label: its threshold} where an image may have several labels; else empty.
    """

    def __init__(
        self,
        path: Path,
        model: str,
        reader: ImageReader | None,
        preprocess: Preprocess,
        lacks: str,
        thresholds: Mapping[str, float],
    ) -> None:
        self.path, self.model, self.lacks = path, model, lacks
        self._reader, self._preprocess, self.thresholds = reader, preprocess, thresholds
        self.num_files = 0
        self.statuses: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self.num_bad = 0
        self._cards: list[tuple[float, int, dict[str, object]]] = []  # a heap: the first one is the first to go

    def __enter__(self) -> Self:
        return self

    def add(self, row: "Prediction") -> None:
        """Add one file."""
        has_answer = bool(row.top)
        names = row.labels if self.thresholds else (row.label,) if row.label else ()
        self.num_files += 1
        self.num_bad += not has_answer
        self.statuses[row.status] += 1
        self.labels.update(names)
        certainty = row.probability
        if self.thresholds:
            certainty = min((abs(value - self.thresholds[name]) for name, value in row.top), default=None)
        rank = _LAST if certainty is None else certainty
        place = (-rank, -self.num_files)  # of two equal ones, the later goes first
        if len(self._cards) == MAX_PICTURES and place < self._cards[0][:2]:
            return
        has_file = self._reader is None or is_far(row.path)  # none in shards
        card: dict[str, object] = {
            "path": row.path,
            "name": Path(row.path).name,
            "link": link_to(row.path, self.path) if has_file else None,
            "labels": names,
            "has_answer": has_answer,
            "is_unlike": row.is_unlike,
            "probability": row.probability,
            "problem": "" if row.status == "ok" else f"{row.status}: {row.error}",
            "picture": self._thumbnail(row.path) if has_answer else None,
        }
        push = heapq.heappushpop if len(self._cards) == MAX_PICTURES else heapq.heappush
        push(self._cards, (*place, card))

    def __exit__(self, *error: object) -> None:
        counts = self.labels.most_common()
        content = {
            "gallery": self,
            "warning": unfinished_text(self.lacks),
            "date": date.today().isoformat(),
            "cards": [card for *_, card in sorted(self._cards, key=lambda one: one[:2], reverse=True)],
            "filters": counts[:MAX_FILTERS],
            "others": counts[MAX_FILTERS:],
            "numbers": {label: number for number, (label, _) in enumerate(counts[:MAX_FILTERS])},
        }
        write_new_page(self.path, "gallery.html", content)

    def _thumbnail(self, path: str) -> Markup | None:
        """The center square of a file's picture, small; None where the file changed after its prediction."""
        try:
            pixels = read_image(path, self._preprocess.decoding, self._reader)
            picture = shown(resize_shorter(pixels, SQUARE, "bilinear"))
        except ImageError:
            return None
        _, height, width = picture.shape
        top, left = (height - SQUARE) // 2, (width - SQUARE) // 2
        return encoded(picture[:, top : top + SQUARE, left : left + SQUARE])
