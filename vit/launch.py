"""This process among others: started by a person, or by a launcher (torchrun, srun) as one of several.

PyTorch and Lightning read torchrun's variables (RANK, WORLD_SIZE, ...). `adopt_srun` derives them from those of srun.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, MutableMapping
from multiprocessing import current_process, util
from typing import TypeVar

T = TypeVar("T")
_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK")
_STEP = ("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS")  # variables that srun sets and sbatch does not
_SHELLS = ("bash", "interactive")  # SLURM_JOB_NAME of an interactive shell
_LONGEST_TMPDIR = 75  # characters: "/pymp-12345678/listener-12345678" follows, and the path of a socket has 107 at most
_SPINS = "3000"  # libgomp's own number is 300,000; fewer spins slow a training that runs alone


def wait_briefly(variables: MutableMapping[str, str] = os.environ) -> None:
    """Let threads of OpenMP that wait for each other sleep soon, so that other processes get their cores.

    libgomp, which PyTorch's wheels for Linux contain, otherwise has them spin. Two trainings at once on the same cores
    are then slower than one after the other (docs/performance.md). A small network that trains alone loses a little.
    Must run before torch is imported. Users who chose OMP_WAIT_POLICY or GOMP_SPINCOUNT keep their choice.
    """
    if "OMP_WAIT_POLICY" not in variables:
        variables.setdefault("GOMP_SPINCOUNT", _SPINS)


def shorten_socket_paths() -> None:
    """Put the sockets of this process below /tmp where the path of TMPDIR is too long for them, as Python 3.14 does."""
    settings = current_process()._config  # type: ignore[attr-defined]
    if settings.get("tempdir") is None and len(os.fsencode(tempfile.gettempdir())) > _LONGEST_TMPDIR:
        settings["tempdir"] = tempfile.mkdtemp(prefix="pymp-", dir="/tmp")
        util.Finalize(None, shutil.rmtree, args=(settings["tempdir"], True), exitpriority=-100)


def adopt_srun(variables: MutableMapping[str, str] = os.environ) -> None:
    """Add torchrun's variables to the environment of a task of srun."""
    for name, value in srun_as_torchrun(variables).items():
        variables.setdefault(name, value)


def srun_as_torchrun(given: Mapping[str, str]) -> dict[str, str]:
    """torchrun's variables for one of several tasks of a SLURM step; empty for any other process.

    The numbers of the step come first, because `srun --ntasks=2` in an allocation of 8 tasks starts 2. A batch script
    and a shell in an allocation also have SLURM_NTASKS. They are not a step, so they train in one process.
    """
    if "RANK" in given or "SLURM_PROCID" not in given:
        return {}
    is_step = any(name in given for name in _STEP) or int(given["SLURM_PROCID"]) > 0
    if not is_step and ("SLURM_JOB_ID" in given or given.get("SLURM_JOB_NAME") in _SHELLS):
        return {}
    machines = _number(given, 1, "SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    each = _number(given, 1, "SLURM_NTASKS_PER_NODE")
    tasks = _number(given, each * machines, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
    if tasks == 1:
        return {}
    rank, machine = int(given["SLURM_PROCID"]), _number(given, 0, "SLURM_NODEID")
    local_tasks = _tasks_of_machine(given, machine) or (each if each > 1 else -(-tasks // machines))
    names = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")  # lists such as node[07-09,12],big1
    nodes = (given.get(name) for name in names)
    first = re.sub(r"\[(\d+)[^\]]*\]", r"\1", next(filter(None, nodes), "127.0.0.1")).split(",")[0]
    job, step = _number(given, 0, "SLURM_JOB_ID", "SLURM_JOBID"), _number(given, 0, *_STEP[:2])
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(tasks),
        "LOCAL_RANK": given.get("SLURM_LOCALID", str(rank % local_tasks)),
        "LOCAL_WORLD_SIZE": str(local_tasks),
        "GROUP_RANK": str(machine),
        "MASTER_ADDR": "127.0.0.1" if machines == 1 else first,
        "MASTER_PORT": str(15000 + (job + step) % 10000),  # equal in all tasks of a step, different in the next job
    }


def is_launched(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether a launcher has started all processes of this training."""
    return "RANK" in variables and "WORLD_SIZE" in variables


def is_first(variables: Mapping[str, str] = os.environ) -> bool:
    """Whether this is the first process, which decides, writes files and prints. Works before processes have met."""
    if "RANK" in variables:
        return int(variables["RANK"]) == 0
    # Lightning counts within a machine
    return int(variables.get("LOCAL_RANK", "0")) == int(variables.get("NODE_RANK", "0")) == 0


def rank_and_world_size() -> tuple[int, int]:
    """The rank of this process and the number of processes, after they have met; (0, 1) before."""
    import torch.distributed as dist  # here, because commands use this module before they need torch

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def of_all_processes(own: T) -> list[T]:
    """The values of all processes, in the order of their ranks. Every process must call this."""
    import torch.distributed as dist  # as above

    values = [own] * rank_and_world_size()[1]
    if len(values) > 1:
        dist.all_gather_object(values, own)
    return values


def forget_launcher(variables: MutableMapping[str, str] = os.environ) -> None:
    """Make this process train alone. A cell of a study does so, even if a launcher has started the study."""
    for name in (*_RANKS, *_STEP):
        variables.pop(name, None)
    variables.pop("SLURM_PROCID", None)


def _tasks_of_machine(given: Mapping[str, str], machine: int) -> int:
    """Number of tasks on one machine of the step, from a list such as 4(x2),1; 0 if SLURM does not say."""
    counts: list[int] = []
    words = given.get("SLURM_STEP_TASKS_PER_NODE") or given.get("SLURM_TASKS_PER_NODE") or ""
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", words):
        counts += [int(count)] * int(times or 1)
    return counts[machine] if machine < len(counts) else 0


def _number(given: Mapping[str, str], otherwise: int, *names: str) -> int:
    return next((int(given[name]) for name in names if given.get(name, "").isdigit()), otherwise)
