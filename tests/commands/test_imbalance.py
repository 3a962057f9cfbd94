"""`vit train` on unequal classes: the plan's advice, the metric that is followed, and an exact resume."""

import json

import pytest
import torch

from tests.runs import checkpoint, died, metrics, run_folder, same_end

COUNTS = {"cat": 60, "dog": 20, "owl": 2}
TINY = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--data.num_workers", 0, "--wandb", "off")
CORRECTED = (
    *TINY, "--augment", "strong", "--epochs", 3, "--batch_size", 16, "--optim.accumulate", 2, "--precision", "32-true",
    "--data.sampling", "balanced", "--optim.class_weights", "{owl: 3}", "--optim.best_metric", "macro_f1",
    "--optim.ema_decay", 0.8, "--keep_state", "true",
)  # fmt: skip


@pytest.fixture(scope="module")
def uneven(draw_classes, tmp_path_factory):
    """Photographs of a class with 60, one with 20 and one with 2 images, with validation and test images."""
    folder = tmp_path_factory.mktemp("uneven")
    for name, count in COUNTS.items():
        draw_classes(folder / "train", [name], count)
    for split in ("val", "test"):
        draw_classes(folder / split, list(COUNTS), 3)
    return folder


@pytest.fixture(scope="module")
def corrected(vit, uneven, tmp_path_factory):
    out = tmp_path_factory.mktemp("corrected")
    answer = vit("train", uneven, *CORRECTED, "--out", out, drawn=True).ok()
    return run_folder(out), answer


def test_the_plan_warns_and_says_what_to_try(vit, uneven, tmp_path):
    answer = vit("train", uneven, *TINY, "--dry_run", "--out", tmp_path).ok("2 training images of owl, 60 of cat")
    for option in ("--data.sampling sqrt", "--optim.class_weights auto", "--optim.logit_adjustment 1", "balanced_acc"):
        assert option in answer.out


def test_a_metric_that_cannot_see_the_rare_class_is_not_advised(vit, draw_classes, tmp_path):
    for name, count in COUNTS.items():
        draw_classes(tmp_path / "data" / "train", [name], count)
    for split in ("val", "test"):
        draw_classes(tmp_path / "data" / split, ["cat", "dog"], 3)
    for option in ((), ("--optim.class_weights", "auto")):
        answer = vit("train", tmp_path / "data", *TINY, *option, "--dry_run", "--out", tmp_path)
        assert answer.code == 0 and "owl" in answer.out and "balanced_acc" not in answer.out, answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--optim.class_weights", "auto"), ["weights 0.456 to 13.7 in the loss (auto)", "lowest val/loss", "against"]),
        (("--optim.logit_adjustment", "1"), ["adjusted by 1 log(share of the class)", "lowest val/loss"]),
        (("--data.sampling", "sqrt", "--optim.best_metric", "acc1"), ["square root", "highest val/acc1"]),
        (("--optim.best_metric", "balanced_acc"), ["highest val/balanced_acc", "2 training images of owl"]),
    ],
)
def test_the_plan_shows_what_is_done(vit, uneven, tmp_path, words, said):
    answer = vit("train", uneven, *TINY, *words, "--dry_run", "--out", tmp_path).ok()
    assert all(text in answer.out for text in said), answer.out


def test_equal_classes_get_no_advice(vit, colors, tmp_path):
    answer = vit("train", colors, *TINY, "--dry_run", "--out", tmp_path)
    assert answer.code == 0 and "class_weights" not in answer.out and "classes  " not in answer.out


def test_the_best_checkpoint_has_the_highest_value_of_its_metric(corrected):
    run, answer = corrected
    validated = [row for row in metrics(run) if row["val/macro_f1"]]
    values = [float(row["val/macro_f1"]) for row in validated]
    result = json.loads((run / "result.json").read_text())
    assert result["best_epoch"] == values.index(max(values))
    assert result["validation"]["val/macro_f1"] == pytest.approx(max(values))
    assert {"balanced_accuracy", "macro_f1"} <= result["metrics"].keys()
    assert "drawn equally often" in answer.out and "macro_f1" in answer.err
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "macro F1" in page and "number of its training images" in page
    assert (run / "figures" / "recall_by_size.png").is_file()


@pytest.mark.faults("R5", simulated="an exception where a process would die")
@pytest.mark.parametrize("step", [*(pytest.param(step, marks=pytest.mark.slow) for step in (3, 5)), 10])
def test_a_balanced_training_resumes_bit_equal(vit, uneven, corrected, tmp_path, step):
    run, whole = died(tmp_path, step, uneven, *CORRECTED, "--checkpoint_every", "0s"), corrected[0]
    before = checkpoint(run)["state_dict"]
    assert any(not torch.equal(value, before[name]) for name, value in checkpoint(whole)["state_dict"].items())
    vit("train", "--resume", run).ok()
    assert same_end(run, whole)
