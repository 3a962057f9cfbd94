"""Cells in parallel, each in a fresh process forked off a server that has imported torch"""

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection, current_process, get_all_start_methods, get_context
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

import torch

from vit.checkpoints.run import RunDirectory
from vit.data.loading.threads import available_cores
from vit.errors import ResourceError, UsageError
from vit.launch import shorten_socket_paths
from vit.layout import FEATURES
from vit.study.grid import Cell
from vit.study.running.cell import run_cell, time_cell
from vit.training.recipes.recipe import Recipe

Event = Literal["started", "done", "failed"]

MOST_JOBS = 8
_SLOW = ("sklearn.datasets", "timm")  # what planning has imported of these, every cell needs as well
_PATIENCE = 30.0  # seconds until a terminated process is killed
_UNGUARDED = 97  # exit code of a process that imports a script without `if __name__ == "__main__":`
_LOST = 255  # exit code that Python gives a process whose server is gone


@dataclass(frozen=True)
class MachineShare:
    """The share of a machine that each cell gets."""

    jobs: int
    threads: int
    gpus: int

    def gpu(self, slot: int) -> int | None:
        """Index of the GPU for one of the cells that run at the same time, or None without GPUs."""
        return slot % self.gpus if self.gpus else None


def machine(jobs: int | None) -> MachineShare:
    """This machine. By default every GPU gets a cell, or every core of a CPU, because small networks scale badly."""
    cores, gpus = available_cores(), torch.cuda.device_count()
    num_cells = jobs or gpus or min(cores, MOST_JOBS)
    return MachineShare(num_cells, max(1, cores // num_cells), gpus)


def run_cells(
    study: Path,
    cells: Sequence[Cell],
    share: MachineShare,
    group: str,
    digests: Mapping[str, str],
    notify: Callable[[Cell, Event], None],
    may_start: Callable[[Cell], bool] = lambda _: True,
) -> None:
    """Run every cell without a result, in order; those that `may_start` refuses are left out.

    A failed cell does not stop the others. `digests` is {path: digest} of the images.
    """
    context = _context()
    waiting = deque(cell for cell in cells if not RunDirectory(study / cell.folder).result_path.is_file())
    free = list(range(share.jobs))[::-1]
    running: dict[int, tuple[BaseProcess, Cell, int]] = {}
    try:
        while waiting or running:
            while waiting and free:
                cell = waiting.popleft()
                if not may_start(cell):
                    continue
                slot, places = free.pop(), (study / cell.folder, study / FEATURES)
                about = (cell.recipe, *places, share.threads, share.gpu(slot), group, digests)
                process: BaseProcess = context.Process(target=run_cell, args=about)
                _start(process)
                running[process.sentinel] = (process, cell, slot)
                notify(cell, "started")
            ready = connection.wait(list(running)) if running else []  # of nothing it would wait without end
            for sentinel in [one for one in running if one in ready]:
                process, cell, slot = running.pop(sentinel)
                process.join()
                _check_guarded(process.exitcode)
                run = RunDirectory(study / cell.folder)
                if process.exitcode == _LOST:
                    _wait_for_orphan(run)
                free.append(slot)
                notify(cell, _outcome(run, process.exitcode))
    finally:
        for process, *_ in running.values():
            process.terminate()
        for process, *_ in running.values():
            process.join(_PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()


def time_network(recipe: Recipe, share: MachineShare) -> tuple[float, float]:
    """(seconds of a training step, seconds of scoring an image), in a process like that of a cell."""
    context = _context()
    here, there = context.Pipe()
    process = context.Process(target=time_cell, args=(recipe, share.threads, share.gpu(0), there))
    _start(process)
    there.close()
    try:
        answer = here.recv()
    except EOFError:
        answer = "its process ended without an answer"
    process.join()
    _check_guarded(process.exitcode)
    if isinstance(answer, str):
        raise UsageError(f"a step of {recipe.model.network['name']} cannot be timed: {answer}", "fix this error first")
    return float(answer[0]), float(answer[1])


def _context() -> ForkServerContext | SpawnContext:
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    shorten_socket_paths()
    context = get_context("forkserver")
    slow = [name for name in _SLOW if name in sys.modules]
    context.set_forkserver_preload(["vit.study.running.cell_server", "vit.study.running.cell", *slow])
    return context


def _start(process: BaseProcess) -> None:
    """Start a process; ResourceError where the process that starts others is gone."""
    end_if_imported()
    try:
        process.start()
    except (BrokenPipeError, EOFError, ConnectionError) as error:
        process.join(_PATIENCE)
        _check_guarded(process.exitcode)
        raise ResourceError("the process that starts the cells was killed", "give the command again") from error


def end_if_imported() -> None:
    """End a process of a study that comes here while it imports the script of its parent: the parent says why."""
    if getattr(current_process(), "_inheriting", False):
        os._exit(_UNGUARDED)


def _check_guarded(code: int | None) -> None:
    """Raise UsageError for the exit code of `end_if_imported`."""
    if code == _UNGUARDED:
        problem = "the processes of a study import its script, which starts the study again"
        raise UsageError(problem, "put the call under: if __name__ == '__main__':")


def _wait_for_orphan(run: RunDirectory) -> None:
    """Wait for a cell whose server was killed: its end is not reported, and it may go on, or begin."""
    end = time.monotonic() + _PATIENCE
    while run.is_held() or (time.monotonic() < end and not (run.result_path.is_file() or run.failure_path.is_file())):
        time.sleep(1.0)


def _outcome(run: RunDirectory, code: int | None) -> Event:
    if run.result_path.is_file():
        return "done"
    if not run.failure_path.is_file():  # a killed process cannot write its reason
        killed = f"signal {-code} ended its process (out of memory?)" if code and code < 0 else f"code {code}"
        if code == _LOST:
            killed = "the process that starts the cells was killed (out of memory?), and this cell with it"
        elif code and code > 128:
            killed = f"signal {code - 128} ended its training, which the next start of the study continues"
        run.path.mkdir(parents=True, exist_ok=True)
        run.failure_path.write_text(f"{killed}\n", encoding="utf-8")
    return "failed"
