"""Pictures of a run's page, where its images still exist, and those behind each number of the confusion matrix"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor

from vit.checkpoints.load import load
from vit.checkpoints.run import RunDirectory
from vit.data.checks.contents import current_hash
from vit.data.core.samples import Samples, Source, label_names
from vit.data.loading.threads import decode_threads
from vit.data.pixels.decode import ImageError
from vit.data.pixels.images import image_of
from vit.data.pixels.preprocess import Decoding
from vit.data.splits.split import SplitRow
from vit.errors import VitError
from vit.explain.methods import choose_methods
from vit.inference.scores.scored_images import ScoredRow
from vit.plain_files import parse_yaml, read_text
from vit.report.page.image_figures import enlarged, overlay
from vit.report.picture_page import encoded, shrunk
from vit.report.tables.label_mistakes import NotedLabel
from vit.report.tables.run_tables import Tested

THUMBNAIL = 128  # pixels of the longer side
Pixels = Callable[[int], Tensor | None]
Row = ScoredRow | NotedLabel
MOST_IN_MATRIX = 30  # classes of a matrix whose numbers are links
MOST_PAIRS = 500  # rows of the table of mistakes, which stands for a larger matrix
PER_CELL = 8  # pictures
MOST_PICTURES = 400  # of all cells together
OPEN = 8  # most frequent mistakes whose pictures are shown at once
MOST_LINKED = 60  # classes whose missed images and false alarms can be opened
_DARKEST = 45  # percent of color: text stays readable on it in light and in dark


def overlays(run: RunDirectory, images: Sequence[Tensor], predicted: Sequence[str]) -> list[tuple[Markup, Markup]]:
    """(input of the network, the same under a map of the class to explain) of each image (3, H, W) uint8, for <img>.

    Empty without a checkpoint, without images, or without a layer for a map. Also empty where the gradient of another
    library's network fails, or needs too much memory: a report must not fail for such a reason.
    """
    if not images:
        return []
    try:
        network, description = load(run.best_path)
        (method,) = choose_methods("best", network).values()
        seen = torch.stack([description.preprocess(image) for image in images])
        numbers = torch.tensor([description.class_names.index(name) for name in predicted])
        maps = method(network, description.preprocess.normalize(seen), numbers)
    except (VitError, RuntimeError):
        return []
    return [
        (encoded(enlarged(image)), encoded(overlay(image, importance)))
        for image, importance in zip(seen, maps, strict=True)
    ]


@dataclass(frozen=True)
class Card:
    """An image on the page, perhaps with a map of the pixels that mattered for its prediction."""

    row: Row
    picture: Markup | None  # source of its <img>, or None where the image is gone or has changed
    map: Markup | None = None


class Cards:
    """Cards of measured images; no `pixels` where the images are not those that were measured."""

    def __init__(self, rows: Sequence[Row], pixels: Pixels | None) -> None:
        self.rows, self.pixels = rows, pixels
        self._thumbnail = cache(self._shrunk)

    def cards(self, indices: Sequence[int]) -> list[Card]:
        return [Card(self.rows[index], self._thumbnail(index)) for index in indices]

    def prepare(self, indices: Sequence[int]) -> None:
        """Read many images on all cores, so that their cards need no time."""
        if self.pixels is not None:
            with decode_threads() as parallel:
                deque(parallel(self._thumbnail, indices), maxlen=0)

    def explained(self, indices: Sequence[int], run: RunDirectory, class_names: Sequence[str]) -> list[Card]:
        """Cards with maps of a class or label of each image. Empty where images are gone, or the network has no map."""
        pixels = [self.pixels(index) if self.pixels else None for index in indices]
        found = zip(indices, pixels, class_names, strict=True)
        readable = [(self.rows[index], image, name) for index, image, name in found if image is not None]
        maps = overlays(run, [image for _, image, _ in readable], [name for *_, name in readable])
        return [Card(row, *both) for (row, *_), both in zip(readable, maps, strict=False)]

    def _shrunk(self, index: int) -> Markup | None:
        image = self.pixels(index) if self.pixels else None
        return None if image is None else encoded(shrunk(image, THUMBNAIL))


@dataclass(frozen=True)
class RunImages:
    """The pixels of images that a run was measured on, or an evaluation, by their index among the measured ones."""

    samples: Samples  # the images of the split, in its own order
    places: Sequence[int]  # place in the split of each measured image
    hashes: Mapping[str, str]  # {path in `samples`: content hash} as measured; absent where it is not known
    decoding: Decoding
    changed: set[int] = field(default_factory=set)  # indices that were asked for, and whose content is another one now

    def __call__(self, index: int) -> Tensor | None:
        """The pixels of an image; None where the file is gone, or is known to have another content than measured."""
        try:
            place = self.places[index]
            known = self.hashes.get(self.samples.paths[place])
            if known and current_hash(self.samples, place) != known:
                self.changed.add(index)
                return None
            return image_of(self.samples, place, self.decoding)
        except (ImageError, IndexError):  # the files changed after the measurement
            return None


def pixels_of(
    run: RunDirectory,
    source: Source | None,
    split: str,
    images: Sequence[tuple[str, str]],
    listed: Mapping[str, Sequence[SplitRow]],
) -> RunImages | None:
    """The images, given by path and labels as text; None where they are not those that the run was measured on."""
    if source is None or split not in source.splits:
        return None
    samples = source.splits[split]
    names = label_names(samples, source.class_names)
    places = {image: place for place, image in enumerate(zip(samples.paths, names, strict=True))}
    if not places.keys() >= set(images):
        return None
    hashes = {row.name: row.content_hash for row in listed.get(split, ())}
    preprocess = parse_yaml(read_text(run.config_path))["model"]["preprocess"]
    window = preprocess["window"] and tuple(map(float, preprocess["window"]))
    decoding = Decoding(window, preprocess["channels"], preprocess["color_profiles"])
    return RunImages(samples, [places[image] for image in images], hashes, decoding)


def describe_changed(num_changed: int) -> str:
    """How many images of a page have no picture because their files were replaced, without a full stop; "" for 0."""
    if num_changed <= 1:
        return "1 image has no picture, because its file has changed since the training" if num_changed else ""
    return f"{num_changed:,} images have no picture, because their files have changed since the training"


@dataclass(frozen=True)
class CellImages:
    """A cell of the confusion matrix, with some of its images."""

    label: int  # number of the true class
    predicted: int  # number of the predicted class
    label_name: str
    predicted_name: str
    count: int  # number of images of the cell
    total: int  # number of images of the true class
    cards: list[Card]  # the largest losses; of a right prediction the least certain; [] where the page is full
    is_open: bool  # whether its pictures are shown at once

    @property
    def anchor(self) -> str:
        """The name of its place on the page; "" without pictures."""
        return f"images-{self.label}-{self.predicted}" if self.cards else ""

    @property
    def shade(self) -> int:
        """How dark the cell is, in percent."""
        return round(_DARKEST * math.sqrt(self.count / self.total))


@dataclass(frozen=True)
class ConfusionContent:
    """What the template prints."""

    # (true class, number of its images, cells, None for empty ones); [] for more than 30 classes
    matrix: list[tuple[str, int, list[CellImages | None]]]
    pairs: list[CellImages]  # mistakes, most frequent first; [] where there is a matrix
    num_pairs: int  # number of all mistakes
    cells: list[CellImages]  # cells with pictures; those that are shown at once come last
    missed: list[int]  # numbers of the classes whose missed images can be opened
    false_alarms: list[int]  # numbers of the classes whose false alarms can be opened
    predictions: str  # name of the file with all predictions

    @property
    def anchors(self) -> set[str]:
        return {cell.anchor for cell in self.cells}


def confusion_content(
    tested: Tested, class_names: Sequence[str], pictures: Cards, predictions: str, classes: Sequence[int] = ()
) -> ConfusionContent:
    """The matrix or the table of mistakes, with pictures of as many cells as the page holds.

    `predictions` names the file with all of them, and `classes` are the numbers of the rows of the page's table.
    """
    indices_of: dict[tuple[int, int], list[int]] = {}
    for index in tested.by_loss:
        indices_of.setdefault((int(tested.labels[index]), int(tested.predictions[index])), []).append(index)
    order = sorted(indices_of, key=lambda pair: (pair[0] == pair[1], -len(indices_of[pair]), pair))
    wrong = [pair for pair in order if pair[0] != pair[1]]
    lengths = np.array([len(indices_of[pair]) for pair in order])
    fitting = (each for each in range(PER_CELL, 2, -1) if np.minimum(lengths, each).sum() <= MOST_PICTURES)
    each = next(fitting, 2)
    ends = np.cumsum(np.minimum(lengths, each))
    shown = order[: int(np.searchsorted(ends, MOST_PICTURES, side="right"))]
    pictures.prepare([index for pair in shown for index in indices_of[pair][:each]])
    totals = np.bincount(tested.labels, minlength=len(class_names)).tolist()
    with_pictures, opened = set(shown), wrong[:OPEN]
    cells = {
        pair: CellImages(
            *pair,
            class_names[pair[0]],
            class_names[pair[1]],
            len(indices_of[pair]),
            totals[pair[0]],
            pictures.cards(indices_of[pair][:each]) if pair in with_pictures else [],
            pair in opened,
        )
        for pair in order
    }
    numbers, has_matrix = range(len(class_names)), len(class_names) <= MOST_IN_MATRIX
    missed, false_alarms = ({pair[place] for pair in shown if pair[0] != pair[1]} for place in (0, 1))
    rows = [(one, [cells.get((one, other)) for other in numbers]) for one in numbers if has_matrix]
    return ConfusionContent(
        matrix=[(class_names[one], totals[one], row) for one, row in rows],
        pairs=[] if has_matrix else [cells[pair] for pair in wrong[:MOST_PAIRS]],
        num_pairs=len(wrong),
        cells=[cells[pair] for pair in sorted(shown, key=opened.__contains__)],
        missed=[number for number in classes if number in missed][:MOST_LINKED],
        false_alarms=[number for number in classes if number in false_alarms][:MOST_LINKED],
        predictions=predictions,
    )
