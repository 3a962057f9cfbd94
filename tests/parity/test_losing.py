"""Processes of which one is killed, fails, or is not there when the training goes on."""

import signal
import subprocess
import sys
import time
from multiprocessing.util import get_temp_dir
from pathlib import Path

import pytest
import torch

from tests.forked import popen
from tests.parity.interrupted import SHORT, begun, same_but_for_rounding
from tests.processes import TWO, belonging, ended, environment, finish, linux_only, send, start, until
from tests.runs import run_folder, trained
from tests.tables import rows

DIGITS = ("digits", "--epochs", "500", "--batch_size", "128", "--precision", "32-true", "--wandb", "off")
SPOILT = """
import os
from vit.training.loop import Classifier
step = Classifier.training_step
def spoilt(classifier, batch, place):
    if os.environ.get("LOCAL_RANK") == "1" and classifier.trainer.global_step == 3:
        raise ValueError("spoilt here")
    return step(classifier, batch, place)
Classifier.training_step = spoilt
from lightning.fabric.strategies.launchers import subprocess_script
subprocess_script._ChildProcessObserver.__init__.__defaults__ = (0.05,)  # seconds between two looks
import time
from vit.training.distributed import processes
says_gone = processes._says_gone
def slow(error):
    time.sleep(2)  # a machine that is busy
    return says_gone(error)
processes._says_gone = slow
"""
IMPATIENT = """
from datetime import timedelta
from vit.training.distributed import processes
processes.PATIENCE = timedelta(seconds=40)
"""
ORPHANED = """
import os, signal, time
from vit.data.loading import loader
begin = loader.begin_worker
def killed_before(worker):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(0.5)
    begin(worker)
loader.begin_worker = killed_before
"""


def errors(said):
    return [line for line in said.splitlines() if line.startswith("vit: error[")]


@linux_only
@pytest.mark.faults("X4", "R12")
def test_a_process_that_is_killed_ends_the_training(tmp_path):
    process = start(tmp_path, "train", *DIGITS, *TWO, "--checkpoint_every", "0s", "--out", tmp_path / "runs")
    try:
        until(lambda: list(tmp_path.glob("runs/**/last.ckpt")), 300)
        started = time.monotonic()
        send(belonging(tmp_path, "LOCAL_RANK=1"), signal.SIGKILL)
        process.wait(60)
        until(lambda: not belonging(tmp_path), 30)
        print(f"ended {time.monotonic() - started:.1f} s after the kill")
    finally:
        _, said = finish(tmp_path, process, 30)
    run = run_folder(tmp_path / "runs")
    (line,) = errors(said)
    assert process.returncode == 8 and line.startswith("vit: error[8]: another process of this training has ended")
    assert f"vit train --resume {run}" in line and "Traceback" not in said
    assert torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] > 0


@linux_only
@pytest.mark.faults("X3")
def test_a_process_that_fails_is_heard_first(tmp_path):
    _, said = ended(tmp_path, 8, "train", *DIGITS, *TWO, "--out", tmp_path / "runs", script=SPOILT)
    assert "Traceback" not in said, said
    first, second = errors(said)
    assert "ValueError: spoilt here" in first and second.startswith("vit: error[8]: ")


@linux_only
@pytest.mark.slow
@pytest.mark.faults("X5")
def test_a_process_that_falls_silent_is_not_waited_for(tmp_path):
    """It is stopped, so that its connections stay open and nothing comes: as from a machine that hangs.

    A fork would have read the long patience already.
    """
    process = start(tmp_path, "train", *DIGITS, *TWO, "--checkpoint_every", "0s", "--out", tmp_path / "runs",
                    script=IMPATIENT, real=True)  # fmt: skip
    try:
        until(lambda: list(tmp_path.glob("runs/**/last.ckpt")), 300)
        send(belonging(tmp_path, "LOCAL_RANK=1"), signal.SIGSTOP)
        process.wait(200)
    finally:
        send(belonging(tmp_path, "LOCAL_RANK=1"), signal.SIGKILL)  # it hears nothing else, and keeps the pipe open
        _, said = finish(tmp_path, process, 30)
    (line,) = errors(said)
    assert process.returncode == 8 and line.startswith("vit: error[8]: another process of this training has ended")
    assert "vit train --resume" in line and "Traceback" not in said


@linux_only
@pytest.mark.faults("R6", "R5")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (2, 1), pytest.param(1, 2, marks=pytest.mark.slow), pytest.param(1, 3, marks=pytest.mark.slow),
        pytest.param(3, 2, marks=pytest.mark.slow), pytest.param(2, 3, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_what_some_processes_began_others_can_finish(vit, colors, tmp_path, before, after):
    """In the middle of an epoch, with everything that does not depend on the number of processes."""
    batch = ("--batch_size", 12, "--epochs", 5) if 3 in (before, after) else ()
    many = begun(tmp_path, before, colors, *batch)
    one = trained(tmp_path / "one", colors, *SHORT, *batch)
    if after == 1:
        vit("train", "--resume", many, "--devices", 1).ok()
    else:
        ended(tmp_path, 0, "train", "--resume", many, "--devices", after, "--trainer.accelerator", "cpu")
    assert same_but_for_rounding(one, many)
    tables = [[row for row in rows(run / "metrics.csv") if row["val/loss"]] for run in (one, many)]
    for first, second in zip(*tables, strict=True):
        for name in ("step", "lr", "train/loss", "val/loss", "val/acc1"):
            assert float(second[name]) == pytest.approx(float(first[name]), abs=1e-6), name


@linux_only
@pytest.mark.faults("R12")
def test_a_loading_process_ends_though_its_training_was_killed_before_it_began(colors, tmp_path):
    options = ("--data.num_workers", 1, "--data.cache", "none", "--wandb", "off", "--out", tmp_path / "runs")
    ended(
        tmp_path, -signal.SIGKILL, "train", colors, *options, script=ORPHANED
    )  # whoever belongs to it holds its pipes


READING = """
import sys, time
from vit.data.loading import loader, module
from vit.data.pixels.augment import Augment
from vit.data.pixels.preprocess import Preprocess
from vit.data.sources.sources import open_source
loader._START = sys.argv[2]
if __name__ == "__main__":
    options = module.LoaderOptions(14, num_workers=1, cache="none")
    data = module.ImageDataModule(open_source(sys.argv[1]), Preprocess(8), Augment(), options, seed=0)
    batches, began = data.train_dataloader(), time.monotonic()
    while True:
        for batch in batches:  # of one worker, which stays
            print(time.monotonic() - began, flush=True)
            time.sleep(0.2)
"""


@linux_only
@pytest.mark.faults("R12")
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.slow
def test_a_loading_process_lives_as_long_as_its_training(colors, tmp_path, method):
    """However it was started: a fork server stands between the two, and is the worker's parent for the system."""
    program = tmp_path / "reading.py"
    program.write_text(READING)
    process = popen(
        [sys.executable, str(program), str(colors), method], env=environment(tmp_path), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    first = float(process.stdout.readline() or "nan")
    for line in process.stdout:
        if float(line) > first + 2.5:  # a worker looks for its training once a second
            break
    assert process.poll() is None and len(belonging(tmp_path)) > 1
    process.kill()
    process.wait(120)
    try:
        until(lambda: not belonging(tmp_path), 180)
    finally:
        finish(tmp_path, process, 120)
    assert Path(get_temp_dir()).is_dir()  # of this process, from which the training has it: cells have their study's
