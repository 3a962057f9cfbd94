"""Images with any number of labels"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vit.tasks.label_text import ABSENT, PRESENT, LabelRows, label_text, parse_labels

if TYPE_CHECKING:
    from torch import Tensor

    from vit.tasks.multi_label_loss import LossName, MultilabelLoss


class MultiLabel:
    """See `Task`. Labels are (n, K) int8: 1 present, 0 absent, -1 unknown."""

    kind, kinds, of = "label", "labels", "with"
    kinds_text, example = "labels, of which an image may have several", "LABELS.csv"
    described = "images with several labels"
    is_exclusive = False
    column = "labels"
    divided = "stratified by labels"
    balanced_by = "mean average precision"
    accuracy_name, accuracy_metric = "exact match", "exact_match"
    headline = "mAP"
    validation_columns: tuple[str, ...] = ("val/loss", "val/map", "val/micro_f1", "val/macro_f1", "val/exact_match")
    best_metrics: tuple[str, ...] = ("loss", "map", "micro_f1", "macro_f1", "exact_match", "last")
    plain_loss = "binary cross-entropy"
    other_options: Mapping[str, object] = {
        "data.sampling": "natural",
        "optim.class_weights": "none",
        "optim.logit_adjustment": 0.0,
    }
    other_problem = "needs one class for each image, and {data} has several labels"
    other_fix = "leave it out; --optim.multilabel_loss asymmetric is for rare labels"
    layout = "give a CSV with the columns path and labels, or one column of 0 and 1 for each label"
    missing_fit = "no temperatures, no thresholds"

    def counts(self, labels: npt.NDArray[Any], num_classes: int) -> npt.NDArray[np.int64]:
        return np.asarray((labels == PRESENT).sum(axis=0))

    def names(self, labels: npt.NDArray[Any], class_names: Sequence[str]) -> list[str]:
        return [label_text(row, class_names) for row in labels]

    def array(self, names: Sequence[str], class_names: Sequence[str]) -> npt.NDArray[Any]:
        numbers = {name: number for number, name in enumerate(class_names)}
        rows: LabelRows = np.full((len(names), len(class_names)), ABSENT, dtype=np.int8)
        for row, text in zip(rows, names, strict=True):
            for name, value in parse_labels(text).items():
                row[numbers[name]] = value
        return rows

    def targets(self, labels: npt.NDArray[Any]) -> "Tensor":
        import torch

        return torch.from_numpy(labels).float()

    def loss(
        self,
        labels: npt.NDArray[Any],
        name: "LossName",
        label_smoothing: float,
        is_mixed: bool = False,
        weights: npt.NDArray[np.float64] | None = None,
        adjustment: npt.NDArray[np.float64] | None = None,
    ) -> "MultilabelLoss":
        from vit.tasks.multi_label_loss import MultilabelLoss, frequencies_of, known_share

        return MultilabelLoss(name, label_smoothing, frequencies_of(labels), known_share(labels, is_mixed))
