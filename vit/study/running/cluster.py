"""Where cells run: on this machine, or as tasks of SLURM or a Ray cluster, whose progress is read from files

Wherever cells run, they keep their folders and keys, and results come from the files that they write. So a study may
begin on one machine and go on on a cluster, or the other way round.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from vit.atomic_files import write_json
from vit.checkpoints.locking import is_held
from vit.errors import ResourceError
from vit.layout import CellsLayout, RunLayout
from vit.plain_files import read_json
from vit.ranges import NonNegative, NonNegativeInt, PositiveInt
from vit.registry import EXECUTORS

if TYPE_CHECKING:
    from vit.study.grid import Cell
    from vit.study.running.runner import Event, MachineShare

_POLL = 1.0  # seconds between two looks at the files
_GRACE = 20.0  # seconds in which the last files of a task may still appear on a shared file system
_PATIENCE = 60.0  # seconds in which a cell saves its state when its task ends
Executor = Literal["local", "slurm", "ray"]
Alive = Callable[[Collection[str]], Collection[str]]  # names of tasks -> those that wait or run


@dataclass(frozen=True)
class ClusterOptions:
    """What a task of a cluster asks for, and how many cells it runs."""

    time: str = "4h"  # longest time of a task; its unfinished cells then continue in the same task, queued once more
    cpus: PositiveInt = 2
    gpus: NonNegativeInt = 0
    memory: NonNegative = 0  # in GB; 0: the cluster's default
    partition: str = ""  # of SLURM; empty: the cluster's default
    # cells that a task runs one after another; 0: one, or all linear probes of one backbone, which share its features
    cells_per_task: NonNegativeInt = 0
    sbatch: str = ""  # further options of sbatch, as "account=lab qos=long"


class ClusterTask(Protocol):
    """What a cluster runs. A cluster stores it, so its values are plain."""

    def __call__(self) -> None:
        """Do the work."""

    def saved(self) -> "ClusterTask":
        """End the work, of which nothing is lost, and give what is left to do."""


class Cluster(Protocol):
    """Runs tasks on other machines; see `vit.registry.EXECUTORS`."""

    title: str  # its name for people

    def check(self, options: ClusterOptions) -> None:
        """Raise UsageError where this machine cannot give tasks to the cluster, or the options do not fit it."""

    def run_cells(self, work: "CellsToRun") -> None:
        """Run every cell without a result, and wait for all of them; errors as of `run_cells_on`."""

    def started(
        self, folder: Path, tasks: Sequence[ClusterTask], options: ClusterOptions
    ) -> AbstractContextManager[tuple[list[str], Alive]]:
        """Start tasks; while entered: their names, and which of them wait or run. Their logs go to `folder`."""


@dataclass(frozen=True)
class CellBatch:
    """A task that trains cells one after another."""

    study: Path  # folder of the study, or of the cross-validation
    home: Path  # working folder of the command, from which the paths of recipes begin
    cells: "tuple[Cell, ...]"
    threads: int  # CPU threads of a cell
    gpus: int  # GPUs of a cell
    group: str  # group at Weights & Biases
    digests: Path  # file with {path: digest} of the images

    def __call__(self) -> None:
        """Train the cells without a result. Cells that began before continue."""
        from vit.study.running.runner import MachineShare, run_cells

        os.chdir(self.home)

        def tell(cell: "Cell", event: "Event") -> None:
            print(f"{cell.describe()}: {event}", file=sys.stderr, flush=True)

        digests = read_json(self.digests)
        run_cells(self.study, self.cells, MachineShare(1, self.threads, self.gpus), self.group, digests, tell)

    def saved(self) -> "CellBatch":
        """End the running cell, which saves its state, and give what is left to do."""
        for process in multiprocessing.active_children():
            process.terminate()
            process.join(_PATIENCE)
        return self


@dataclass(frozen=True)
class CellsToRun:
    """Cells that a cluster runs; the fields are arguments of `run_cells_on`."""

    folder: Path
    cells: "Sequence[Cell]"
    options: ClusterOptions
    jobs: int | None
    digests: Mapping[str, str]
    notify: "Callable[[Cell, Event], None]"

    @property
    def left(self) -> "list[Cell]":
        """The cells that are not finished."""
        return [cell for cell in self.cells if not RunLayout(self.folder / cell.folder).result_path.is_file()]

    def batches(self, cells: "Sequence[Cell]") -> list[CellBatch]:
        """The tasks for some cells, with the files that they need. Failures of an earlier start are forgotten."""
        files, home, options = CellsLayout(self.folder.absolute()), Path.cwd(), self.options
        files.jobs_dir.mkdir(parents=True, exist_ok=True)
        write_json(files.digests_path, dict(self.digests))
        for cell in cells:
            RunLayout(self.folder / cell.folder).failure_path.unlink(missing_ok=True)
        return [
            CellBatch(files.path, home, part, options.cpus, options.gpus, self.folder.name, files.digests_path)
            for part in _parts(cells, options.cells_per_task)
        ]

    def follow(self, tasks: "Mapping[str, Sequence[Cell]]", alive: Alive, problem: Callable[[str], str]) -> None:
        """Wait until every cell of {task: its cells} has ended, and tell each start and end.

        `problem` says what is known of a task that has ended without a result of a cell.
        """
        waiting = {name: list(cells) for name, cells in tasks.items() if cells}
        started: set[str] = set()
        gone: dict[str, float] = {}
        while waiting:
            ended = waiting.keys() - set(alive(list(waiting)))
            gone = {name: gone.get(name, time.monotonic()) for name in ended}
            for name, cells in list(waiting.items()):
                is_lost = name in gone and time.monotonic() - gone[name] > _GRACE
                for cell in list(cells):
                    run = RunLayout(self.folder / cell.folder)
                    is_done = run.result_path.is_file()
                    if is_lost and not is_done and not run.failure_path.is_file():
                        run.path.mkdir(parents=True, exist_ok=True)
                        run.failure_path.write_text(f"{problem(name)}\n", encoding="utf-8")
                    has_ended = is_done or (run.failure_path.is_file() and not is_held(run.lock_path))
                    if cell.folder not in started and (has_ended or run.log_path.is_file()):
                        started.add(cell.folder)
                        self.notify(cell, "started")
                    if has_ended:
                        cells.remove(cell)
                        self.notify(cell, "done" if is_done else "failed")
                if not cells:
                    del waiting[name]
            if waiting:
                time.sleep(_POLL)


def _parts(cells: "Sequence[Cell]", size: int) -> "Iterator[tuple[Cell, ...]]":
    """The cells of each task. Linear probes of one backbone would otherwise wait for the one that computes features."""
    if size:
        yield from (tuple(cells[start : start + size]) for start in range(0, len(cells), size))
        return
    of_backbones: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.recipe.model.freeze == "backbone":
            of_backbones.setdefault(repr(cell.recipe.model), []).append(cell)
        else:
            yield (cell,)
    yield from map(tuple, of_backbones.values())


def cluster_of(executor: Executor) -> Cluster:
    """The cluster of an executor."""
    made: Cluster = EXECUTORS[executor].load()()
    return made


def check_executor(executor: Executor, options: ClusterOptions) -> None:
    """Raise UsageError where this machine cannot give tasks to the executor, or the options do not fit it."""
    if executor != "local":
        cluster_of(executor).check(options)


def share_of(executor: Executor, options: ClusterOptions, jobs: int | None) -> "MachineShare":
    """The share of a machine that each cell gets; `jobs` is the number of cells at a time, None for all that fit."""
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

    The name of `folder`, of a study or cross-validation, is that of the group at Weights & Biases. `jobs` cells run at
    a time; None: as many as there is room for. Other arguments are as for `run_cells`; on a cluster all cells start.
    UsageError where the executor is missing, or refuses the tasks. StoppedError where Ctrl-C ended the waiting for
    SLURM; the tasks go on.
    """
    from vit.checkpoints.run import RunDirectory

    for cell in cells:  # one that was killed after its result keeps its lock and the checkpoint to resume from
        run = RunDirectory(folder / cell.folder)
        if run.result_path.is_file() and run.lock_path.is_file():
            with suppress(ResourceError), run.held():  # another start of the study may be about to do the same
                run.last_path.unlink(missing_ok=True)
    if executor == "local":
        from vit.study.running.runner import run_cells

        run_cells(folder, cells, share_of(executor, options, jobs), folder.name, digests, notify, may_start)
    else:
        cluster_of(executor).run_cells(CellsToRun(folder, cells, options, jobs, digests, notify))
