"""Weights & Biases is asked for, and there is no network at all; a run with everything switched on."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import environment

EVERYTHING = (
    "--network", "vit_nano_patch2_8", "--model.network.drop_path_rate", "0.2", "--augment", "strong", "--epochs", "3",
    "--batch_size", "8", "--optim.accumulate", "2", "--optim.ema_decay", "0.9", "--optim.optimizer", "muon",
    "--optim.on_nan", "skip", "--optim.layer_decay", "0.9", "--data.cache", "none", "--data.num_workers", "2",
    "--checkpoint_every", "0s", "--precision", "bf16-mixed",
)  # fmt: skip
TIMED = """
import sys, time
from vit.training.tracking import wandb_tracker
obstacle = wandb_tracker.obstacle
def timed(settings):
    started = time.monotonic()
    found = obstacle(settings)
    print(f"seconds {time.monotonic() - started:.1f}")  # the rest is the same with a network
    return found
wandb_tracker.obstacle = timed
from vit.__main__ import main
sys.exit(main())
"""
OURS = (
    r"(epoch|step) \d+/\d+ .*",
    r"temperature stays 1: .*",
    r"Weights & Biases is offline \(no connection to .*\); upload later with: wandb sync .*",
)


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run(["unshare", "-n", "true"], check=False).returncode != 0,
    reason="may not make a network namespace",
)
@pytest.mark.faults("W1")
@pytest.mark.slow
def test_without_a_network_everything_goes_on_and_nothing_else_is_said(colors, tmp_path):
    variables = {name: text for name, text in environment(tmp_path).items() if not name.startswith("WANDB")}
    variables |= {"WANDB_API_KEY": "0123456789" * 4, "HOME": str(tmp_path)}
    (tmp_path / "program.py").write_text(TIMED)
    done = subprocess.run(
        ["unshare", "-n", sys.executable, tmp_path / "program.py", "train", colors, *EVERYTHING,
         "--wandb", "online", "--out", tmp_path / "runs"],
        env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (seconds,) = re.findall(r"seconds ([\d.]+)", done.stdout)
    assert float(seconds) < 10
    said = [line for line in re.split(r"[\r\n]+", done.stderr) if line.strip()]
    assert [line for line in said if not any(re.fullmatch(ours, line) for ours in OURS)] == []
    assert len([line for line in said if "Weights & Biases" in line]) == 1
    assert len(list(Path(tmp_path).glob("runs/*/*/*/wandb/offline-run-*/*.wandb"))) == 1
