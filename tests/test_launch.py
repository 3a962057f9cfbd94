"""Which process a launcher has started: torchrun's variables, derived from those that srun sets for each task."""

import os
import subprocess
import sys

import pytest

from vit.launch import adopt_srun, forget_launcher, is_first, is_launched, srun_as_torchrun, wait_briefly

TASK = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "2", "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}


def ranks(variables):
    found = srun_as_torchrun(variables)
    return tuple(found.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"))


@pytest.mark.faults("X11", simulated="variables of the environment are set, nothing is started")
@pytest.mark.parametrize(("variables", "expected"), [
    (TASK | {"SLURM_NTASKS": "4", "SLURM_NNODES": "2"}, ("3", "4", "1", "2", "1")),  # no NTASKS_PER_NODE
    (TASK | {"SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "2"}, ("3", "4", "1", "2", "1")),  # no NTASKS
    (TASK | {"SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NNODES": "2"}, ("3", "4", "1", "2", "1")),
    (TASK | {"SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_STEP_TASKS_PER_NODE": "3,1"}, ("3", "4", "1", "1", "1")),
    (TASK | {"SLURM_NTASKS": "6", "SLURM_NNODES": "2", "SLURM_TASKS_PER_NODE": "3(x2)"}, ("3", "6", "1", "3", "1")),
    ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, ("0", "4", "0", "4", "0")),
])  # fmt: skip
def test_a_task_of_srun_knows_its_place(variables, expected):
    assert ranks(variables) == expected


@pytest.mark.faults("X11", simulated="variables of the environment are set, nothing is started")
@pytest.mark.parametrize("variables", [
    {},
    {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "4"},  # salloc
    {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"},  # a batch script
    {"SLURM_JOB_NAME": "bash", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"},
    TASK | {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1"},  # srun --pty bash, in salloc
    TASK | {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
    TASK | {"SLURM_NTASKS": "4", "RANK": "0", "WORLD_SIZE": "16"},  # srun torchrun
])  # fmt: skip
def test_what_is_no_task_among_several_is_left_alone(variables):
    assert srun_as_torchrun(variables) == {}


@pytest.mark.parametrize(("names", "first"), [
    ("node[07-09,12],big1", "node07"), ("node3", "node3"), ("a1,b2", "a1"), ("rack[2]-n[10-12]", "rack2-n10"),
])  # fmt: skip
def test_all_tasks_meet_at_the_first_machine(names, first):
    variables = TASK | {"SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_STEP_NODELIST": names}
    found = srun_as_torchrun(variables)
    other = srun_as_torchrun(variables | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"})
    assert found["MASTER_ADDR"] == other["MASTER_ADDR"] == first and found["MASTER_PORT"] == other["MASTER_PORT"]
    assert srun_as_torchrun(variables | {"SLURM_STEP_ID": "3"})["MASTER_PORT"] != found["MASTER_PORT"]


def test_what_a_person_has_set_stays():
    variables = TASK | {"SLURM_NTASKS": "4", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1234"}
    adopt_srun(variables)
    assert (variables["MASTER_ADDR"], variables["MASTER_PORT"], variables["RANK"]) == ("10.0.0.1", "1234", "3")
    assert is_launched(variables)
    forget_launcher(variables)
    assert not is_launched(variables) and is_first(variables) and srun_as_torchrun(variables) == {}


@pytest.mark.faults("X11", simulated="variables of the environment are set, nothing is started")
@pytest.mark.parametrize(("variables", "first"), [
    ({}, True),
    ({"RANK": "0", "LOCAL_RANK": "0"}, True), ({"RANK": "2", "LOCAL_RANK": "0", "NODE_RANK": "0"}, False),
    ({"LOCAL_RANK": "1"}, False), ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False), ({"NODE_RANK": "1"}, False),
])  # fmt: skip
def test_one_process_speaks_whoever_started_them(variables, first):
    assert is_first(variables) == first


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp is in PyTorch's wheels for Linux")
def test_threads_that_wait_leave_their_cores_to_other_processes():
    variables = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    command = (sys.executable, "-c", "from vit.__main__ import main; main(['--version']); import torch")
    run = subprocess.run(
        command, env=variables | {"OMP_DISPLAY_ENV": "verbose"}, capture_output=True, text=True, check=True
    )  # OpenMP tells its settings when torch is loaded
    assert "GOMP_SPINCOUNT = '3000'" in run.stderr


@pytest.mark.parametrize("chosen", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "7"}])
def test_threads_wait_as_the_user_chose(chosen):
    variables = dict(chosen)
    wait_briefly(variables)
    assert variables == chosen
