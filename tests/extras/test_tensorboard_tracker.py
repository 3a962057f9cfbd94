"""TensorBoard: what was logged is read back by its own reader, also after a resumed training."""

import pytest
from PIL import Image

from vit.csv_files import new_table
from vit.layout import RunLayout

pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vit.extras.tensorboard.tracker import TensorBoardTracker

CONFIG = {"optim": {"lr": 0.001, "steps": None}, "data": {"source": "/home/somebody/clinic", "hub_token": "hush"}}


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0, "images": 0, "scalars": 0})
    return events.Reload()


def points(events, name):
    return [(point.step, point.value) for point in events.Scalars(name)]


def text(events, name):
    return [value.tensor_proto.string_val[0].decode() for value in events.Tensors(f"{name}/text_summary")]


def write_metrics(path, steps):
    with new_table(path, ("step", "train/loss")) as table:
        for step in steps:
            table.row((step, 1.0))


@pytest.fixture
def begin(tmp_path):
    return lambda: TensorBoardTracker(RunLayout(tmp_path), CONFIG)


def test_what_is_logged_can_be_read(begin, tmp_path):
    picture = tmp_path / "curve.png"
    Image.new("RGB", (8, 6), "red").save(picture)
    tracker = begin()
    for step in (1, 2):
        tracker.log({"train/loss": 1.0 / step, "lr": 0.5}, step)
    tracker.figure("figures/curves", picture)
    tracker.figure("figures/worst", picture, has_images=True)
    tracker.table("validation/worst", ["path", "loss"], [["a|b.png", 2.5], ["c\nd.png", 1.0]], has_images=True)
    tracker.summary({"test/acc1": 0.75})
    tracker.finish()
    events = read(tmp_path / "tensorboard")
    assert points(events, "train/loss") == [(1, 1.0), (2, 0.5)]
    assert points(events, "test/acc1") == [(2, 0.75)]
    assert set(events.Tags()["images"]) == {"figures/curves", "figures/worst"}
    (shown,) = events.Images("figures/curves")
    assert (shown.width, shown.height, shown.step) == (8, 6, 2)
    (table,) = text(events, "validation/worst")
    assert table.splitlines() == ["| path | loss |", "| --- | --- |", "| a\\|b.png | 2.5 |", "| c d.png | 1 |"]
    (config,) = text(events, "config")
    assert "lr: 0.001" in config and ".../clinic" in config
    written = b"".join(file.read_bytes() for file in (tmp_path / "tensorboard").iterdir())
    assert b"hush" not in written and b"somebody" not in written


@pytest.mark.faults("T25")
def test_a_resumed_training_replaces_what_followed_its_checkpoint(begin, tmp_path):
    first = begin()
    for step in (10, 20, 23, 30):  # the checkpoint is of step 20; the training is killed after step 30
        write_metrics(tmp_path / "metrics.csv", [step])
        first.log({"train/loss": float(step)}, step)
    first.finish()
    write_metrics(tmp_path / "metrics.csv", [10, 20, 30])  # cut to the checkpoint, and the next row
    second = begin()
    second.log({"train/loss": 31.0}, 30)
    second.log({"train/loss": 40.0}, 40)
    second.finish()
    assert points(read(tmp_path / "tensorboard"), "train/loss") == [(10, 10.0), (20, 20.0), (30, 31.0), (40, 40.0)]


def test_a_resumed_training_without_a_step_left_keeps_all_rows(begin, tmp_path):
    write_metrics(tmp_path / "metrics.csv", [10, 20])
    for step in (10, 20):
        tracker = begin()
        tracker.log({"train/loss": float(step)}, step)
        tracker.finish()
    last = begin()
    last.summary({"test/acc1": 0.5})
    last.finish()
    events = read(tmp_path / "tensorboard")
    assert points(events, "test/acc1") == [(20, 0.5)]
    assert points(events, "train/loss")[-1] == (20, 20.0)


def test_new_options_are_shown_too(begin, tmp_path):
    tracker = begin()
    tracker.log({"train/loss": 1.0}, 1)
    tracker.configure({"optim": {"accumulate": 2}})
    tracker.finish()
    assert "accumulate: 2" in text(read(tmp_path / "tensorboard"), "config")[-1]
