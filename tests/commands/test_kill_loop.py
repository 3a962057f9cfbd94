"""A training that is killed again and again, at any moment of its life, ends as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.comparing import differences

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("VIT_KILLS", "50"))
OPTIONS = (
    "--network", "vit_nano_patch2_8", "--model.network.drop_path_rate", "0.2", "--augment", "strong",
    "--batch_size", "8", "--optim.accumulate", "2", "--optim.ema_decay", "0.9", "--optim.optimizer", "muon",
    "--optim.on_nan", "skip", "--data.cache", "none", "--data.num_workers", "2", "--precision", "32-true",
    "--checkpoint_every", "0s", "--wandb", "off",
)  # fmt: skip


def start(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "vit", "train", *map(str, arguments)], cwd=folder, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process):
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said


def run_folder(out):
    return next(path.parent for path in out.glob("*/*/*/config.yaml"))


def content(run, name):
    loaded = torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)
    return {key: loaded[key] for key in ("state_dict", "current_model_state", "optimizer_states", "lr_schedulers")}


def rows(run):
    """metrics.csv without its two columns of times."""
    return [line.split(",")[:4] + line.split(",")[5:-1] for line in (run / "metrics.csv").read_text().splitlines()]


@pytest.mark.slow
def test_many_kills(colours, tmp_path):
    options = (colours, *OPTIONS, "--epochs", 4 * KILLS)
    started = time.monotonic()
    finish(start(tmp_path, *options, "--out", "whole"))
    print(f"not interrupted: {time.monotonic() - started:.0f} s")
    draw = random.Random(0)
    kills = 0
    process = start(tmp_path, *options, "--out", "killed")
    while kills < KILLS:
        try:
            process.wait(draw.uniform(0.0, 12.0))
            break  # it is done
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
        begun = list(tmp_path.glob("killed/*/*/*/checkpoints/last.ckpt"))
        again = ("--resume", run_folder(tmp_path / "killed")) if begun else (*options, "--out", "killed")
        if not begun:
            for config in tmp_path.glob("killed/*/*/*"):
                config.rename(tmp_path / f"abandoned-{kills}")
        process = start(tmp_path, *again)
    finish(process)
    print(f"{kills} kills, {time.monotonic() - started:.0f} s in all")
    assert kills >= KILLS // 2
    one, other = run_folder(tmp_path / "whole"), run_folder(tmp_path / "killed")
    assert rows(one) == rows(other)
    for name in ("best", "last"):
        assert differences(content(one, name), content(other, name)) == []
    assert not [path for path in other.rglob("*") if path.name.startswith(".")]
