"""metrics.csv survives a kill: rows that were cut short or come after the checkpoint are dropped."""

import math
import time

import pytest

from tests.runs import run_folder
from tests.tables import rows
from vit.checkpoints.result import RunResult
from vit.commands.training import train_progress
from vit.data.loading.dataset import ImageDataset
from vit.report.tables.run_tables import facts
from vit.tasks.task import SINGLE_LABEL
from vit.training.callbacks import metrics_csv
from vit.training.callbacks.metrics_csv import _rows_until, columns_with

HEADER = ",".join(columns_with(SINGLE_LABEL.validation_columns))
ROWS = [
    "0,1,0.001,2.3,,,,,,,,,0.1",
    "0,9,0.002,,2.2,100,2.1,0.5,0.9,0.5,0.4,0.1,0.5",
    "1,18,0.001,,2.0,100,1.9,0.6,0.9,0.5,0.4,0.1,1.5",
]


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


TINY = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--batch_size", 8, "--optim.warmup", 0.1,
    "--wandb", "off",
)  # fmt: skip


def trained(vit, tmp_path, monkeypatch, steps):
    """(the loss that each step shows, the rows of metrics.csv) of a training."""
    shown = []
    monkeypatch.setattr(
        train_progress.TrainProgress, "step", lambda watcher, done, total, loss, speed: shown.append(loss)
    )
    answer = vit("train", "digits", *TINY, "--optim.steps", steps, "--out", tmp_path).ok()
    assert f", {steps // 10} of them warm-up" in answer.out
    assert "validation 1/" in answer.err and "Best validation" in answer.out  # a part of the steps is not an epoch
    return shown, rows(run_folder(tmp_path) / "metrics.csv")


def test_a_training_of_100_steps_shows_100_losses(vit, tmp_path, monkeypatch):
    shown, rows = trained(vit, tmp_path, monkeypatch, 100)
    assert len(shown) == 100 and all(map(math.isfinite, shown))
    assert len(set(shown)) > 95  # it stood still for 50 steps
    points = [row for row in rows if not row["val/loss"]]
    assert [int(row["step"]) for row in points] == list(range(1, 101))
    assert [float(row["train/smoothed_loss"]) for row in points] == shown
    assert not any(row["train/loss"] for row in points)  # the mean of an epoch is another quantity
    assert all(row["train/loss"] and not row["train/smoothed_loss"] for row in rows if row["val/loss"])


@pytest.mark.parametrize(("seconds", "expected"), [(3600.0, 2), (0.0, 20)])
def test_rows_come_by_time_too(vit, tmp_path, monkeypatch, seconds, expected):
    monkeypatch.setattr(metrics_csv, "MIN_ROWS", 2)
    monkeypatch.setattr(metrics_csv, "MAX_ROW_SECONDS", seconds)
    _, rows = trained(vit, tmp_path, monkeypatch, 20)
    assert len([row for row in rows if not row["val/loss"]]) == expected + (seconds > 0)


@pytest.mark.parametrize(("seconds", "network"), [(0.1, "vit_nano_patch2_8"), (0.0, "vit_tiny_cifar")])
def test_a_training_that_waits_for_its_images_says_so(vit, colors, tmp_path, monkeypatch, seconds, network):
    """Each batch takes `seconds` to read. A step of the first network takes less, and one of the second far more."""
    read = ImageDataset.__getitems__
    monkeypatch.setattr(ImageDataset, "__getitems__", lambda images, keys: time.sleep(seconds) or read(images, keys))
    options = [f"--network={network}", "--batch_size=8", "--optim.steps=4", "--wandb=off", "--data.num_workers=0"]
    options.append("--model.network.depth=4")
    answer = vit("train", colors, *options, "--out", tmp_path).ok()
    (path,) = tmp_path.glob("**/result.json")
    wait, page = RunResult.read(path).image_wait, dict(facts(RunResult.read(path)))["time"]
    assert wait is not None
    words = f"{100 * wait:.0f} % of the steps' time spent on waiting for images"
    if seconds:
        assert (
            wait > 0.25
            and words in answer.out
            and words in page.replace("\\", "")
            and "--data.cache memory" in answer.out
        )
    else:
        assert wait < 0.1 and "waiting for" not in answer.out + page
