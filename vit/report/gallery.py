"""Predictions with thumbnails as one HTML page, written picture by picture"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from markupsafe import Markup

from vit.data.decode import decode_image, read_image
from vit.data.image_bytes import ImageError, ImageReader
from vit.data.preprocess import resize_shorter
from vit.report.page import templates
from vit.report.thumbnails import encoded

THUMBNAIL = 144
MAX_PICTURES = 2000


class Gallery:
    """Collects predictions into a page; `with Gallery(path, title) as gallery: gallery.add(...)`."""

    def __init__(self, path: Path, title: str, reader: ImageReader | None = None) -> None:
        self._reader = reader  # of images of shards; None: files
        self.path = path
        self.title = title
        self.num_shown = 0
        self.num_files = 0
        self.num_bad = 0  # files that could not be read: they have no probability
        self.labels: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        self._file = open(self.path, "w", encoding="utf-8", errors="replace")
        self._file.write(templates.get_template("gallery_head.html").render(title=self.title))
        return self

    def add(
        self,
        path: str,
        status: str,
        label: str,
        probability: float | None,
        error: str,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Add one file. Files after the first 2,000 are only counted.

        Args:
            labels: labels of an image that may have several; None: it has one class, `label`.
        """
        assert self._file is not None
        self.num_files += 1
        self.num_bad += probability is None
        self.statuses[status] += 1
        self.labels.update(labels or ([label] if label else []))
        if self.num_shown >= MAX_PICTURES:
            return
        self.num_shown += 1
        card = templates.get_template("gallery_card.html").render(
            picture=_thumbnail(path, self._reader) if probability is not None else None,
            name=Path(path).name,
            path=path,
            label=" | ".join(labels) or "(no label)" if labels is not None else label or status,
            has_answer=probability is not None or labels is not None,
            probability=probability,
            problem=f"{status}: {error}" if probability is None else None,
        )
        self._file.write(card)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        foot = templates.get_template("gallery_foot.html").render(
            num_files=self.num_files,
            num_shown=self.num_shown,
            labels=self.labels.most_common(),
            bad=self.num_bad,
            unsure=self.statuses["unsure"],
            novel=self.statuses["novel"],
        )
        self._file.write(foot)
        self._file.close()


def _thumbnail(path: str, reader: ImageReader | None) -> Markup | None:
    """The center square of a file's picture, small."""
    try:
        image = read_image(path) if reader is None else decode_image(reader.read(path), path)
        picture = resize_shorter(image, THUMBNAIL, "bilinear")
    except ImageError:
        return None  # the file changed after its prediction
    _, height, width = picture.shape
    top, left = (height - THUMBNAIL) // 2, (width - THUMBNAIL) // 2
    return encoded(picture[:, top : top + THUMBNAIL, left : left + THUMBNAIL])
