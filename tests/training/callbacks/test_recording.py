"""metrics.csv survives a kill: rows that were cut short or come after the checkpoint are dropped."""

import csv
import math
from types import SimpleNamespace

import pytest
import torch

from vit.commands import train
from vit.models.spec import create_network
from vit.training.callbacks.recording import COLUMNS, AverageLoss, Averaging, BestCheckpoint, _rows_until
from vit.training.callbacks.recording import recording as callbacks
from vit.training.classifier import Classifier
from vit.training.recipe import OptimConfig

HEADER = ",".join(COLUMNS)
ROWS = ["0,1,0.001,2.3,,,,,,0.1", "0,9,0.002,2.2,100,2.1,0.5,0.9,0.1,0.5", "1,18,0.001,2.0,100,1.9,0.6,0.9,0.1,1.5"]


@pytest.mark.faults("R8")
def test_the_best_score_outlives_a_move_of_its_folder(tmp_path):
    old, new = (BestCheckpoint(tmp_path / name, "best", "val/loss") for name in ("old", "new"))
    best = str(tmp_path.resolve() / "old" / "best.ckpt")
    old.best_model_path = old.kth_best_model_path = best
    old.best_k_models = {best: torch.tensor(0.25)}
    old.best_model_score = old.kth_value = torch.tensor(0.25)
    new.load_state_dict(old.state_dict())
    moved = str(tmp_path.resolve() / "new" / "best.ckpt")
    assert new.best_model_path == new.kth_best_model_path == moved
    assert new.best_k_models == {moved: 0.25} and new.best_model_score == 0.25


@pytest.mark.parametrize(("step", "kept"), [(0, 0), (1, 1), (9, 2), (17, 2), (18, 3), (99, 3)])
def test_rows_after_the_checkpoint_are_dropped(tmp_path, step, kept):
    (tmp_path / "metrics.csv").write_text("\r\n".join([HEADER, *ROWS, ""]))
    rows = _rows_until(tmp_path / "metrics.csv", step)
    assert [",".join(row.values()) for row in rows] == ROWS[:kept]


@pytest.mark.faults("W4")
def test_a_file_cut_anywhere_keeps_its_whole_rows(tmp_path):
    whole = "\r\n".join([HEADER, *ROWS, ""]).encode()
    for length in range(len(whole)):
        (tmp_path / "metrics.csv").write_bytes(whole[:length])
        rows = [",".join(row.values()) for row in _rows_until(tmp_path / "metrics.csv", 99)]
        complete = whole[:length].decode().count("\r\n")
        assert rows[: complete - 1] == ROWS[: max(0, complete - 1)]
        assert len(rows) <= max(0, complete)


def averaged(losses, parts=1):
    average = AverageLoss()
    for loss in losses:
        for part in range(parts):
            average.add(torch.tensor(loss / parts), is_whole=part == parts - 1)
    return average


def test_the_average_loss_follows_the_losses():
    assert math.isnan(AverageLoss().value)
    assert averaged([2.0]).value == pytest.approx(2.0)
    assert averaged([2.0] * 30 + [1.0] * 20).value == pytest.approx(1.305, abs=0.001)
    assert averaged([2.0] * 30 + [1.0] * 200).value == pytest.approx(1.0, abs=1e-3)
    assert averaged([3.0, 1.0, 2.0], parts=2).value == pytest.approx(averaged([3.0, 1.0, 2.0]).value)
    noisy = torch.randn(2000, generator=torch.Generator().manual_seed(0)).tolist()
    assert torch.tensor([averaged(noisy[n : n + 100]).value for n in range(0, 2000, 100)]).std() < 0.3


def test_losses_that_are_not_finite_do_not_count():
    assert averaged([2.0, math.nan, 1.0, math.inf]).value == averaged([2.0, 1.0]).value
    assert math.isnan(averaged([math.nan]).value)


def test_a_resumed_average_goes_on_bit_equal():
    losses = torch.rand(50, generator=torch.Generator().manual_seed(1)).tolist()
    whole, first = averaged(losses), averaged(losses[:20])
    resumed = AverageLoss()
    resumed.load_state_dict(first.state_dict())
    for loss in losses[20:]:
        resumed.add(torch.tensor(loss), is_whole=True)
    assert resumed.state_dict() == whole.state_dict()


def test_the_averaged_weights_lie_where_the_network_will_be():
    """When the average is made, the network is still on the CPU; the device "meta" plays a GPU."""
    network = create_network("vit_nano_patch2_8", 3, depth=1)
    classifier = Classifier(network, OptimConfig(), total_steps=10, seed=0)
    averaging = Averaging(0.9, classifier)
    averaging.setup(SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("meta"))), classifier, "fit")
    assert {weight.device.type for weight in averaging._average_model.parameters()} == {"meta"}
    assert {weight.device.type for weight in classifier.parameters()} == {"cpu"}


def test_a_training_measures_on_the_device_that_it_trained_on(vit, colors, tmp_path, monkeypatch):
    """The device "meta" plays the first GPU of a machine, which another process trains on; the trainer has its own."""
    monkeypatch.setattr("vit.report.run_figures.draw_run", lambda *_: None)
    monkeypatch.setattr("vit.training.distributed.devices.choose_device", lambda name: torch.device("meta"))
    answer = vit("train", colors, *TINY, "--epochs", 1, "--trainer.accelerator", "cpu", "--out", tmp_path)
    assert answer.code == 0, answer.err


TINY = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--batch_size", 8, "--optim.warmup", 0.1,
    "--wandb", "off",
)  # fmt: skip


def trained(vit, tmp_path, monkeypatch, steps):
    """(the loss that each step shows, the rows of metrics.csv) of a training."""
    monkeypatch.setattr("vit.report.run_figures.draw_run", lambda *_: None)
    shown = []
    monkeypatch.setattr(train._Watcher, "step", lambda watcher, done, total, loss, speed: shown.append(loss))
    answer = vit("train", "digits", *TINY, "--optim.steps", steps, "--out", tmp_path)
    assert answer.code == 0, answer.err
    assert f", {steps // 10} of them warm-up" in answer.out
    assert "round 1/" in answer.err and "Best round" in answer.out  # a part of the steps is not an epoch
    (metrics,) = tmp_path.glob("**/metrics.csv")
    with open(metrics, newline="") as file:
        return shown, list(csv.DictReader(file))


def test_a_training_of_100_steps_shows_100_losses(vit, tmp_path, monkeypatch):
    shown, rows = trained(vit, tmp_path, monkeypatch, 100)
    assert len(shown) == 100 and all(map(math.isfinite, shown))
    assert len(set(shown)) > 95  # it stood still for 50 steps
    points = [row for row in rows if not row["val/loss"]]
    assert [int(row["step"]) for row in points] == list(range(1, 101))
    assert [float(row["train/loss"]) for row in points] == shown


@pytest.mark.parametrize(("seconds", "expected"), [(3600.0, 2), (0.0, 20)])
def test_rows_come_by_time_too(vit, tmp_path, monkeypatch, seconds, expected):
    monkeypatch.setattr(callbacks, "FEWEST_ROWS", 2)
    monkeypatch.setattr(callbacks, "MOST_SECONDS", seconds)
    _, rows = trained(vit, tmp_path, monkeypatch, 20)
    assert len([row for row in rows if not row["val/loss"]]) == expected + (seconds > 0)
