"""A metric of every class or label against the number of its training images: are rare ones neglected?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from vit.data.core.samples import Labels
from vit.inference.scores.intervals import Metric, recalls
from vit.report.page.point_names import name_points
from vit.report.page.style import class_axis, look

MOST_NAMED = 12  # classes with a name on the figure: the rarest and the commonest, so far as there is room
_ENDS = 3  # named classes at each end where there are more


@dataclass(frozen=True)
class ClassSize:
    """A class or label with measured images.

    Attributes:
        training_images: number of its training images.
        metric: how well its images are found.
    """

    name: str
    training_images: int
    metric: Metric


def class_sizes(
    training_images: Labels,
    labels: Labels,
    correct: npt.NDArray[np.bool_],
    class_names: Sequence[str],
    groups: Labels | None = None,
) -> list[ClassSize]:
    """Every class with measured images and its recall, rarest first.

    Args:
        training_images: (C,) number of training images of each class.
        labels: (n,) true class numbers of the measured images.
        correct: (n,) whether the prediction is right.
        groups: (n,) as of `image_groups.numbered`.
    """
    measured = recalls(labels, correct, len(class_names), groups)
    return [
        ClassSize(class_names[number], int(training_images[number]), recall)
        for number in np.argsort(training_images, kind="stable").tolist()
        if (recall := measured[number]) is not None
    ]


def are_unequal(classes: Sequence[ClassSize]) -> bool:
    """Whether classes have different numbers of training images, so that recall can depend on them."""
    return len({one.training_images for one in classes}) > 1


def metric_by_size(classes: Sequence[ClassSize], metric: str, images: str) -> Figure:
    """A metric with its interval against the number of training images.

    Args:
        classes: classes or labels, rarest first.
        metric: name of the metric.
        images: what is counted, such as "training images of the class".
    """
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    color, marker = look(0)
    shown = [one for one in classes if one.training_images]  # a logarithm has no 0
    if shown:
        sizes = np.array([one.training_images for one in shown], dtype=np.float64)
        values, lows, highs = np.array([(one.metric.value, one.metric.low, one.metric.high) for one in shown]).T
        errors = 100 * np.clip([values - lows, highs - values], 0.0, None)
        faint = f"{color}{'90' if len(shown) <= MOST_NAMED else '30'}"  # with an opacity: many intervals overlap
        axes.errorbar(sizes, 100 * values, errors, fmt=marker, color=color, ecolor=faint, markersize=4)
    class_axis(axes, [one.training_images for one in shown], images)
    axes.set(ylabel=f"{metric} (%)", ylim=(-3, 103))
    named = shown if len(shown) <= MOST_NAMED else [*shown[:_ENDS], *shown[-_ENDS:]]
    name_points(axes, [one.name for one in named], [(one.training_images, 100 * one.metric.value) for one in named])
    return figure


def recall_by_size(classes: Sequence[ClassSize]) -> Figure:
    """Recall of each class against the number of its training images."""
    return metric_by_size(classes, "recall", "training images of the class")
