"""Two processes that are asked to end: both do, within seconds, and what they had learned is saved."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
OPTIONS = (
    "digits", "--epochs", "500", "--batch_size", "128", "--precision", "32-true", "--optim.ema_decay", "0.9",
    "--wandb", "off",
)  # fmt: skip


def start(folder, launcher):
    """Begin a training on two processes, in a process group of its own; gives it when it has taken steps."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environment["VIT_TEST"] = str(folder)
    command = [sys.executable, str(ROOT / "train.py")]
    options = [*OPTIONS, "--out", str(folder / "runs")]
    if launcher == "torchrun":
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        command += ["--master-addr", "127.0.0.1", "--master-port", port, str(ROOT / "train.py")]
    else:
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        options += ["--devices", "2", "--trainer.accelerator", "cpu"]
    process = subprocess.Popen(
        [*command, *options], cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    until(lambda: any(len(path.read_text().splitlines()) > 1 for path in folder.glob("runs/**/metrics.csv")), 60)
    return process


def until(happened, seconds):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)


def processes(folder, variable=""):
    """Every process of the training in a folder (torchrun gives each a session of its own), by its environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")  # empty when it is dead, but not yet collected
        except OSError:
            continue
        if f"VIT_TEST={folder}".encode() in variables and (not variable or variable.encode() in variables):
            found.append(int(entry.name))
    return found


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("launcher", "whom", "number"),
    [
        ("torchrun", "group", signal.SIGTERM),
        ("lightning", "main", signal.SIGTERM),
        pytest.param("torchrun", "main", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("torchrun", "rank", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("torchrun", "group", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("lightning", "rank", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("lightning", "group", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("lightning", "group", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_two_processes_end_with_a_checkpoint(tmp_path, launcher, whom, number):
    process = start(tmp_path, launcher)
    try:
        started = time.monotonic()
        whole = processes(tmp_path)
        send({"group": whole, "main": [process.pid], "rank": processes(tmp_path, "LOCAL_RANK=1")}[whom], number)
        _, said = process.communicate(timeout=30)
        seconds = time.monotonic() - started
    finally:
        left = processes(tmp_path)
        send(left, signal.SIGKILL)
        process.communicate()
    assert not left and seconds < 30
    code = 128 + number
    assert process.returncode == code if launcher == "lightning" else process.returncode != 0
    (line,) = [line for line in said.splitlines() if line.startswith("vit: error[")]
    (run,) = (path.parent for path in tmp_path.glob("runs/**/config.yaml"))
    assert line.startswith(f"vit: error[{code}]: ") and f"vit train --resume {run}" in line
    content = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert f"after step {content['global_step']:,}, which is saved" in line
    assert len(content["progress"]["train_loss"]) == 2  # of each process
    print(f"{launcher} {whom} {number.name}: {seconds:.1f} s")
