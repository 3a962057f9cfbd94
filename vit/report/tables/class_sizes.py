"""A metric of every class or label against the number of its training images: are rare ones neglected?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vit.data.core.samples import Labels
from vit.inference.scores.intervals import Metric, recalls
from vit.report.page.style import look, plain, plot, size_axis

MOST_NAMED = 12  # classes with a name on the figure: the rarest and the commonest, so far as there is room
_ENDS = 3  # named classes at each end where there are more
_SIZE = 7  # of the letters; this and all below in points
_LETTER, _LINE = 0.6 * _SIZE, 1.25 * _SIZE  # width of a letter, and height of a line
_BESIDE, _ABOVE, _INDENT = 4.0, 4.0, 6.0  # from a point to its name, and further where the name has moved


def name_points(axes: Axes, names: Sequence[str], places: Sequence[tuple[float, float]]) -> None:
    """Write a name beside each point (x, y), lower or higher where other names are in its way, then with a line to it.

    Call it when the axes have their scales and limits.
    """
    if not names:
        return
    words = [plain(name) for name in names]
    to_points = 72 / axes.figure.dpi
    points = axes.transData.transform(places) * to_points
    widths = np.array([_INDENT + _LETTER * len(word) for word in words])
    moves = _moves(points, widths, -1)
    if (points[:, 1] + moves).min() < axes.bbox.y0 * to_points:  # names would leave the axes
        moves = _moves(points, widths, 1)
    for word, place, move in zip(words, places, moves, strict=True):
        far = abs(move) > _LINE / 2
        line = {"arrowstyle": "-", "linewidth": 0.4, "color": "0.6", "shrinkA": 0, "shrinkB": 2} if far else None
        offset = (_BESIDE + far * _INDENT, _ABOVE + move)
        axes.annotate(word, place, offset, textcoords="offset points", fontsize=_SIZE, arrowprops=line)


def _moves(points: npt.NDArray[np.float64], widths: npt.NDArray[np.float64], way: int) -> npt.NDArray[np.float64]:
    """How far each name (n,) moves from its point (n, 2) to be apart from those before: up (`way` 1), or down (-1)."""
    moves = np.zeros(len(points))
    done: list[int] = []
    for number in np.lexsort((points[:, 0], way * points[:, 1])).tolist():
        x, y = points[number]
        beside = [one for one in done if points[one, 0] < x + widths[number] and x < points[one, 0] + widths[one]]
        for taken in sorted((points[one, 1] + moves[one] for one in beside), key=lambda height: way * height):
            if abs(taken - y) < _LINE:
                y = taken + way * _LINE
        moves[number] = y - points[number, 1]
        done.append(number)
    return moves


@dataclass(frozen=True)
class ClassSize:
    """A class or label with measured images."""

    name: str
    training_images: int  # number of its training images
    metric: Metric  # how well its images are found


def metric_by_size(classes: Sequence[ClassSize], metric: str, images: str) -> Figure:
    """A metric with its interval against the number of `images`, such as "training images of the class"."""
    figure, axes = plot(6, 3.6)
    color, marker = look(0)
    shown = [one for one in classes if one.training_images]  # a logarithm has no 0
    if shown:
        sizes = np.array([one.training_images for one in shown], dtype=np.float64)
        values, lows, highs = np.array([(one.metric.value, one.metric.low, one.metric.high) for one in shown]).T
        errors = 100 * np.clip([values - lows, highs - values], 0.0, None)
        faint = f"{color}{'90' if len(shown) <= MOST_NAMED else '30'}"  # with an opacity: many intervals overlap
        axes.errorbar(sizes, 100 * values, errors, fmt=marker, color=color, ecolor=faint, markersize=4)
    counts = [one.training_images for one in shown]
    if counts and max(counts) >= 2 * min(counts):
        size_axis(axes, sorted(set(counts)), max(counts))
        axes.set(xlabel=f"{images} (log scale)")
    else:
        if counts:
            low, high = axes.get_xlim()
            axes.set_xlim(min(low, min(counts) - 1), max(high, max(counts) + 1))  # so that there are whole numbers
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set(xlabel=images)
    axes.set(ylabel=f"{metric} (%)", ylim=(-3, 103))
    named = shown if len(shown) <= MOST_NAMED else [*shown[:_ENDS], *shown[-_ENDS:]]
    name_points(axes, [one.name for one in named], [(one.training_images, 100 * one.metric.value) for one in named])
    return figure


def recall_by_size(
    training_images: Labels,
    labels: Labels,
    correct: npt.NDArray[np.bool_],
    class_names: Sequence[str],
    groups: Labels | None = None,
) -> Figure | None:
    """Recall of every class with measured images; None where all of them have the same number of training images.

    Args:
        training_images: (C,) number of training images of each class.
        labels, correct, groups: (n,) of the measured images; groups as of `image_groups.numbered`.
    """
    measured = recalls(labels, correct, len(class_names), groups)
    classes = [
        ClassSize(class_names[number], int(training_images[number]), recall)
        for number in np.argsort(training_images, kind="stable").tolist()  # rarest first
        if (recall := measured[number]) is not None
    ]
    if len({one.training_images for one in classes}) < 2:
        return None
    return metric_by_size(classes, "recall", "training images of the class")
