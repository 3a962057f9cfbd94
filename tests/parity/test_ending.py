"""Processes that are asked to end: all do, within seconds, and what they had learned is saved."""

import signal
import time

import pytest
import torch

from tests.processes import TWO, belonging, communicate, finish, linux_only, send, start, until
from tests.runs import run_folder

OPTIONS = (
    "digits", "--epochs", "500", "--batch_size", "128", "--precision", "32-true", "--optim.ema_decay", "0.9",
    "--wandb", "off",
)  # fmt: skip


@linux_only
@pytest.mark.faults("R3", "X8")
@pytest.mark.parametrize(
    ("launcher", "whom", "number"),
    [
        pytest.param("torchrun", "group", signal.SIGTERM, marks=pytest.mark.slow),
        ("lightning", "main", signal.SIGTERM),
        pytest.param("torchrun", "main", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("torchrun", "rank", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("torchrun", "group", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("lightning", "rank", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("lightning", "group", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("lightning", "group", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("alone", "main", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("alone", "group", signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param("alone", "main", signal.SIGXCPU, marks=pytest.mark.slow),
        pytest.param("alone", "group", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_processes_end_with_a_checkpoint(tmp_path, launcher, whom, number):
    options = {"torchrun": (), "lightning": TWO, "alone": ("--data.cache", "none", "--data.num_workers", "1")}[launcher]
    process = start(tmp_path, "train", *OPTIONS, *options, "--out", tmp_path / "runs", launcher=launcher)
    try:
        until(lambda: any(len(path.read_text().splitlines()) > 1 for path in tmp_path.glob("runs/**/metrics.csv")), 300)
        started = time.monotonic()
        whole = belonging(tmp_path)
        send({"group": whole, "main": [process.pid], "rank": belonging(tmp_path, "LOCAL_RANK=1")}[whom], number)
        _, said = communicate(tmp_path, process, 30)
        seconds = time.monotonic() - started
    finally:
        left = belonging(tmp_path)
        finish(tmp_path, process, 30)
    assert not left and seconds < 30
    code = 128 + number
    assert process.returncode != 0 if launcher == "torchrun" else process.returncode == code
    (line,) = [line for line in said.splitlines() if line.startswith("vit: error[")]
    run = run_folder(tmp_path / "runs")
    assert line.startswith(f"vit: error[{code}]: ") and f"vit train --resume {run}" in line
    content = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert f"after step {content['global_step']:,}, which is saved" in line
    assert len(content["progress"]["train_loss"]) == (1 if launcher == "alone" else 2)  # of each process
    print(f"{launcher} {whom} {number.name}: {seconds:.1f} s")
