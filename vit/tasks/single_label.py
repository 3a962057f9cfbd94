"""Images with one class each"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

    from vit.tasks.single_label_loss import TrainingLoss


class SingleLabel:
    """See `Task`. Labels are (n,) class numbers, -1 where unknown."""

    kind, kinds, of = "class", "classes", "of"
    kinds_text, example = "classes", "LABELED_FOLDER"
    described = "images with one class each"
    is_exclusive = True
    column = "label"
    divided = "stratified"
    balanced_by = "balanced accuracy"
    accuracy_name, accuracy_metric = "accuracy", "acc1"
    headline = "accuracy"
    validation_columns: tuple[str, ...] = (
        "val/loss", "val/acc1", "val/acc5", "val/balanced_acc", "val/macro_f1", "val/ece",
    )  # fmt: skip
    best_metrics: tuple[str, ...] = ("loss", "acc1", "balanced_acc", "macro_f1", "last")
    plain_loss = "cross-entropy"
    other_options: Mapping[str, object] = {"optim.multilabel_loss": "bce", "optim.min_precision": None}
    other_problem = "is for images with several labels, and {data} has one class for each"
    other_fix = "leave it out; vit predict --reject_below sets the smallest probability of a class"
    layout = "give class folders, or a CSV with the columns path and label"
    missing_fit = "no temperature"

    def counts(self, labels: npt.NDArray[Any], num_classes: int) -> npt.NDArray[np.int64]:
        return np.bincount(labels[labels >= 0], minlength=num_classes)

    def names(self, labels: npt.NDArray[Any], class_names: Sequence[str]) -> list[str]:
        return ["" if label < 0 else class_names[label] for label in labels.tolist()]

    def array(self, names: Sequence[str], class_names: Sequence[str]) -> npt.NDArray[Any]:
        numbers = {name: number for number, name in enumerate(class_names)}
        return np.array([numbers[name] for name in names], dtype=np.int64)

    def targets(self, labels: npt.NDArray[Any]) -> "Tensor":
        import torch

        return torch.from_numpy(labels)

    def loss(
        self,
        labels: npt.NDArray[Any],
        name: str,
        label_smoothing: float,
        is_mixed: bool = False,
        weights: npt.NDArray[np.float64] | None = None,
        adjustment: npt.NDArray[np.float64] | None = None,
    ) -> "TrainingLoss":
        from vit.tasks.single_label_loss import TrainingLoss

        return TrainingLoss(label_smoothing, weights, adjustment)
