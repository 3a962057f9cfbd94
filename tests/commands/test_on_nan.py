"""`--optim.on_nan`: training stops at a loss that is NaN, or leaves that step out as if it had not been."""

import json
from dataclasses import replace

import pytest
import torch

from tests.comparing import differences
from tests.runs import died
from vit.data.loading.module import ImageDataModule
from vit.training.loop import Classifier

VIT = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1)
CNN = ("--network", "resnet10_small", "--model.network.widths", "[8,8,8,8]")
QUICK = ("--epochs", 3, "--batch_size", 6, "--augment", "none", "--precision", "32-true", "--wandb", "off")


def checkpoint(out, name):
    (path,) = out.glob(f"**/checkpoints/{name}.ckpt")
    return torch.load(path, weights_only=True)


@pytest.fixture
def poison(monkeypatch):
    """`poison(3, 4)`: the images of the third and fourth batch are NaN."""

    def spoil(*numbers):
        calls = []
        augmented = ImageDataModule.augmented

        def spoiled(data, batch):
            calls.append(len(calls) + 1)
            made = augmented(data, batch)
            return replace(made, image=made.image * float("nan")) if calls[-1] in numbers else made

        monkeypatch.setattr(ImageDataModule, "augmented", spoiled)

    return spoil


@pytest.mark.faults("N1", simulated="a loss is set to NaN")
@pytest.mark.parametrize(
    ("network", "optimizer", "accumulate", "spoilt"),
    [
        (VIT, "adamw", 1, 4),
        (VIT, "muon", 1, 4),
        pytest.param(CNN, "sgd", 1, 4, marks=pytest.mark.slow),
        pytest.param(CNN, "adamw", 2, 7, marks=pytest.mark.slow),
        (VIT, "muon", 2, 8),
    ],
)
def test_a_step_that_is_left_out_changes_nothing(colors, tmp_path, poison, network, optimizer, accumulate, spoilt):
    poison(spoilt)
    options = ("--optim.on_nan", "skip", "--optim.optimizer", optimizer, "--optim.accumulate", accumulate)
    options += ("--optim.ema_decay", 0.9, "--checkpoint_every", "0s", "--epochs", 8)
    died(tmp_path, 5, colors, *QUICK, *network, *options)
    before, after = checkpoint(tmp_path, "previous"), checkpoint(tmp_path, "last")
    assert (before["global_step"], after["global_step"]) == (3, 4)
    for key in ("state_dict", "current_model_state", "averaging_state", "optimizer_states"):
        learned = [{**state, "param_groups": None} for state in before[key]] if "optimizer" in key else before[key]
        then = [{**state, "param_groups": None} for state in after[key]] if "optimizer" in key else after[key]
        assert differences(without_rates(learned), without_rates(then), key) == []
    assert after["progress"]["skipped"] == 1 and after["progress"]["skipped_step"] == 3


def without_rates(tree):
    """The same tree without groups of parameters: the schedule goes on."""
    if isinstance(tree, dict):
        return {key: without_rates(value) for key, value in tree.items() if key != "param_groups"}
    return [without_rates(value) for value in tree] if isinstance(tree, list) else tree


def test_steps_that_were_left_out_are_counted_and_told(vit, colors, tmp_path, poison):
    poison(2, 5, 6)
    answer = vit("train", colors, *QUICK, *CNN, "--optim.on_nan", "skip", "--out", tmp_path).ok()
    (result,) = tmp_path.glob("**/result.json")
    assert json.loads(result.read_text())["skipped_steps"] == 3
    (line,) = [line for line in answer.out.splitlines() if "left out" in line]
    assert "3 of 15" in line
    (metrics,) = tmp_path.glob("**/metrics.csv")
    assert "nan" not in metrics.read_text()


@pytest.mark.faults("N2", simulated="the validation loss is set to NaN")
def test_an_epoch_whose_validation_loss_is_no_number_is_never_the_best(vit, colors, tmp_path, monkeypatch):
    step = Classifier.validation_step

    def spoiled(classifier, batch, place):
        step(classifier, batch, place)
        if classifier.trainer.current_epoch != 1:
            classifier.val_loss.update(torch.tensor(float("nan")))

    monkeypatch.setattr(Classifier, "validation_step", spoiled)
    answer = vit("train", colors, *QUICK, *VIT, "--out", tmp_path)
    assert answer.code == 0 and answer.err.count("WARNING: the validation loss is not a number") == 2
    (result,) = tmp_path.glob("**/result.json")
    assert json.loads(result.read_text())["best_epoch"] == 1


@pytest.mark.faults("N1", simulated="losses are set to NaN")
def test_ten_in_a_row_are_too_many(vit, colors, tmp_path, poison):
    poison(*range(3, 100))
    answer = vit("train", colors, *QUICK, *VIT, "--optim.on_nan", "skip", "--out", tmp_path)
    assert answer.code == 6 and "10 steps in a row" in answer.err and "step 12" in answer.err
    assert "last.ckpt holds the last finite weights" in answer.err


def test_nine_in_a_row_are_not(vit, colors, tmp_path, poison):
    poison(*range(3, 12))
    assert vit("train", colors, *QUICK, *VIT, "--optim.on_nan", "skip", "--out", tmp_path).code == 0


@pytest.mark.faults("N1", simulated="a loss is set to NaN")
def test_stopping_says_the_step_and_keeps_the_last_good_weights(vit, colors, tmp_path, poison):
    poison(8)
    answer = vit("train", colors, *QUICK, *VIT, "--checkpoint_every", "0s", "--out", tmp_path)
    assert answer.code == 6 and "not a number at step 8 " in answer.err
    assert "last.ckpt holds the last finite weights" in answer.err and answer.err.count("vit: error") == 1
    kept = checkpoint(tmp_path, "last")
    assert kept["global_step"] == 7 and all(value.isfinite().all() for value in kept["state_dict"].values())


@pytest.mark.faults("N1", simulated="a gradient is made infinite")
def test_weights_that_are_no_numbers_are_not_saved(vit, colors, tmp_path, monkeypatch):
    """A gradient can be infinite where the loss is not: the weights show it first."""
    backward = torch.Tensor.backward
    calls = []

    def exploding(loss, *rest, **options):
        calls.append(loss)
        backward(loss * (float("inf") if len(calls) == 4 else 1.0), *rest, **options)

    monkeypatch.setattr(torch.Tensor, "backward", exploding)
    answer = vit("train", colors, *QUICK, *VIT, "--checkpoint_every", "0s", "--out", tmp_path)
    assert answer.code == 6 and "weights are not numbers after step 4 " in answer.err
    assert checkpoint(tmp_path, "last")["global_step"] == 3
