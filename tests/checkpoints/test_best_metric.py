"""The metric that chose a checkpoint, and whether the last weights were clearly more accurate"""

import pytest

from vit.checkpoints.result import RunResult, rule_text
from vit.checkpoints.run import RunDirectory
from vit.models.spec import NetworkSpec


def result(best, last, images=2500, metric="loss", **others):
    return RunResult(
        NetworkSpec.from_plain({"name": "vit_nano_patch2_8"}, 10), 8, 1, 1, "digits", {"validation": images}, {}, 0,
        1.0, 1, 1, 1.0, 1.0, "cpu", "32-true", 0, best, {}, {}, best_metric=metric, last_validation=last, **others,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("best", "last", "images", "is_better"),
    [
        (0.113, 0.279, 2500, True),  # a ViT with a convolutional stem on 100 images of CIFAR-10
        (0.279, 0.113, 2500, False),
        (0.80, 0.81, 2500, False),
        (0.50, 0.60, 20, False),  # two images
        (0.0, 1.0, 1, False),  # a single image proves nothing
        (0.0, 1.0, 8, True),
    ],
)
def test_the_last_weights_are_better_only_where_the_images_show_it(best, last, images, is_better):
    found = result({"val/loss": 2.0, "val/acc1": best}, {"val/loss": 3.0, "val/acc1": last}, images)
    assert found.last_is_better == is_better


def test_several_labels_are_judged_by_the_exact_match():
    best, last = {"val/loss": 1.0, "val/exact_match": 0.2}, {"val/loss": 1.0, "val/exact_match": 0.6}
    assert result(best, last, multilabel={"thresholds": [0.5]}).last_is_better
    assert not result(best, {}, multilabel={"thresholds": [0.5]}).last_is_better


@pytest.mark.parametrize(
    ("metric", "is_judged"), [("loss", True), ("acc1", True), ("balanced_acc", False), ("macro_f1", False)]
)
def test_a_choice_with_another_aim_is_not_judged_by_the_accuracy(metric, is_judged):
    best, last = {"val/loss": 2.0, "val/acc1": 0.2}, {"val/loss": 3.0, "val/acc1": 0.4}
    assert result(best, last, metric=metric).last_is_better == is_judged


def test_a_result_is_read_as_it_was_written(tmp_path):
    found = result({"val/loss": 2.0, "val/acc1": 0.1}, {"val/loss": 3.0, "val/acc1": 0.3}, metric="last")
    found.write(tmp_path / "result.json")
    read = RunResult.read(tmp_path / "result.json")
    assert (read.best_metric, read.last_validation) == ("last", found.last_validation)
    assert read.validation_rank == (-2.0, -2.0)  # of candidates, the one with the lowest loss


def test_rules_in_words():
    assert [rule_text(name) for name in ("loss", "acc1", "last")] == [
        "lowest val/loss",
        "highest val/acc1",
        "last weights",
    ]


@pytest.mark.parametrize("metric", ["loss", "last"])
@pytest.mark.slow
def test_a_training_that_overfits_says_what_its_best_checkpoint_lost(tmp_path, vit, metric):
    """20 digits without smoothing: the loss is lowest long before the accuracy is highest."""
    answer = vit(
        "train", "digits", "--data.train_images", 20, "--data.validation", 0.7, "--data.test", 0.1, "--batch_size", 20,
        "--optim.steps", 60, "--optim.lr", 0.02, "--optim.label_smoothing", 0, "--optim.best_metric", metric,
        "--model.network.depth", 1, "--seed", 1, "--out", tmp_path,
        drawn=True,
    ).ok()  # fmt: skip
    (path,) = tmp_path.rglob("result.json")
    found, page = RunResult.read(path), RunDirectory(path.parent).report_path.read_text(encoding="utf-8")
    assert (found.epochs, found.rounds, found.validation_name) == (60, 10, "validation")
    assert f"the best checkpoint, of validation {found.best_epoch + 1}," in page and "of epoch" not in page
    assert found.best_metric == metric and found.last_validation.keys() == found.validation.keys()
    is_last = found.best_epoch == 9 and found.validation == pytest.approx(found.last_validation)
    assert is_last == (metric == "last") and found.last_is_better == (metric == "loss")
    for text in (answer.out, page):
        assert ("--optim.best_metric last keeps the last weights" in text) == (metric == "loss")
