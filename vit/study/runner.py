"""Runs cells side by side, each in a fresh process that a warm one forks off: torch is imported once for all."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_all_start_methods, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from vit.checkpoints.run import RunDirectory
from vit.errors import UsageError
from vit.study.cell import run_cell, time_cell
from vit.study.grid import Cell
from vit.training.recipe import Recipe

MOST_JOBS = 8
PRELOADED = ["vit.study.cell", "sklearn.datasets"]
_PATIENCE = 30.0


@dataclass(frozen=True)
class Machine:
    """What cells run on: so many at a time, each on some threads of the CPU, or on a GPU of its own."""

    jobs: int
    threads: int
    gpus: int

    def gpu(self, slot: int) -> int | None:
        """The GPU of the n-th cell at a time."""
        return slot % self.gpus if self.gpus else None


def machine(jobs: int | None) -> Machine:
    """This machine; by default a cell on every GPU, or on a CPU one on every core: small networks scale badly."""
    import torch

    from vit.data.threads import available_cores

    cores, gpus = available_cores(), torch.cuda.device_count()
    chosen = jobs or gpus or min(cores, MOST_JOBS)
    return Machine(chosen, max(1, cores // chosen), gpus)


def run_cells(
    study: Path,
    cells: Sequence[Cell],
    place: Machine,
    group: str,
    digests: Mapping[str, str],
    told: Callable[[Cell, str], None],
) -> None:
    """Run every cell that has no result yet, in order; one that fails does not stop the rest.

    Args:
        digests: {path: digest} of the images.
        told: called with a cell and "started", "done" or "failed".
    """
    context: Any = _context()
    waiting = deque(cell for cell in cells if not RunDirectory(study / cell.folder).result_path.is_file())
    free = list(range(place.jobs))[::-1]
    running: dict[Any, tuple[BaseProcess, Cell, int]] = {}
    try:
        while waiting or running:
            while waiting and free:
                cell, slot = waiting.popleft(), free.pop()
                about = (cell.recipe, study / cell.folder, place.threads, place.gpu(slot), group, digests)
                process = context.Process(target=run_cell, args=about)
                process.start()
                running[process.sentinel] = (process, cell, slot)
                told(cell, "started")
            for sentinel in connection.wait(list(running)):
                process, cell, slot = running.pop(sentinel)
                process.join()
                free.append(slot)
                told(cell, _outcome(RunDirectory(study / cell.folder), process.exitcode))
    finally:
        _end([process for process, _, _ in running.values()])


def time_network(recipe: Recipe, place: Machine) -> tuple[float, float]:
    """(seconds of a training step, seconds of scoring an image), in a process like those of the cells."""
    context: Any = _context()
    here, there = context.Pipe()
    process = context.Process(target=time_cell, args=(recipe, place.threads, place.gpu(0), there))
    process.start()
    there.close()
    try:
        answer = here.recv()
    except EOFError:
        answer = "its process ended without an answer"
    process.join()
    if isinstance(answer, str):
        raise UsageError(f"a step of {recipe.model.network['name']} could not be timed: {answer}", "fix it first")
    step, image = answer
    return float(step), float(image)


def _context() -> Any:
    method = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
    context = get_context(method)
    context.set_forkserver_preload(PRELOADED)
    return context


def _outcome(run: RunDirectory, code: int | None) -> str:
    if run.result_path.is_file():
        return "done"
    if not run.failure_path.is_file():  # a killed process cannot write its reason
        killed = f"its process was ended by signal {-code} (out of memory?)" if code and code < 0 else f"code {code}"
        run.path.mkdir(parents=True, exist_ok=True)
        run.failure_path.write_text(f"{killed}\n", encoding="utf-8")
    return "failed"


def _end(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
