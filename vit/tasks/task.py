"""Task: what differs between images with one class each and images with several labels

The kind of a data set or of a model is decided here alone: by the shape of its labels, or by its rules of labels.
Everything else asks the task.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vit.tasks.label_text import ABSENT, PRESENT, LabelRows, label_text, parse_labels

if TYPE_CHECKING:
    from torch import Tensor

    from vit.tasks.losses import Loss, LossName

AnyLabels = npt.NDArray[Any]  # (n,) class numbers, -1 unknown; or (n, K) 1 present, 0 absent, -1 unknown
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LossOptions:
    """What a training decides about its loss; each task reads what concerns it."""

    name: "LossName"  # loss of several labels
    label_smoothing: float  # fraction of a label that is smoothed
    weights: _Floats | None  # (C,) class weights of one class for each image; None: equal weights
    adjustment: _Floats | None  # (C,) logit adjustment of one class for each image; None: none
    is_mixed: bool = False  # whether mixup or cutmix mixes the images


class Task(ABC):
    """What an image may have: one class, or any number of labels."""

    kind: str  # what an image has, in one word: "class"
    kinds: str  # its plural
    kinds_text: str  # the same in a list of facts
    example: str  # labeled images in an example of a command
    of: str  # word between images and a class: 3 images "of" it, or "with" it
    described: str  # the images in words
    is_exclusive: bool  # whether an image has exactly one class, so that a class can be taken for another one
    column: str  # column of splits.csv that holds `names`
    divided: str  # how images are divided into splits, in words
    balanced_by: str  # metric that judges rare classes fairly
    accuracy_name: str  # fraction of the images that are right, for people
    accuracy_metric: str  # the same among the metrics
    headline: str  # name of the metric that a page shows first
    validation_columns: tuple[str, ...]  # names of the validation metrics in metrics.csv
    best_metrics: tuple[str, ...]  # values of optim.best_metric
    plain_loss: str  # validation loss in words
    other_options: Mapping[str, object]  # {option of a recipe for the other task: its value where nothing is asked for}
    other_problem: str  # error where such an option has another value: after the option, with {data}
    other_fix: str  # fix of this error
    layout: str  # how such images are given
    missing_fit: str  # what only the end of a training fits, in words

    @abstractmethod
    def counts(self, labels: AnyLabels, num_classes: int) -> npt.NDArray[np.int64]:
        """(C,) number of images of each class, or with each label."""

    @abstractmethod
    def names(self, labels: AnyLabels, class_names: Sequence[str]) -> list[str]:
        """The class name of each image, or all its labels in one text; "" for an image without a label (-1)."""

    @abstractmethod
    def array(self, names: Sequence[str], class_names: Sequence[str]) -> AnyLabels:
        """The labels that `names` gave. KeyError or ValueError where a name is unknown, or not one of `label_text`."""

    @abstractmethod
    def targets(self, labels: AnyLabels) -> "Tensor":
        """The labels of some images as losses take them: class numbers (B,), or (B, K) float32."""

    @abstractmethod
    def loss(self, labels: AnyLabels, options: LossOptions) -> "Loss":
        """The training loss for the labels of all training images."""


class SingleLabel(Task):
    """Images with one class each. Labels are (n,) class numbers, -1 where unknown."""

    kind, kinds, of = "class", "classes", "of"
    kinds_text, example = "classes", "LABELED_FOLDER"
    described = "images with one class each"
    is_exclusive = True
    column, divided = "label", "stratified"
    balanced_by, headline = "balanced accuracy", "accuracy"
    accuracy_name, accuracy_metric = "accuracy", "acc1"
    validation_columns = ("val/loss", "val/acc1", "val/acc5", "val/balanced_acc", "val/macro_f1", "val/ece")
    best_metrics = ("loss", "acc1", "balanced_acc", "macro_f1", "last")
    plain_loss = "cross-entropy"
    other_options: Mapping[str, object] = {"optim.multilabel_loss": "bce", "optim.min_precision": None}
    other_problem = "is for images with several labels, and {data} has one class for each"
    other_fix = "leave it out; vit predict --reject_below sets the smallest probability of a class"
    layout = "give class folders, or a CSV with the columns path and label"
    missing_fit = "no temperature"

    def counts(self, labels: AnyLabels, num_classes: int) -> npt.NDArray[np.int64]:
        return np.bincount(labels[labels >= 0], minlength=num_classes)

    def names(self, labels: AnyLabels, class_names: Sequence[str]) -> list[str]:
        return ["" if label < 0 else class_names[label] for label in labels.tolist()]

    def array(self, names: Sequence[str], class_names: Sequence[str]) -> AnyLabels:
        numbers = {name: number for number, name in enumerate(class_names)}
        return np.array([numbers[name] for name in names], dtype=np.int64)

    def targets(self, labels: AnyLabels) -> "Tensor":
        import torch

        return torch.from_numpy(labels)

    def loss(self, labels: AnyLabels, options: LossOptions) -> "Loss":
        from vit.tasks.losses import TrainingLoss

        return TrainingLoss(options.label_smoothing, options.weights, options.adjustment)


class MultiLabel(Task):
    """Images with any number of labels. Labels are (n, K) int8: 1 present, 0 absent, -1 unknown."""

    kind, kinds, of = "label", "labels", "with"
    kinds_text, example = "labels, of which an image may have several", "LABELS.csv"
    described = "images with several labels"
    is_exclusive = False
    column, divided = "labels", "stratified by labels"
    balanced_by, headline = "mean average precision", "mAP"
    accuracy_name, accuracy_metric = "exact match", "exact_match"
    validation_columns = ("val/loss", "val/map", "val/micro_f1", "val/macro_f1", "val/exact_match")
    best_metrics = ("loss", "map", "micro_f1", "macro_f1", "exact_match", "last")
    plain_loss = "binary cross-entropy"
    other_options: Mapping[str, object] = {
        "data.sampling": "natural", "optim.class_weights": "none", "optim.logit_adjustment": 0.0,
    }  # fmt: skip
    other_problem = "needs one class for each image, and {data} has several labels"
    other_fix = "leave it out; --optim.multilabel_loss asymmetric is for rare labels"
    layout = "give a CSV with the columns path and labels, or one column of 0 and 1 for each label"
    missing_fit = "no temperatures, no thresholds"

    def counts(self, labels: AnyLabels, num_classes: int) -> npt.NDArray[np.int64]:
        return np.asarray((labels == PRESENT).sum(axis=0))

    def names(self, labels: AnyLabels, class_names: Sequence[str]) -> list[str]:
        return [label_text(row, class_names) for row in labels]

    def array(self, names: Sequence[str], class_names: Sequence[str]) -> AnyLabels:
        numbers = {name: number for number, name in enumerate(class_names)}
        rows: LabelRows = np.full((len(names), len(class_names)), ABSENT, dtype=np.int8)
        for row, text in zip(rows, names, strict=True):
            for name, value in parse_labels(text).items():
                row[numbers[name]] = value
        return rows

    def targets(self, labels: AnyLabels) -> "Tensor":
        import torch

        return torch.from_numpy(labels).float()

    def loss(self, labels: AnyLabels, options: LossOptions) -> "Loss":
        from vit.tasks.losses import MultilabelLoss, frequencies_of, known_share

        known = known_share(labels, options.is_mixed)
        return MultilabelLoss(options.name, options.label_smoothing, frequencies_of(labels), known)


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
