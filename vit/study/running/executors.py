"""Where cells run: on this machine, as tasks of SLURM, or on a Ray cluster"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from vit.errors import ResourceError
from vit.registry import EXECUTORS
from vit.study.running.cluster import ClusterOptions, ClusterTask

if TYPE_CHECKING:
    from vit.study.grid import Cell
    from vit.study.running.runner import Event, MachineShare

Executor = Literal["local", "slurm", "ray"]
Alive = Callable[[Collection[str]], Collection[str]]  # names of tasks -> those that wait or run


class Cluster(Protocol):
    """Runs tasks on other machines; see `vit.registry.EXECUTORS`."""

    title: str  # its name for people

    def check(self, options: ClusterOptions) -> None:
        """Raise UsageError where this machine cannot give tasks to the cluster, or the options do not fit it."""

    def run_cells(
        self,
        folder: Path,
        cells: "Sequence[Cell]",
        options: ClusterOptions,
        jobs: int | None,
        digests: Mapping[str, str],
        notify: "Callable[[Cell, Event], None]",
    ) -> None:
        """Run every cell without a result, and wait for all of them; arguments and errors as of `run_cells_on`."""

    def started(
        self, folder: Path, tasks: Sequence[ClusterTask], options: ClusterOptions
    ) -> AbstractContextManager[tuple[list[str], Alive]]:
        """Start tasks; while entered: their names, and the function that says which of them wait or run.

        Args:
            folder: folder of their logs.
        """


def cluster_of(executor: Executor) -> Cluster:
    """The cluster of an executor."""
    made: Cluster = EXECUTORS[executor].load()()
    return made


def check_executor(executor: Executor, options: ClusterOptions) -> None:
    """Raise UsageError where this machine cannot give tasks to the executor, or the options do not fit it."""
    if executor != "local":
        cluster_of(executor).check(options)


def share_of(executor: Executor, options: ClusterOptions, jobs: int | None) -> "MachineShare":
    """The share of a machine that each cell gets.

    Args:
        options: what a task of a cluster asks for.
        jobs: number of cells at a time; None: as many as there is room for.
    """
    from vit.study.running.runner import MachineShare, machine

    return machine(jobs) if executor == "local" else MachineShare(jobs or 1, options.cpus, options.gpus)


def describe_share(executor: Executor, share: "MachineShare") -> str:
    """Where cells run, and what each of them gets."""
    where = f"{share.jobs} at a time" if executor == "local" else f"tasks of {cluster_of(executor).title}"
    gpus = f", {share.gpus} GPUs" if share.gpus else ""
    return f"{where}, {share.threads} thread{'s' * (share.threads != 1)} each{gpus}"


def run_cells_on(
    executor: Executor,
    folder: Path,
    cells: "Sequence[Cell]",
    options: ClusterOptions,
    jobs: int | None,
    digests: Mapping[str, str],
    notify: "Callable[[Cell, Event], None]",
    may_start: "Callable[[Cell], bool]" = lambda _: True,
) -> None:
    """Run every cell without a result, and clear up after cells with one. A failed cell does not stop the others.

    Args:
        folder: folder of the study or cross-validation. Its name is that of the group at Weights & Biases.
        options: what a task of a cluster asks for.
        jobs: number of cells at a time; None: as many as there is room for.
        digests: {path: digest} of the images.
        notify: function that gets a cell and its event.
        may_start: as for `run_cells`; on a cluster all cells start.

    Raises:
        UsageError: the executor is missing, or refuses the tasks.
        StoppedError: Ctrl-C ended the waiting for SLURM; the tasks go on.
    """
    for cell in cells:
        _clear_up(folder / cell.folder)
    if executor == "local":
        from vit.study.running.runner import run_cells

        run_cells(folder, cells, share_of(executor, options, jobs), folder.name, digests, notify, may_start)
    else:
        cluster_of(executor).run_cells(folder, cells, options, jobs, digests, notify)


def _clear_up(cell: Path) -> None:
    """Remove the lock and the checkpoint to resume from that a cell keeps where it was killed after its result."""
    from vit.checkpoints.run import RunDirectory

    run = RunDirectory(cell)
    if run.result_path.is_file() and run.lock_path.is_file():
        with suppress(ResourceError), run.held():  # another start of the study may be about to do the same
            run.last_path.unlink(missing_ok=True)
