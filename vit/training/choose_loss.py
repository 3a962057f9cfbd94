"""The loss of a training: for one class of an image, or for several labels"""

from typing import TYPE_CHECKING

from vit.training.multilabel_loss import MultilabelLoss, frequencies_of, known_share
from vit.training.training_loss import TrainingLoss

if TYPE_CHECKING:
    from vit.training.planning.plan import Plan  # which imports this module, by way of LoRA

Loss = TrainingLoss | MultilabelLoss


def choose_loss(plan: "Plan", label_smoothing: float, is_mixed: bool) -> Loss:
    """The loss that a plan asks for.

    Args:
        label_smoothing: fraction of a label that is smoothed.
        is_mixed: whether mixup or cutmix mixes the training images.
    """
    if plan.source.is_multilabel:
        labels = plan.source.splits["train"].label_rows
        name = plan.recipe.optim.multilabel_loss
        return MultilabelLoss(name, label_smoothing, frequencies_of(labels), known_share(labels, is_mixed))
    balance = plan.class_balance
    return TrainingLoss(label_smoothing, balance.weights, balance.adjustment)
