"""Trainings under a real SLURM on this machine: job scripts of examples/slurm, ended by a signal and queued again."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parity.interrupted import same_but_for_rounding
from tests.processes import ROOT, environment, until
from tests.runs import run_folder
from tests.slurm import IS_HERE, WHY, Slurm, slurm

PATIENT = 400  # seconds, on a busy machine
LONG = ("digits", "--network", "vit_nano_patch2_8", "--augment", "strong", "--optim.steps", "600", "--batch_size", "32",
        "--optim.optimizer", "sgd", "--lr", "0.01", "--precision", "32-true", "--wandb", "off",
        "--keep_state", "true")  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not IS_HERE, reason=WHY)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Slurm]:
    folder = tmp_path_factory.mktemp("bin")
    for name, module in (("vit", "vit"), ("torchrun", "torch.distributed.run")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (folder / name).chmod(0o755)
    variables = environment(folder)
    del variables["MASTER_ADDR"]
    with slurm(variables | {"PATH": f"{folder}:{variables['PATH']}"}) as found:
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """The same training in one process, without SLURM."""
    from tests.conftest import ask

    folder = tmp_path_factory.mktemp("alone")
    assert ask("train", *LONG, "--out", folder).code == 0
    return run_folder(folder)


@pytest.mark.parametrize("script", ["train.sh", "torchrun.sh"])
@pytest.mark.faults("X11")
def test_a_job_queues_itself_again_and_ends_with_the_weights_of_one_process(cluster, alone, tmp_path, script):
    """SLURM sends SIGUSR1 before the end of a job's time. Here `scancel` sends it, after the first validation."""
    log = tmp_path / "log"
    processes = ("--ntasks=2",) if script == "train.sh" else ("--export=ALL,PROCESSES=2",)
    job = cluster.ask(
        "sbatch", "--parsable", *processes, "--time=30", f"--output={log}", ROOT / "examples" / "slurm" / script,
        *LONG, "--out", "runs", cwd=tmp_path,
    )  # fmt: skip
    until(lambda: log.is_file() and "validation 1/" in log.read_text(), PATIENT)
    cluster.ask("scancel", "--signal=USR1", *(["--batch"] if script == "torchrun.sh" else []), job)
    until(lambda: "which is saved" in log.read_text(), PATIENT)
    until(lambda: cluster.state(job) == "PENDING", PATIENT)
    cluster.ask("scontrol", "update", f"jobid={job}", "starttime=now")  # SLURM waits two minutes by itself
    until(lambda: cluster.state(job) not in ("PENDING", "RUNNING", "COMPLETING"), PATIENT)
    said = log.read_text()
    assert cluster.state(job) == "COMPLETED", said
    run = run_folder(tmp_path / "runs")  # one run, not two
    assert f"--resume auto: going on with {run.relative_to(tmp_path)}" in said and "on 2 processes" in said
    assert json.loads((run / "result.json").read_text())["steps"] == 600
    assert same_but_for_rounding(alone, run)


def test_tasks_without_a_common_folder_train_together(cluster, tmp_path):
    """As on machines that share no file system: the first task alone writes."""
    task = 'mkdir -p "$1/$SLURM_PROCID" && cd "$1/$SLURM_PROCID" && shift && exec vit train "$@" --out runs'
    out = cluster.ask("srun", "--ntasks=3", "sh", "-c", task, "sh", tmp_path,
                      *LONG, "--optim.steps", "20", "--batch_size", "24", cwd=tmp_path)  # fmt: skip
    assert "on 3 processes" in out
    assert run_folder(tmp_path / "0" / "runs") and not list((tmp_path / "1").iterdir() or (tmp_path / "2").iterdir())
    shutil.rmtree(tmp_path / "0")
