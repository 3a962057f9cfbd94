"""The images behind the numbers of a confusion matrix: pictures of every cell, which its number opens"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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

    Args:
        predictions: name of the file with all predictions, as the reader finds it.
        classes: numbers of the classes of the page's table, in its order.
    """
    found: dict[tuple[int, int], list[int]] = {}
    for index in tested.by_loss:
        found.setdefault((int(tested.labels[index]), int(tested.predictions[index])), []).append(index)
    order = sorted(found, key=lambda pair: (pair[0] == pair[1], -len(found[pair]), pair))
    wrong = [pair for pair in order if pair[0] != pair[1]]
    lengths = np.array([len(found[pair]) for pair in order])
    fitting = (each for each in range(PER_CELL, 2, -1) if np.minimum(lengths, each).sum() <= MOST_PICTURES)
    each = next(fitting, 2)
    ends = np.cumsum(np.minimum(lengths, each))
    shown = order[: int(np.searchsorted(ends, MOST_PICTURES, side="right"))]
    pictures.prepare([index for pair in shown for index in found[pair][:each]])
    totals = np.bincount(tested.labels, minlength=len(class_names)).tolist()
    with_pictures, opened = set(shown), wrong[:OPEN]
    cells = {
        pair: CellImages(
            *pair,
            class_names[pair[0]],
            class_names[pair[1]],
            len(found[pair]),
            totals[pair[0]],
            pictures.cards(found[pair][:each]) if pair in with_pictures else [],
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
