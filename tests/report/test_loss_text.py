"""What the curves of a training show, by the options that change its loss."""

import pytest
import yaml

from vit.report.run.run_common import loss_text
from vit.tasks.task import MULTI_LABEL, SINGLE_LABEL

ALONE = "The validation loss is the cross-entropy of the labels alone."


def words(task=SINGLE_LABEL, augment=(("crop", 1.0), ("shift", 0.1), ("magnitude", 9)), **parts):
    return loss_text(yaml.safe_dump({"augment": {"name": "light", **dict(augment)}, **parts}), task)


def test_a_training_on_labels():
    found = words(optim={"label_smoothing": 0.1, "class_weights": "none", "logit_adjustment": 0.0})
    assert found[0] == "cross-entropy (nats)"
    assert found[1] == f"The training loss is the cross-entropy with augmentation and label smoothing. {ALONE}"
    assert words(optim={"label_smoothing": 0.0})[1] == (
        f"The training loss is the cross-entropy with augmentation. {ALONE}"
    )


def test_a_training_without_augmentation():
    unchanged = (("crop", 1.0), ("shift", 0.0), ("magnitude", 9))
    assert words(augment=unchanged)[1] == f"The training loss is the cross-entropy. {ALONE}"
    crops = words(augment=(*unchanged, ("crop", 0.35)))
    assert crops[1] == f"The training loss is the cross-entropy with augmentation. {ALONE}"


@pytest.mark.parametrize(
    ("part", "option", "value", "included"),
    [
        ("optim", "class_weights", "effective", "weights of the classes"),
        ("optim", "logit_adjustment", 1.0, "logits adjusted to the frequencies of the classes"),
        ("distill", "teacher", "runs/a", "the teacher's part"),
    ],
)
def test_losses_that_do_not_compare(part, option, value, included):
    found = words(**{part: {option: value}})
    assert found[0] == "loss"
    assert found[1] == f"The training loss is the cross-entropy with augmentation and {included}. {ALONE}"


def test_a_linear_probe_has_neither_augmentation_nor_smoothing():
    found = words(model={"freeze": "backbone"}, optim={"label_smoothing": 0.1})
    assert found == ("cross-entropy (nats)", f"The training loss is the cross-entropy. {ALONE}")


def test_several_labels():
    assert words(task=MULTI_LABEL, optim={"multilabel_loss": "bce"})[0] == "binary cross-entropy (nats)"
    found = words(task=MULTI_LABEL, optim={"multilabel_loss": "asymmetric"})
    assert found[0] == "loss" and found[1].startswith("The training loss is the asymmetric loss with augmentation.")
    assert found[1].endswith("The validation loss is the binary cross-entropy of the labels alone.")
