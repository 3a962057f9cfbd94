"""Two and four machines, as network namespaces on one switch: one dies, or its cable is pulled; then they go on."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.parity.interrupted import SHORT, same_but_for_rounding
from tests.processes import belonging, environment, send, until
from tests.runs import run_folder

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
def nodes(request):
    """Names of so many network namespaces, which reach each other as 10.77.0.1, 10.77.0.2 and so on."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("needs root and the program ip")
    names = [f"vit{os.getpid()}n{place}" for place in range(request.param)]
    switch = f"vit{os.getpid()}switch"
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "switch", "type", "bridge")
        ip("-n", switch, "link", "set", "switch", "up")
        for place, name in enumerate(names, start=1):
            ip("netns", "add", name)
            ip("link", "add", "v0", "netns", name, "type", "veth", "peer", "name", f"port{place}", "netns", switch)
            ip("-n", switch, "link", "set", f"port{place}", "master", "switch", "up")
            ip("-n", name, "addr", "add", f"10.77.0.{place}/24", "dev", "v0")
            ip("-n", name, "link", "set", "v0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    except subprocess.CalledProcessError as error:
        pytest.skip(f"may not make network namespaces: {error.stderr.decode()}")
    finally:
        for name in (*names, switch):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def begin(folder, nodes, *arguments):
    """One torchrun on each node; what the processes of a node say is in a file."""
    (folder / "program.py").write_text(SCRIPT)
    started = []
    for rank, node in enumerate(nodes):
        variables = environment(folder) | {"GLOO_SOCKET_IFNAME": "v0", "VIT_NODE": str(rank)}
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(len(nodes)), "--nproc-per-node", "1",
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
@pytest.mark.parametrize(("nodes", "fault"), [(2, "node"), (2, "cable"), (4, "node"), (4, "cable")], indirect=["nodes"])
def test_a_node_that_is_lost_ends_the_training_which_then_goes_on(tmp_path, nodes, fault):
    first, *others = begin(tmp_path, nodes, "digits", *OPTIONS, "--out", tmp_path / "runs")
    try:
        until(lambda: list(tmp_path.glob("runs/**/last.ckpt")), 300)
        started = time.monotonic()
        if fault == "node":
            send(belonging(tmp_path, "VIT_NODE=1"), signal.SIGKILL)
        else:
            ip("-n", nodes[1], "link", "set", "v0", "down")
        assert first.wait(120) != 0
        print(f"{len(nodes)} machines, {fault}: ended {time.monotonic() - started:.1f} s after it was lost")
        (line,) = lines(tmp_path, 0)
        assert line.startswith("vit: error[8]: ") and "vit train --resume" in line
        assert all(other.wait(120) != 0 for other in others)
    finally:
        send(belonging(tmp_path), signal.SIGKILL)
    if fault == "cable":
        return
    run = run_folder(tmp_path / "runs")
    try:
        again = begin(tmp_path, nodes, "--resume", run)
        before = (run / "checkpoints" / "last.ckpt").stat().st_mtime_ns
        until(lambda: (run / "checkpoints" / "last.ckpt").stat().st_mtime_ns > before, 300)
        send(belonging(tmp_path, "VIT_NODE=0"), signal.SIGTERM)
        assert all(process.wait(60) is not None for process in again)
        (line,) = lines(tmp_path, 0)
        assert line.startswith("vit: error[143]: ")  # all had gone on, and saved once more
    finally:
        send(belonging(tmp_path), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "strategy"), [(2, "ddp"), (4, "ddp"), (2, "fsdp"), (4, "fsdp")], indirect=["nodes"])
def test_machines_learn_what_one_process_learns(vit, colors, tmp_path, nodes, strategy):
    processes = begin(tmp_path, nodes, colors, *SHORT, "--strategy", strategy, "--out", tmp_path / "all")
    try:
        assert [process.wait(400) for process in processes] == [0] * len(nodes), (tmp_path / "said-0").read_text()
    finally:
        send(belonging(tmp_path), signal.SIGKILL)
    assert vit("train", colors, *SHORT, "--out", tmp_path / "one").code == 0
    assert same_but_for_rounding(run_folder(tmp_path / "one"), run_folder(tmp_path / "all"))
