"""Tasks as an array of SLURM jobs, through submitit

submitit queues a task once more when its time is over or it is preempted (SIGUSR2). Before that, `checkpoint` ends the
work of the task, such as a running cell, which saves its state.
"""

import json
import math
import re
import shlex
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vit.atomic_files import write_json
from vit.errors import StoppedError, UsageError, install, interruption
from vit.layout import CellsLayout
from vit.ranges import seconds
from vit.study.running.cluster import Alive, CellsToRun, ClusterOptions, ClusterTask

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

_SIGNAL_SECONDS = 120  # between the signal and the end of a task
_MOST_STARTS = 1000  # of a task whose time is over
_ARRAY_SIZE = 1001  # SLURM's default


@dataclass(frozen=True)
class SlurmTask:
    """A task that submitit queues once more when its time is over."""

    task: ClusterTask

    def __call__(self) -> None:
        self.task()

    def checkpoint(self) -> "DelayedSubmission":
        """What submitit queues: what is left to do."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(SlurmTask(self.task.saved()))


class Slurm:
    """The `Cluster` of --executor slurm."""

    title = "SLURM"

    def check(self, options: ClusterOptions) -> None:
        if find_spec("submitit") is None:
            raise UsageError("--executor slurm needs submitit", install("slurm"))
        if shutil.which("sbatch") is None or shutil.which("srun") is None:
            problem = "--executor slurm: this machine has no sbatch"
            raise UsageError(problem, "give the command on a machine that submits jobs to SLURM, or --executor local")

    def run_cells(self, work: CellsToRun) -> None:
        """Cells of tasks that an earlier start of the same study has queued are waited for, and not queued twice."""
        files = CellsLayout(work.folder)
        self.check(work.options)
        left = {cell.folder: cell for cell in work.left}
        before: dict[str, list[str]] = {}  # name of a task of an earlier start -> folders of its cells
        if files.submitted_path.is_file():
            before = json.loads(files.submitted_path.read_text(encoding="utf-8"))
        tasks = {name: [left[one] for one in before[name] if one in left] for name in alive(before)}
        queued = {cell.folder for waiting in tasks.values() for cell in waiting}
        new = work.batches([cell for cell in left.values() if cell.folder not in queued])
        largest = largest_array()
        for start in range(0, len(new), largest):
            part = new[start : start + largest]
            options = work.options
            if work.jobs and tasks:  # the limit of an array does not count the tasks of others
                others = ":".join(sorted({name.partition("_")[0] for name in tasks}))
                options = replace(options, sbatch=f"{options.sbatch} dependency=afterany:{others}")
            names = submit(files.jobs_dir, part, options, work.jobs)
            tasks |= {name: list(batch.cells) for name, batch in zip(names, part, strict=True)}
            write_json(files.submitted_path, {name: [str(cell.folder) for cell in own] for name, own in tasks.items()})

        def problem(name: str) -> str:
            return f"SLURM's task {name} has ended without a result (see {files.jobs_dir}/{name}_0_log.err)"

        with _interruptible(tasks):
            work.follow(tasks, alive, problem)

    @contextmanager
    def started(
        self, folder: Path, tasks: Sequence[ClusterTask], options: ClusterOptions
    ) -> Iterator[tuple[list[str], Alive]]:
        names = submit(folder, tasks[: largest_array()], options, None)
        with _interruptible(names):
            yield names, alive


@contextmanager
def _interruptible(names: Collection[str]) -> Iterator[None]:
    """While entered: Ctrl-C or SIGTERM ends the waiting for tasks, which go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        numbers = " ".join(sorted({name.partition("_")[0] for name in alive(names)}))
        code, word = interruption(error)
        fix = f"to end them: scancel {numbers}; to wait for them, give the same command again"
        raise StoppedError(code, f"{word}; SLURM's jobs {numbers} go on", fix) from error


def submit(folder: Path, tasks: Sequence[ClusterTask], options: ClusterOptions, jobs: int | None) -> list[str]:
    """Queue at most `largest_array` tasks as one array; their names, such as 4711_0. UsageError where SLURM refuses it.

    Args:
        folder: folder of their logs.
        jobs: largest number of tasks at a time; None: as many as SLURM allows.
    """
    import submitit

    extra = dict(word.partition("=")[::2] for word in shlex.split(options.sbatch))
    asked = {
        "gpus_per_node": options.gpus,
        "mem_gb": options.memory,
        "slurm_partition": options.partition,
        "slurm_additional_parameters": extra,
    }
    executor = submitit.AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=_MOST_STARTS)
    executor.update_parameters(
        name="vit",
        timeout_min=math.ceil(seconds(options.time, "--cluster.time") / 60),
        cpus_per_task=options.cpus,
        slurm_signal_delay_s=_SIGNAL_SECONDS,
        slurm_array_parallelism=jobs or len(tasks),
        **{name: value for name, value in asked.items() if value},
    )
    try:
        with executor.batch():
            queued = [executor.submit(SlurmTask(task)) for task in tasks]
    except submitit.core.utils.FailedJobError as error:
        message = re.sub(r"^.*?sbatch: error: ", "", " ".join(str(error).split()))
        raise UsageError(f"SLURM refuses the job: {message[:300]}", "change --cluster.*") from error
    return [str(job.job_id) for job in queued]


def alive(names: Collection[str]) -> set[str]:
    """Tasks that wait or run. squeue is asked, because sacct answers only where SLURM keeps accounts."""
    numbers = sorted({name.partition("_")[0] for name in names})
    if not numbers:
        return set()
    command = ["squeue", "--noheader", "--array", "--format=%F %K %i", f"--jobs={','.join(numbers)}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0 and "Invalid job id" not in done.stderr:
        return set(names)  # the controller does not answer now
    listed = [line.split() for line in done.stdout.splitlines()]
    return set(names) & {f"{job}_{task}" if task.isdigit() else job for job, task, _ in listed}


def largest_array() -> int:
    """The number of tasks that SLURM takes in one array."""
    done = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True, check=False)  # noqa: S607
    match = re.search(r"MaxArraySize\s*=\s*(\d+)", done.stdout)
    return int(match[1]) if match and int(match[1]) > 0 else _ARRAY_SIZE
