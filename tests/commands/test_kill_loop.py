"""A training that is killed again and again, at any moment of its life, ends as if nothing had happened."""

import csv
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from tests.comparing import differences
from tests.processes import TWO, belonging, linux_only, send, start, until

KILLS = int(os.environ.get("VIT_KILLS", "50"))
OPTIONS = (
    "--network", "vit_nano_patch2_8", "--model.network.drop_path_rate", "0.2", "--augment", "strong",
    "--batch_size", "8", "--optim.accumulate", "2", "--optim.ema_decay", "0.9", "--optim.optimizer", "muon",
    "--optim.on_nan", "skip", "--data.cache", "none", "--data.num_workers", "2", "--precision", "32-true",
    "--checkpoint_every", "0s", "--keep_state", "true", "--wandb", "off",
)  # fmt: skip


def finish(process):
    _, said = process.communicate(timeout=3000)
    assert process.returncode == 0, said


def run_folder(out):
    return next(path.parent for path in out.glob("*/*/*/config.yaml"))


def content(run, name):
    loaded = torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)
    return {key: loaded[key] for key in ("state_dict", "current_model_state", "optimizer_states", "lr_schedulers")}


def rows(run):
    """metrics.csv without its two columns of times."""
    with (run / "metrics.csv").open() as file:
        return [{**row, "train/images_per_second": "", "seconds": ""} for row in csv.DictReader(file)]


def wait_for_a_moment(process, draw, out):
    """Until it is to be killed: once in four while it starts, else within three seconds after a checkpoint of its own.

    False when it has ended by itself.
    """
    before = saved(out)
    if draw.random() < 0.25:
        time.sleep(draw.uniform(0.0, 6.0))
    else:
        until(lambda: process.poll() is not None or saved(out) > before, 300)
        time.sleep(draw.uniform(0.0, 3.0))
    return process.poll() is None


def saved(out: Path) -> int:
    """When last.ckpt was written; 0: never."""
    return max((path.stat().st_mtime_ns for path in out.glob("*/*/*/checkpoints/last.ckpt")), default=0)


def kill_again_and_again(folder, data, options, kills, kill):
    """Train once without an interruption, once with `kills`; (how often it was killed, both run folders)."""
    started = time.monotonic()
    options = ("train", data, *OPTIONS, *options, "--epochs", 4 * kills)
    finish(start(folder, *options, "--out", "whole"))
    print(f"not interrupted: {time.monotonic() - started:.0f} s")
    draw = random.Random(0)
    killed = starting = 0
    out = folder / "killed"
    process = start(folder, *options, "--out", out)
    while killed < kills:
        before = saved(out)
        if not wait_for_a_moment(process, draw, out):
            break
        kill(process, draw)
        process.communicate()
        killed += 1
        starting += saved(out) == before
        if not saved(out):
            for run in out.glob("*/*/*"):
                run.rename(folder / f"abandoned-{killed}")
        process = start(folder, *(("train", "--resume", run_folder(out)) if saved(out) else (*options, "--out", out)))
    finish(process)
    print(f"{killed} kills ({starting} before a checkpoint of their own), {time.monotonic() - started:.0f} s in all")
    return killed, run_folder(folder / "whole"), run_folder(out)


def same_end(one, other):
    assert rows(one) == rows(other)
    for name in ("best", "last"):
        assert differences(content(one, name), content(other, name)) == []
    assert not [path for path in other.rglob("*") if path.name.startswith(".")]
    return True


@pytest.mark.slow
@pytest.mark.faults("R1", "R2")
def test_many_kills(colors, tmp_path):
    def kill(process, _):
        process.send_signal(signal.SIGKILL)

    killed, one, other = kill_again_and_again(tmp_path, colors, (), KILLS, kill)
    assert killed >= KILLS // 2 and same_end(one, other)


@linux_only
@pytest.mark.slow
@pytest.mark.faults("R1", "R12", "X4")
def test_many_kills_of_two_processes(colors, tmp_path):
    """Of the first, of the second or of both; what is left ends by itself."""
    longest = [0.0]

    def kill(process: subprocess.Popen[str], draw):
        whom = draw.choice(("first", "second", "all"))
        second = belonging(tmp_path, "LOCAL_RANK=1")
        send({"first": [process.pid], "second": second, "all": belonging(tmp_path)}[whom], signal.SIGKILL)
        began = time.monotonic()
        if whom != "second" or second:
            process.wait(120)
        else:
            process.kill()  # there was no second one yet
        until(lambda: not belonging(tmp_path), 60)
        longest.append(time.monotonic() - began)

    kills = max(2, KILLS // 5)
    killed, one, other = kill_again_and_again(tmp_path, colors, TWO, kills, kill)
    print(f"the rest ended {max(longest):.1f} s after a kill at most")
    assert killed >= kills // 2 and same_end(one, other)
