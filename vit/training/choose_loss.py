"""The loss of a training: for one class of an image, or for several labels"""

from vit.data.samples import Samples
from vit.training.class_balance import ClassBalance
from vit.training.multilabel_loss import LossName, MultilabelLoss, frequencies_of, known_share
from vit.training.training_loss import TrainingLoss

Loss = TrainingLoss | MultilabelLoss


def choose_loss(
    train: Samples, balance: ClassBalance, name: LossName, label_smoothing: float, is_mixed: bool = False
) -> Loss:
    """The loss for some training images.

    Args:
        balance: class weights and logit adjustment of one class for each image.
        name: loss of several labels.
        label_smoothing: fraction of a label that is smoothed.
        is_mixed: whether mixup or cutmix mixes the images.
    """
    if train.is_multilabel:
        labels = train.label_rows
        return MultilabelLoss(name, label_smoothing, frequencies_of(labels), known_share(labels, is_mixed))
    return TrainingLoss(label_smoothing, balance.weights, balance.adjustment)
