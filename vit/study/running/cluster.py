"""Cells as tasks of a cluster: what a task asks for, what it does, and its progress read from files

Whatever cluster runs the tasks, the cells keep their folders and keys, and results come from the files that cells
write. So a study may begin on one machine and go on on a cluster, or the other way round.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vit.atomic_files import write_json
from vit.checkpoints.locking import is_held
from vit.errors import UsageError, nearest
from vit.layout import CellsLayout, RunLayout
from vit.plain_files import read_json

if TYPE_CHECKING:
    from vit.study.grid import Cell
    from vit.study.running.runner import Event

_POLL = 1.0  # seconds between two looks at the files
_GRACE = 20.0  # seconds in which the last files of a task may still appear on a shared file system
_PATIENCE = 60.0  # seconds in which a cell saves its state when its task ends


@dataclass(frozen=True)
class ClusterOptions:
    """What a task of a cluster asks for, and how many cells it runs.

    Attributes:
        time: longest time of a task; its unfinished cells then continue in the same task, queued once more.
        cpus: number of CPU cores of a task.
        gpus: number of GPUs of a task.
        memory: memory of a task in GB; 0: the cluster's default.
        partition: partition of SLURM; empty: the cluster's default.
        cells_per_task: number of cells that a task runs one after another, for short cells; 0: one, or all linear
            probes of one backbone, because they share its features.
        sbatch: further options of sbatch, as "account=lab qos=long".
    """

    time: str = "4h"
    cpus: int = 2
    gpus: int = 0
    memory: float = 0
    partition: str = ""
    cells_per_task: int = 0
    sbatch: str = ""

    @classmethod
    def of(cls, given: Mapping[str, object]) -> "ClusterOptions":
        """The options from `--cluster.NAME VALUE`; UsageError for an unknown name or a wrong value."""
        kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in kinds:
                raise UsageError(f"there is no option --cluster.{name}", nearest(name, kinds))
            try:
                values[name] = kinds[name](str(value))
            except ValueError as error:
                raise UsageError(f"--cluster.{name} {value}", "give a number") from error
        found = cls(**values)
        for name, least in (("cpus", 1), ("gpus", 0), ("memory", 0), ("cells_per_task", 0)):
            if not getattr(found, name) >= least:
                raise UsageError(f"--cluster.{name} {getattr(found, name)}", f"give {least} or more")
        return found


class ClusterTask(Protocol):
    """What a cluster runs. A cluster stores it, so its values are plain."""

    def __call__(self) -> None:
        """Do the work."""

    def saved(self) -> "ClusterTask":
        """End the work, of which nothing is lost, and give what is left to do."""


@dataclass(frozen=True)
class CellBatch:
    """A task that trains cells one after another.

    Attributes:
        study: folder of the study, or of the cross-validation.
        home: working folder of the command, from which the paths of recipes begin.
        cells: cells of this task.
        threads: number of CPU threads of a cell.
        gpus: number of GPUs of a cell.
        group: group at Weights & Biases.
        digests: file with {path: digest} of the images.
    """

    study: Path
    home: Path
    cells: "tuple[Cell, ...]"
    threads: int
    gpus: int
    group: str
    digests: Path

    def __call__(self) -> None:
        """Train the cells without a result. Cells that began before continue."""
        from vit.study.running.runner import MachineShare, run_cells

        os.chdir(self.home)
        digests = read_json(self.digests)
        run_cells(self.study, self.cells, MachineShare(1, self.threads, self.gpus), self.group, digests, _print)

    def saved(self) -> "CellBatch":
        """End the running cell, which saves its state, and give what is left to do."""
        for process in multiprocessing.active_children():
            process.terminate()
            process.join(_PATIENCE)
        return self


def without_result(study: Path, cells: "Sequence[Cell]") -> "list[Cell]":
    """The cells that are not finished."""
    return [cell for cell in cells if not RunLayout(study / cell.folder).result_path.is_file()]


def batches(
    study: Path, cells: "Sequence[Cell]", options: ClusterOptions, group: str, digests: Mapping[str, str]
) -> list[CellBatch]:
    """The tasks for some cells, with the files that they need. Failures of an earlier start are forgotten.

    Args:
        digests: {path: digest} of the images, written once for all tasks.
    """
    files, home = CellsLayout(study.absolute()), Path.cwd()
    files.jobs_dir.mkdir(parents=True, exist_ok=True)
    write_json(files.digests_path, dict(digests))
    for cell in cells:
        RunLayout(study / cell.folder).failure_path.unlink(missing_ok=True)
    return [
        CellBatch(files.path, home, part, options.cpus, options.gpus, group, files.digests_path)
        for part in _parts(cells, options.cells_per_task)
    ]


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


def follow(
    study: Path,
    tasks: "Mapping[str, Sequence[Cell]]",
    alive: Callable[[Collection[str]], Collection[str]],
    problem: Callable[[str], str],
    notify: "Callable[[Cell, Event], None]",
) -> None:
    """Wait until every cell of some tasks has ended, and tell each start and end.

    Args:
        study: folder of the study.
        tasks: {name of a task: its cells}.
        alive: function that gets names of tasks, and gives those that wait or run.
        problem: function that says what is known of a task that has ended without a result of a cell.
        notify: function that gets a cell and its event.
    """
    waiting = {name: list(cells) for name, cells in tasks.items() if cells}
    started: set[str] = set()
    gone: dict[str, float] = {}
    while waiting:
        ended = waiting.keys() - set(alive(list(waiting)))
        for name, cells in list(waiting.items()):
            gone_since = gone.setdefault(name, time.monotonic()) if name in ended else None
            is_lost = gone_since is not None and time.monotonic() - gone_since > _GRACE
            for cell in list(cells):
                run = RunLayout(study / cell.folder)
                is_done = run.result_path.is_file()
                if is_lost and not is_done and not run.failure_path.is_file():
                    run.path.mkdir(parents=True, exist_ok=True)
                    run.failure_path.write_text(f"{problem(name)}\n", encoding="utf-8")
                has_ended = is_done or (run.failure_path.is_file() and not is_held(run.lock_path))
                if cell.folder not in started and (has_ended or run.log_path.is_file()):
                    started.add(cell.folder)
                    notify(cell, "started")
                if has_ended:
                    cells.remove(cell)
                    notify(cell, "done" if is_done else "failed")
            if not cells:
                del waiting[name]
        if waiting:
            time.sleep(_POLL)


def _print(cell: "Cell", event: "Event") -> None:
    print(f"{cell.describe()}: {event}", file=sys.stderr, flush=True)
