"""The lines to send: what the length and the best checkpoint of a training advise."""

from dataclasses import replace

import pytest

from vit.checkpoints.result import RunResult
from vit.models.spec import NetworkSpec
from vit.report.run.run_common import about_choice, training_advice, training_line, without_test

RESULT = RunResult(
    NetworkSpec("vit_nano_patch2_8", 3), 8, 7, 9, "photos", {"train": 84}, {}, 0, 50.0, 400, 10, 1.0, 1.0, "cpu",
    "32-true", best_epoch=9, validation={}, metrics={}, versions={},
)  # fmt: skip


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"rounds": 10, "validation_name": "validation"}, "validation"),  # 50 epochs
        ({"rounds": 10, "validation_name": "validation", "epochs": 3.75, "best_epoch": 4}, None),
        ({"rounds": 10, "validation_name": "validation", "epochs": 3.75}, "validation"),
        ({"rounds": 10, "epochs": 10.0}, "epoch"),
        ({"rounds": 10, "epochs": 10.0, "best_metric": "last"}, None),
        ({"rounds": 10, "epochs": 10.0, "best_epoch": 8}, None),
        ({"rounds": 1, "epochs": 1.0, "best_epoch": 0}, None),
        ({"rounds": 10, "validation_name": "penalty", "epochs": 96.0, "best_epoch": 4}, None),
    ],
)
def test_a_longer_training_is_advised_where_the_last_validation_was_the_best_one(values, name):
    """The number of the best validation was compared with the number of epochs."""
    (*found, _) = training_advice(replace(RESULT, **values), "random weights")
    expected = [] if name is None else [f"The last {name} was the best one: a longer training may be better."]
    assert found == expected


def test_a_linear_probe_has_no_epochs():
    probed = replace(RESULT, validation_name="penalty", rounds=10)
    words = "Trained on 84 images by a linear probe of the last layer, seed 0; weights of x.ckpt at first"
    assert training_line(probed, "weights of x.ckpt") == words
    assert "for 50 epochs" in training_line(RESULT, "random weights")
    for best, end in ((0, "largest"), (4, ""), (9, "smallest")):
        found = about_choice(replace(probed, best_epoch=best))
        assert len(found) == bool(end) and all(
            f"The {end} penalty that is tried was the best one" in one for one in found
        )
    (found,) = about_choice(replace(probed, best_epoch=0, validation={"val/map": float("nan")}))
    assert "penalty" not in found, "a metric of NaN chooses the first penalty"


def test_validation_images_that_chose_the_checkpoint_are_no_test():
    untested = replace(RESULT, num_images={"train": 84, "validation": 9}, validation={"val/acc1": 0.9})
    (found,) = without_test(untested)
    assert "so their accuracy is too high" in found and "--data.test 0.1" in found
    assert found in training_advice(untested, "random weights")
    assert "so their mAP is too high" in without_test(replace(untested, multilabel={}))[0]
    tested = replace(untested, num_images={**untested.num_images, "test": 9})
    for other in (tested, replace(untested, best_metric="last"), replace(untested, rounds=1)):
        assert without_test(other) == []
