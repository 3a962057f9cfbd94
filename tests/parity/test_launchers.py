"""Processes that torchrun, Lightning or srun starts: the first one decides, and needs no file system with the others.

No SLURM is here: tests play srun by starting each process with the variables of its task, in a folder of its own.
"""

import json
import os
import shutil

import pytest

from tests.parity.interrupted import ENDED, SHORT, begun, same_but_for_rounding
from tests.processes import TWO, ended, finish_all, linux_only, srun
from tests.runs import run_folder
from vit.checkpoints.run import RunDirectory

PATIENT = 400  # seconds, on a busy machine
SLOW = """
import os, time
from datetime import timedelta
from vit.data.checks import contents
from vit.training.distributed import processes
processes.PATIENCE = timedelta(seconds=8)
check = contents.check_header
read = open("read.txt", "a")
def slow(data, name):
    time.sleep({seconds})
    print(name, file=read, flush=True)
    return check(data, name)
contents.check_header = slow
contents._SETTLED_SECONDS = 0
"""


@linux_only
@pytest.mark.faults("X11", simulated="real processes with the variables that srun sets; no SLURM is there")
@pytest.mark.faults("X9", "R6")
@pytest.mark.slow
def test_tasks_of_srun_share_nothing_but_the_network_and_go_on_together(vit, colors, tmp_path):
    """Each machine has its own folder `runs`: what the others need of the first one's is sent to them."""
    command = ("train", colors, *SHORT, "--resume", "auto", "--out", "runs")
    (first, _, said), _ = finish_all(tmp_path, srun(tmp_path, command, command, script=ENDED), PATIENT)
    assert first == 143 and "after step 5, which is saved" in said, said
    run = run_folder(tmp_path / "task0" / "runs")
    name = run.relative_to(tmp_path / "task0")

    (first, out, said), second = finish_all(tmp_path, srun(tmp_path, command, command), PATIENT)
    assert (first, second) == (0, (0, "", "")), (said, second)
    assert f"--resume auto: going on with {name}" in said and "images on 2 processes" in out
    assert run_folder(tmp_path / "task0" / "runs") == run and not os.listdir(tmp_path / "task1")
    assert vit("train", colors, *SHORT, "--out", tmp_path / "one").code == 0
    assert same_but_for_rounding(run_folder(tmp_path / "one"), run)


@linux_only
@pytest.mark.faults("X30")
@pytest.mark.slow
def test_the_first_process_reads_all_images_and_is_waited_for(draw_classes, tmp_path, monkeypatch):
    """Reading takes twice the patience. The second training reads nothing."""
    monkeypatch.setenv("VIT_HASHES", str(tmp_path / "hashes"))
    images = draw_classes(tmp_path / "images", ("a", "b"), 70, 8)
    command = ("train", images, *SHORT, "--data.num_workers", 0, "--out", "runs")
    for seconds in (0.12, 0):
        script = SLOW.format(seconds=seconds)
        ends = finish_all(tmp_path, srun(tmp_path, command, command, script=script), PATIENT)
        assert [code for code, *_ in ends] == [0, 0], ends
        read = [(tmp_path / f"task{task}" / "read.txt").read_text().split() for task in range(2)]
        assert len(set(read[0])) == len(read[0]) == 140 and not read[1]
    first, second = (RunDirectory(run) for run in sorted((tmp_path / "task0" / "runs").glob("*/*/*")))
    assert first.splits_path.read_text() == second.splits_path.read_text()


@linux_only
@pytest.mark.slow
@pytest.mark.faults("X11", simulated="real processes with the variables that srun sets; no SLURM is there")
@pytest.mark.faults("R6")
def test_a_run_goes_on_by_its_name_where_the_others_do_not_see_it(colors, tmp_path):
    """And from the checkpoint before the last, where the last is damaged: the first process decides that, too."""
    run = begun(tmp_path, 2, colors, "--checkpoint_every", "0s")
    (tmp_path / "task0").mkdir()
    run = shutil.move(run, tmp_path / "task0" / "run")
    (run / "checkpoints" / "last.ckpt").write_bytes(b"cut short")
    command = ("train", "--resume", "run")
    (first, _, said), second = finish_all(tmp_path, srun(tmp_path, command, command), PATIENT)
    assert (first, second) == (0, (0, "", "")), (said, second)
    assert "going on from previous.ckpt, step 4" in said and not os.listdir(tmp_path / "task1")
    assert json.loads((run / "result.json").read_text())["steps"] > 5


@linux_only
@pytest.mark.slow
@pytest.mark.faults("X8")
@pytest.mark.parametrize("launcher", ["lightning", "torchrun"])
def test_the_first_process_decides_what_resume_auto_finds(colors, tmp_path, launcher):
    """The others would find another run, or none: the first one holds its lock."""
    run = begun(tmp_path, 2, colors)
    options = TWO if launcher == "lightning" else ()
    command = ("train", colors, *SHORT, *options, "--resume", "auto", "--out", tmp_path / "begun")
    _, said = ended(tmp_path, 0, *command, launcher=launcher)
    assert f"--resume auto: going on with {run}" in said, said
    assert run_folder(tmp_path / "begun") == run and (run / "result.json").is_file()


@pytest.mark.slow
@linux_only
@pytest.mark.faults("X11", simulated="real processes with the variables that srun sets; no SLURM is there")
def test_cells_of_a_study_that_srun_started_train_alone(tmp_path):
    study = ("study", "digits", "--networks", "digits_cnn", "--sizes", "60", "--seeds", "1", "--budget", "steps:5",
             "--jobs", "1", "--wandb", "off", "--out", "studies")  # fmt: skip
    variables = {"SLURM_NTASKS": "4", "SLURM_NNODES": "1", "SLURM_STEP_ID": "0"}  # without SLURM_NTASKS_PER_NODE
    ((code, out, said),) = finish_all(tmp_path, srun(tmp_path, study, variables=variables), PATIENT)
    assert code == 0 and "FAILED" not in out + said, said
