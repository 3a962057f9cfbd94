"""Recall of every class against the number of its training images: whether a training neglects rare classes"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from vit.data.samples import Labels
from vit.inference.intervals import Metric, recalls
from vit.report.point_names import name_points
from vit.report.style import class_axis, look

MOST_NAMED = 12  # classes with a name on the figure: the rarest and the commonest, so far as there is room
_ENDS = 3  # named classes at each end where there are more


@dataclass(frozen=True)
class ClassSize:
    """A class with measured images.

    Attributes:
        training_images: number of its training images.
        recall: fraction of its measured images that are predicted right, with its 95 % interval.
    """

    class_name: str
    training_images: int
    recall: Metric


def class_sizes(
    training_images: Labels,
    labels: Labels,
    correct: npt.NDArray[np.bool_],
    class_names: Sequence[str],
    groups: Labels | None = None,
) -> list[ClassSize]:
    """Every class with measured images, rarest first.

    Args:
        training_images: (C,) number of training images of each class.
        labels: (n,) true class numbers of the measured images.
        correct: (n,) whether the prediction is right.
        groups: (n,) as of `image_groups.numbered`.
    """
    found = []
    measured = recalls(labels, correct, len(class_names), groups)
    for number in np.argsort(training_images, kind="stable").tolist():
        recall = measured[number]
        if recall is not None:
            found.append(ClassSize(class_names[number], int(training_images[number]), recall))
    return found


def are_unequal(classes: Sequence[ClassSize]) -> bool:
    """Whether classes have different numbers of training images, so that recall can depend on them."""
    return len({one.training_images for one in classes}) > 1


def recall_by_size(classes: Sequence[ClassSize]) -> Figure:
    """Recall with its interval against the number of training images."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    color, marker = look(0)
    shown = [one for one in classes if one.training_images]  # a logarithm has no 0
    if shown:
        sizes = np.array([one.training_images for one in shown], dtype=np.float64)
        recalls, lows, highs = np.array([(one.recall.value, one.recall.low, one.recall.high) for one in shown]).T
        errors = 100 * np.clip([recalls - lows, highs - recalls], 0.0, None)
        faint = f"{color}{'90' if len(shown) <= MOST_NAMED else '30'}"  # with an opacity: many intervals overlap
        axes.errorbar(sizes, 100 * recalls, errors, fmt=marker, color=color, ecolor=faint, markersize=4)
    class_axis(axes, [one.training_images for one in shown], "training images of the class")
    axes.set(ylabel="recall (%)", ylim=(-3, 103))
    named = shown if len(shown) <= MOST_NAMED else [*shown[:_ENDS], *shown[-_ENDS:]]
    places = [(one.training_images, 100 * one.recall.value) for one in named]
    name_points(axes, [one.class_name for one in named], places)
    return figure
