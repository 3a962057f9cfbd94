"""The images behind the numbers of a confusion matrix: pictures of every cell, which its number opens"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vit.inference.metrics.metrics import confusion
from vit.report.run.run_pictures import Card, Cards
from vit.report.tables.run_tables import Tested

MOST_IN_MATRIX = 30  # classes of a matrix whose numbers are links
MOST_PAIRS = 500  # rows of the table of mistakes, which stands for a larger matrix
PER_CELL = 8  # pictures
MOST_PICTURES = 400  # of all cells together
OPEN = 8  # most frequent mistakes whose pictures are shown at once
MOST_LINKED = 60  # classes whose missed images and false alarms can be opened
_DARKEST = 45  # percent of color: text stays readable on it in light and in dark


@dataclass(frozen=True)
class CellImages:
    """A cell of the confusion matrix and some of its images.

    Attributes:
        label, predicted: numbers of the true and of the predicted class.
        count: number of images of the cell.
        total: number of images of the true class.
        cards: the images with the largest loss; of a right prediction, the least certain.
        is_open: whether its pictures are shown at once.
    """

    label: int
    predicted: int
    label_name: str
    predicted_name: str
    count: int
    total: int
    cards: list[Card]
    is_open: bool

    @property
    def anchor(self) -> str:
        """The name of its place on the page."""
        return anchor(self.label, self.predicted)


@dataclass(frozen=True)
class MatrixCell:
    """A number of the matrix, how dark it is (percent), and its anchor; "" without pictures."""

    count: int
    shade: int
    anchor: str


@dataclass(frozen=True)
class PairRow:
    """A mistake of the table that stands for a large matrix."""

    label: str
    predicted: str
    count: int
    total: int
    anchor: str


@dataclass(frozen=True)
class ConfusionContent:
    """What the template prints.

    Attributes:
        matrix: (true class, number of its images, cells); empty for more than 30 classes.
        pairs: mistakes, most frequent first; empty where there is a matrix.
        num_pairs: number of all mistakes.
        cells: cells with pictures; those that are shown at once come last.
        missed, false_alarms: numbers of the classes whose missed images or false alarms can be opened.
        predictions: name of the file with all predictions.
    """

    matrix: list[tuple[str, int, list[MatrixCell]]]
    pairs: list[PairRow]
    num_pairs: int
    cells: list[CellImages]
    missed: list[int]
    false_alarms: list[int]
    predictions: str

    @property
    def anchors(self) -> set[str]:
        """Anchors of the cells with pictures."""
        return {cell.anchor for cell in self.cells}


def anchor(label: int, predicted: int) -> str:
    """The name of a cell's place on the page."""
    return f"images-{label}-{predicted}"


def confusion_content(
    tested: Tested, class_names: Sequence[str], pictures: Cards, predictions: str, classes: Sequence[int] = ()
) -> ConfusionContent:
    """The matrix or the table of mistakes, with pictures of as many cells as the page holds.

    Args:
        predictions: name of the file with all predictions, as the reader finds it.
        classes: numbers of the classes of the page's table, in its order.
    """
    found: dict[tuple[int, int], list[int]] = {}
    for index in tested.by_loss:
        found.setdefault((int(tested.labels[index]), int(tested.predictions[index])), []).append(index)
    sizes = {pair: len(indices) for pair, indices in found.items()}
    order = sorted(sizes, key=lambda pair: (pair[0] == pair[1], -sizes[pair], pair))
    wrong = [pair for pair in order if pair[0] != pair[1]]
    each = _pictures_each([sizes[pair] for pair in order])
    ends = np.cumsum([min(sizes[pair], each) for pair in order])
    shown = order[: int(np.searchsorted(ends, MOST_PICTURES, side="right"))]
    pictures.prepare([index for pair in shown for index in found[pair][:each]])
    totals = np.bincount(tested.labels, minlength=len(class_names))
    cells = [
        CellImages(
            label=label,
            predicted=predicted,
            label_name=class_names[label],
            predicted_name=class_names[predicted],
            count=sizes[label, predicted],
            total=int(totals[label]),
            cards=pictures.cards(found[label, predicted][:each]),
            is_open=(label, predicted) in wrong[:OPEN],
        )
        for label, predicted in sorted(shown, key=wrong[:OPEN].__contains__)  # those shown at once come last
    ]
    anchors = {cell.anchor for cell in cells}
    pairs = [
        PairRow(
            class_names[label],
            class_names[predicted],
            sizes[label, predicted],
            int(totals[label]),
            anchor(label, predicted) if anchor(label, predicted) in anchors else "",
        )
        for label, predicted in wrong[:MOST_PAIRS]
    ]
    has_matrix = len(class_names) <= MOST_IN_MATRIX
    opened = [pair for pair in shown if pair[0] != pair[1]]
    return ConfusionContent(
        matrix=_matrix(tested, class_names, anchors) if has_matrix else [],
        pairs=[] if has_matrix else pairs,
        num_pairs=len(wrong),
        cells=cells,
        missed=[number for number in classes if number in {pair[0] for pair in opened}][:MOST_LINKED],
        false_alarms=[number for number in classes if number in {pair[1] for pair in opened}][:MOST_LINKED],
        predictions=predictions,
    )


def _pictures_each(sizes: Sequence[int]) -> int:
    """The largest number of pictures of a cell, from 2 to PER_CELL, with which all cells fit on the page."""
    for each in range(PER_CELL, 2, -1):
        if sum(min(size, each) for size in sizes) <= MOST_PICTURES:
            return each
    return 2


def _matrix(tested: Tested, class_names: Sequence[str], anchors: set[str]) -> list[tuple[str, int, list[MatrixCell]]]:
    counts = confusion(tested.labels, tested.predictions, len(class_names))
    rows = []
    for label, row in enumerate(counts.tolist()):
        total = sum(row)
        cells = [
            MatrixCell(
                count,
                round(_DARKEST * math.sqrt(count / total)) if total else 0,
                anchor(label, predicted) if anchor(label, predicted) in anchors else "",
            )
            for predicted, count in enumerate(row)
        ]
        rows.append((class_names[label], total, cells))
    return rows
