"""Task: what differs between images with one class each and images with several labels

The kind of a data set or of a model is decided here alone: by the shape of its labels, or by its rules of labels.
Everything else asks the task.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from vit.tasks.multi_label import MultiLabel
from vit.tasks.single_label import SingleLabel

if TYPE_CHECKING:
    from torch import Tensor

    from vit.tasks.loss import Loss
    from vit.tasks.multi_label_loss import LossName

AnyLabels = npt.NDArray[Any]  # (n,) class numbers, -1 unknown; or (n, K) 1 present, 0 absent, -1 unknown


class Task(Protocol):
    """What an image may have: one class, or any number of labels.

    Attributes:
        kind, kinds: what an image has, in one word: "class", "classes".
        kinds_text: the same in a list of facts.
        example: labeled images in an example of a command.
        of: word between images and a class: 3 images "of" it, or "with" it.
        described: the images in words.
        is_exclusive: whether an image has exactly one class, so that a class can be taken for another one.
        column: column of splits.csv that holds `names`.
        divided: how images are divided into splits, in words.
        balanced_by: metric that judges rare classes fairly.
        accuracy_name, accuracy_metric: fraction of the images that are right: for people, and among the metrics.
        headline: name of the metric that a page shows first.
        validation_columns: names of the validation metrics in metrics.csv.
        plain_loss: validation loss in words.
        other_options: {option of a recipe for the other task: its value where nothing is asked for}.
        other_problem, other_fix: error where such an option has another value: after the option, with {data}; the fix.
        layout: how such images are given.
        missing_fit: what only the end of a training fits, in words.
    """

    kind: str
    kinds: str
    kinds_text: str
    example: str
    of: str
    described: str
    is_exclusive: bool
    column: str
    divided: str
    balanced_by: str
    accuracy_name: str
    accuracy_metric: str
    headline: str
    validation_columns: tuple[str, ...]
    best_metrics: tuple[str, ...]
    plain_loss: str
    other_options: Mapping[str, object]
    other_problem: str
    other_fix: str
    layout: str
    missing_fit: str

    def counts(self, labels: AnyLabels, num_classes: int) -> npt.NDArray[np.int64]:
        """(C,) number of images of each class, or with each label."""

    def names(self, labels: AnyLabels, class_names: Sequence[str]) -> list[str]:
        """The class name of each image, or all its labels in one text; "" for an image without a label (-1)."""

    def array(self, names: Sequence[str], class_names: Sequence[str]) -> AnyLabels:
        """The labels that `names` gave.

        Raises:
            KeyError, ValueError: a name is unknown, or a text is not one of `label_text`.
        """

    def targets(self, labels: AnyLabels) -> "Tensor":
        """The labels of some images as losses take them: class numbers (B,), or (B, K) float32."""

    def loss(
        self,
        labels: AnyLabels,
        name: "LossName",
        label_smoothing: float,
        is_mixed: bool = False,
        weights: npt.NDArray[np.float64] | None = None,
        adjustment: npt.NDArray[np.float64] | None = None,
    ) -> "Loss":
        """The training loss.

        Args:
            labels: labels of all training images.
            name: loss of several labels.
            label_smoothing: fraction of a label that is smoothed.
            is_mixed: whether mixup or cutmix mixes the images.
            weights, adjustment: (C,) class weights and logit adjustment of one class for each image.
        """


SINGLE_LABEL: Task = SingleLabel()
MULTI_LABEL: Task = MultiLabel()


def task_of(labels: AnyLabels) -> Task:
    """The task of images with these labels."""
    return MULTI_LABEL if labels.ndim == 2 else SINGLE_LABEL


def task_with(rules: object | None) -> Task:
    """The task of a model with rules of its labels, or None."""
    return SINGLE_LABEL if rules is None else MULTI_LABEL


def task_of_columns(names: Collection[str]) -> Task:
    """The task of a splits.csv or metrics.csv with these columns."""
    return MULTI_LABEL if MULTI_LABEL.column in names or "val/map" in names else SINGLE_LABEL
