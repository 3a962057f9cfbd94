"""A self-contained HTML page of thumbnails with their labels; written picture by picture, so memory does not grow."""

import base64
import io
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from jinja2 import Environment, PackageLoader
from PIL import Image

from vit.console import harmless
from vit.data.decode import ImageError, read_image
from vit.data.preprocess import resize_shorter

THUMBNAIL = 144
MAX_PICTURES = 2000

_templates = Environment(loader=PackageLoader("vit.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True)


class Gallery:
    """Collects predictions into a page; `with Gallery(path, title) as gallery: gallery.add(...)`."""

    def __init__(self, path: Path, title: str) -> None:
        self.path = path
        self.title = title
        self.shown = 0
        self.count = 0
        self.labels: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        self._file = open(self.path, "w", encoding="utf-8", errors="replace")
        self._file.write(_templates.get_template("gallery_head.html").render(title=harmless(self.title)))
        return self

    def add(self, path: str, status: str, label: str, probability: float | None, error: str) -> None:
        """Add one file; from the 2,001st on files are only counted."""
        assert self._file is not None
        self.count += 1
        self.statuses[status] += 1
        if label:
            self.labels[label] += 1
        if self.shown >= MAX_PICTURES:
            return
        self.shown += 1
        card = _templates.get_template("gallery_card.html").render(
            picture=_thumbnail(path) if status == "ok" else None,
            name=harmless(Path(path).name),
            path=harmless(path),
            label=harmless(label),
            probability=probability,
            problem=f"{status}: {harmless(error)}" if status != "ok" else None,
        )
        self._file.write(card)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        labels = [(harmless(name), count) for name, count in self.labels.most_common()]
        foot = _templates.get_template("gallery_foot.html").render(
            count=self.count, shown=self.shown, labels=labels, bad=self.count - self.statuses["ok"]
        )
        self._file.write(foot)
        self._file.close()


def _thumbnail(path: str) -> str | None:
    """A small JPEG made anew from decoded pixels, so that nothing of the file but its picture is in the page."""
    try:
        picture = resize_shorter(read_image(path), THUMBNAIL, "bilinear")
    except ImageError:
        return None  # the file changed since it was predicted
    _, height, width = picture.shape
    top, left = (height - THUMBNAIL) // 2, (width - THUMBNAIL) // 2
    square = picture[:, top : top + THUMBNAIL, left : left + THUMBNAIL].permute(1, 2, 0).numpy()
    buffer = io.BytesIO()
    Image.fromarray(square).save(buffer, "JPEG", quality=80)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
