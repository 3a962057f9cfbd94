"""Programs in separate processes: start them, find all their processes, end them."""

import contextlib
import multiprocessing.forkserver
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest

from tests.forked import popen, stacks_of, variables_of

ROOT = Path(__file__).parents[1]
TWO = ("--devices", "2", "--trainer.accelerator", "cpu")  # Lightning starts the second process
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def environment(folder: Path) -> dict[str, str]:
    """Environment of a program under test, by which `belonging` finds its processes."""
    return {
        **os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1", "VIT_TEST": str(folder),
    }  # fmt: skip


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def start(
    folder: Path,
    *arguments: object,
    launcher: str = "",
    script: str = "",
    real: bool = False,
    drawn: bool = False,
) -> subprocess.Popen[str]:
    """Start `vit ARGUMENTS` in a folder, with "torchrun" in two processes, after a Python `script`.

    Args:
        real: no fork.
        drawn: whether a training draws its figures and its page; a `real` one does.
    """
    program = ["-m", "vit"]
    if script:
        ending = "import sys\nfrom vit.__main__ import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
        (folder / "program.py").write_text(f"{script}\n{ending}")
        program = [str(folder / "program.py")]
    port = free_port()
    if launcher == "torchrun":
        program = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1",
                   "--master-port", port, *program]  # fmt: skip
    return (subprocess.Popen if real else popen)(
        [sys.executable, *program, *map(str, arguments)], cwd=folder,
        env=environment(folder) | {"MASTER_PORT": port} | ({"VIT_TEST_DRAWN": "1"} if drawn else {}),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def srun(folder: Path, *commands: Iterable[object], variables: Mapping[str, str] | None = None, script: str = "",
         ) -> list[subprocess.Popen[str]]:  # fmt: skip
    """Start `vit COMMAND` for each command as a task of one SLURM step, without SLURM.

    Each task has the variables of srun and its own working folder, FOLDER/taskN, as on separate machines.

    Args:
        variables: variables that srun sets for all tasks; None: those of tasks on one machine.
        script: Python code that runs first.
    """
    # the cells of a study import the main file of their parent
    main = "if __name__ == '__main__':\n    from vit.__main__ import main\n    sys.exit(main())\n"
    (folder / "task.py").write_text(f"{script}\nimport sys\n{main}")
    step = variables or {"SLURM_NTASKS": str(len(commands)), "SLURM_NNODES": "1", "SLURM_STEP_ID": "0"}
    common = environment(folder) | {"SLURM_JOB_ID": "77", "MASTER_PORT": free_port()} | step
    tasks = []
    for rank, command in enumerate(commands):
        (folder / f"task{rank}").mkdir(exist_ok=True)
        tasks.append(popen(
            [sys.executable, str(folder / "task.py"), *map(str, command)], cwd=folder / f"task{rank}",
            env=common | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ))  # fmt: skip
    return tasks


def finish_all(folder: Path, tasks: Iterable[subprocess.Popen[str]], seconds: float) -> list[tuple[int, str, str]]:
    """Exit code, standard output and standard error of tasks that must end by themselves."""
    ends = []
    try:
        for task in tasks:
            out, said = communicate(folder, task, seconds)
            ends.append((task.returncode, out, said))
    finally:
        send(belonging(folder), signal.SIGKILL)
    return ends


def until(happened: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)


def belonging(folder: Path, variable: str = "") -> list[int]:
    """All processes of the program in a folder, found by their environment: torchrun starts each in a new session.

    Forks of the tests' server are found by their working folder, and by what is noted of their environment.
    """
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")  # empty for a zombie
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            at_home = (entry / "cwd").readlink().is_relative_to(folder)
        except OSError:
            continue
        noted = [note for pid in (entry.name, parent) if (note := variables_of(folder, pid)).exists()]
        variables += [word for note in noted for word in note.read_bytes().split(b"\0")]
        mine = f"VIT_TEST={folder}".encode() in variables or at_home
        if mine and int(entry.name) not in _of_the_tests() and (not variable or variable.encode() in variables):
            found.append(int(entry.name))
    return found


def _of_the_tests() -> set[int | None]:
    """This process and its servers, which may have been started in the folder of a test."""
    servers = (multiprocessing.forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid)
    return {os.getpid(), *servers}


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def communicate(folder: Path, process: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    """Standard output and error of a program. Where it does not end, the error shows where its forked processes are."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        stacks = [path for pid in belonging(folder) if (path := stacks_of(folder, pid)).exists()]
        send([int(path.stem) for path in stacks], signal.SIGUSR2)
        time.sleep(2)
        error.add_note("\n".join(f"process {path.stem}:\n{path.read_text()}" for path in stacks))
        raise


def finish(folder: Path, process: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    """Standard output and error of a program that must end by itself. Remaining processes are killed."""
    try:
        return communicate(folder, process, seconds)
    finally:
        send(belonging(folder), signal.SIGKILL)
        process.communicate()


def ended(folder: Path, code: int, *arguments: object, seconds: float = 600, **options: Any) -> tuple[str, str]:
    """Standard output and error of `vit ARGUMENTS`, started with OPTIONS, which must end by itself with a code."""
    process = start(folder, *arguments, **options)
    out, said = finish(folder, process, seconds)
    assert process.returncode == code, out + said
    return out, said
