"""Predictions with thumbnails as one HTML page: the least certain first, with a filter by label"""

import heapq
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Self

from markupsafe import Markup

from vit.checkpoints.run import unfinished_text
from vit.data.core.dataset_names import is_far
from vit.data.core.image_bytes import ImageError, ImageReader
from vit.data.pixels.decode import read_image
from vit.data.pixels.planes import shown
from vit.data.pixels.preprocess import Preprocess, resize_shorter
from vit.report.page.page import link_to, write_page
from vit.report.page.thumbnails import encoded

THUMBNAIL = 144
MAX_PICTURES = 2000
MAX_FILTERS = 40  # labels that one can choose; the counts of further labels are only listed
_LAST = 3.0  # rank of a file without an answer: a distance to a threshold is at most 2


class Gallery:
    """Collects predictions, and writes the page when the `with` block ends, also after an error.

    The page has the 2,000 least certain files: those with the lowest probabilities, or where an image may have several
    labels, those with a probability nearest to its threshold. Files without a label come last.

    Args:
        model: the model as the user named it.
        reader: reader of images of shards or on other machines; None: files.
        preprocess: the channels and the window that pictures are read with; None: colors of 8 bits.
        lacks: what the training of the model lacks; "" where it is finished.
    """

    def __init__(
        self,
        path: Path,
        model: str,
        reader: ImageReader | None = None,
        preprocess: Preprocess | None = None,
        lacks: str = "",
    ) -> None:
        self.path, self.model, self.lacks = path, model, lacks
        self._reader, self._preprocess = reader, preprocess
        self.num_files = 0
        self.statuses: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self._num_bad = 0
        self._has_several = False
        self._cards: list[tuple[float, int, dict[str, object]]] = []  # a heap: the first one is the first to go

    def __enter__(self) -> Self:
        return self

    def add(
        self,
        path: str,
        status: str,
        label: str,
        probability: float | None,
        error: str,
        labels: Sequence[str] | None = None,
        distance: float | None = None,
    ) -> None:
        """Add one file.

        An image that may have several `labels` has a `distance`: the smallest one of a probability to its threshold.
        """
        self.num_files += 1
        has_answer = probability is not None or labels is not None
        self._num_bad += not has_answer
        self.statuses[status] += 1
        own = tuple(labels) if labels is not None else (label,) if label else ()
        self.labels.update(own)
        self._has_several |= labels is not None
        certainty = probability if probability is not None else distance
        rank = _LAST if not has_answer else 1.0 if certainty is None else certainty
        place = (-rank, -self.num_files)  # of two equal ones, the later goes first
        if len(self._cards) == MAX_PICTURES and place < self._cards[0][:2]:
            return
        card: dict[str, object] = {
            "path": path,
            "name": Path(path).name,
            "link": link_to(path, self.path) if self._reader is None or is_far(path) else None,  # none into shards
            "labels": own,
            "has_answer": has_answer,
            "probability": probability,
            "problem": "" if status == "ok" else f"{status}: {error}" if error else status,
            "picture": self._thumbnail(path) if has_answer else None,
        }
        push = heapq.heappushpop if len(self._cards) == MAX_PICTURES else heapq.heappush
        push(self._cards, (*place, card))

    def __exit__(self, *error: object) -> None:
        counts = self.labels.most_common()
        content = {
            "model": self.model,
            "warning": unfinished_text(self.lacks) if self.lacks else "",
            "date": date.today().isoformat(),
            "num_files": self.num_files,
            "cards": [card for *_, card in sorted(self._cards, key=lambda one: one[:2], reverse=True)],
            "filters": counts[:MAX_FILTERS],
            "others": counts[MAX_FILTERS:],
            "numbers": {label: number for number, (label, _) in enumerate(counts[:MAX_FILTERS])},
            "bad": self._num_bad,
            "has_several": self._has_several,
            "unsure": self.statuses["unsure"],
            "novel": self.statuses["novel"],
        }
        write_page(self.path, "gallery.html", content)

    def _thumbnail(self, path: str) -> Markup | None:
        """The center square of a file's picture, small; None where the file changed after its prediction."""
        try:
            pixels = read_image(path, (self._preprocess or Preprocess(THUMBNAIL)).decoding, self._reader)
            picture = shown(resize_shorter(pixels, THUMBNAIL, "bilinear"))
        except ImageError:
            return None
        _, height, width = picture.shape
        top, left = (height - THUMBNAIL) // 2, (width - THUMBNAIL) // 2
        return encoded(picture[:, top : top + THUMBNAIL, left : left + THUMBNAIL])
