"""Names beside the points of a figure, apart from each other where points lie close together"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from vit.report.page.style import plain

_SIZE = 7  # of the letters; this and all below in points
_LETTER, _LINE = 0.6 * _SIZE, 1.25 * _SIZE  # width of a letter, and height of a line
_BESIDE, _ABOVE, _INDENT = 4.0, 4.0, 6.0  # from a point to its name, and further where the name has moved


def name_points(axes: Axes, names: Sequence[str], places: Sequence[tuple[float, float]]) -> None:
    """Write a name beside each point, lower or higher where other names are in its way, then with a line to its point.

    Call it when the axes have their scales and limits.

    Args:
        places: (x, y) of each point.
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
    """How far each name moves from its place, (n,), so that it is apart from the names before it.

    Args:
        points: (n, 2) where the points are.
        widths: (n,) of the names.
        way: 1 upwards, beginning with the lowest point, or -1 downwards, beginning with the highest.
    """
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
