"""Two machines, as two network namespaces joined by a cable: one dies, or the cable is pulled; then they go on."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.processes import belonging, environment, send, until

SCRIPT = """
import sys
from datetime import timedelta
from vit.training.distributed import processes
processes.PATIENCE = timedelta(seconds=20)
from vit.__main__ import main
sys.exit(main())
"""
OPTIONS = (
    "--epochs", "400", "--batch_size", "128", "--precision", "32-true", "--checkpoint_every", "1s", "--wandb", "off",
)  # fmt: skip


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def nodes():
    """Names of two network namespaces that reach each other as 10.77.0.1 and 10.77.0.2."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("needs root and the program ip")
    names = [f"vit{os.getpid()}{letter}" for letter in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "v0", "netns", names[0], "type", "veth", "peer", "name", "v0", "netns", names[1])
        for place, name in enumerate(names, start=1):
            ip("-n", name, "addr", "add", f"10.77.0.{place}/24", "dev", "v0")
            ip("-n", name, "link", "set", "v0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    except subprocess.CalledProcessError as error:
        pytest.skip(f"may not make network namespaces: {error.stderr.decode()}")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def begin(folder, nodes, *arguments):
    """One torchrun on each node; what the processes of a node say is in a file."""
    (folder / "program.py").write_text(SCRIPT)
    started = []
    for rank, node in enumerate(nodes):
        variables = environment(folder) | {"GLOO_SOCKET_IFNAME": "v0", "VIT_NODE": str(rank)}
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1",
                    "--node-rank", str(rank), "--master-addr", "10.77.0.1", "--master-port", "29507"]  # fmt: skip
        with open(folder / f"said-{rank}", "w") as said:
            started.append(subprocess.Popen(
                ["ip", "netns", "exec", node, *launcher, folder / "program.py", "train", *map(str, arguments)],
                cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=said,
            ))  # fmt: skip
    return started


def lines(folder, rank):
    return [line for line in (folder / f"said-{rank}").read_text().splitlines() if line.startswith("vit: error[")]


@pytest.mark.slow
@pytest.mark.faults("X5", "X8")
@pytest.mark.parametrize("fault", ["node", "cable"])
def test_a_node_that_is_lost_ends_the_training_which_then_goes_on(tmp_path, nodes, fault):
    first, second = begin(tmp_path, nodes, "digits", *OPTIONS, "--out", tmp_path / "runs")
    try:
        until(lambda: list(tmp_path.glob("runs/**/last.ckpt")), 180)
        started = time.monotonic()
        if fault == "node":
            send(belonging(tmp_path, "VIT_NODE=1"), signal.SIGKILL)
        else:
            ip("-n", nodes[1], "link", "set", "v0", "down")
        assert first.wait(120) != 0
        print(f"{fault}: ended {time.monotonic() - started:.1f} s after it was lost")
        (line,) = lines(tmp_path, 0)
        assert line.startswith("vit: error[8]: ") and "vit train --resume" in line
        assert second.wait(120) != 0
    finally:
        send(belonging(tmp_path), signal.SIGKILL)
    if fault == "cable":
        return
    (run,) = (path.parent for path in tmp_path.glob("runs/**/config.yaml"))
    try:
        again = begin(tmp_path, nodes, "--resume", run)
        before = (run / "checkpoints" / "last.ckpt").stat().st_mtime_ns
        until(lambda: (run / "checkpoints" / "last.ckpt").stat().st_mtime_ns > before, 180)
        send(belonging(tmp_path, "VIT_NODE=0"), signal.SIGTERM)
        assert all(process.wait(60) is not None for process in again)
        (line,) = lines(tmp_path, 0)
        assert line.startswith("vit: error[143]: ")  # both had gone on, and saved once more
    finally:
        send(belonging(tmp_path), signal.SIGKILL)
