"""Tasks of a Ray cluster: cells of studies, and parts of predictions

Ray places the tasks and starts those of a lost machine elsewhere. Results are the files that tasks write: Ray's object
store never holds them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.errors import UsageError, install
from vit.study.running.cluster import Alive, ClusterOptions, ClusterTask, batches, follow, without_result

if TYPE_CHECKING:
    from vit.study.grid import Cell
    from vit.study.running.runner import Event

_RETRIES = 10  # of a task whose machine is lost


class Ray:
    """The `Cluster` of --executor ray: that of RAY_ADDRESS, or else a Ray that starts on this machine."""

    title = "Ray"

    def check(self, options: ClusterOptions) -> None:
        for name in ("time", "partition", "sbatch"):
            if getattr(options, name) != getattr(ClusterOptions, name):
                raise UsageError(
                    f"--cluster.{name} with --executor ray", "leave it out: Ray's tasks have no such limit"
                )
        if find_spec("ray") is None:
            raise UsageError("--executor ray needs Ray", install("ray"))

    def run_cells(
        self,
        folder: Path,
        cells: "Sequence[Cell]",
        options: ClusterOptions,
        jobs: int | None,
        digests: Mapping[str, str],
        notify: "Callable[[Cell, Event], None]",
    ) -> None:
        self.check(options)
        new = batches(folder, without_result(folder, cells), options, folder.name, digests)
        with _tasks(new, options, jobs) as tasks:
            cells_of = {name: batch.cells for name, batch in zip(tasks.names, new, strict=True)}
            follow(folder, cells_of, tasks.alive, tasks.problem, notify)

    @contextmanager
    def started(
        self, folder: Path, tasks: Sequence[ClusterTask], options: ClusterOptions
    ) -> Iterator[tuple[list[str], Alive]]:
        with _tasks(tasks, options, None) as running:
            yield running.names, running.alive


@contextmanager
def _tasks(tasks: Sequence[ClusterTask], options: ClusterOptions, jobs: int | None) -> "Iterator[RayTasks]":
    import ray

    ray.init(log_to_driver=False, ignore_reinit_error=True, include_dashboard=False)
    try:
        yield RayTasks(ray, {str(number): task for number, task in enumerate(tasks)}, options, jobs)
    finally:
        ray.shutdown()


class RayTasks:
    """Tasks of Ray, of which a part runs at a time.

    Args:
        options: what a task asks for.
        jobs: largest number of tasks at a time; None: all are given to Ray at once.
    """

    def __init__(self, ray: Any, tasks: Mapping[str, ClusterTask], options: ClusterOptions, jobs: int | None) -> None:
        self.ray, self.jobs = ray, jobs or len(tasks)
        memory = {"memory": int(options.memory * 1e9)} if options.memory else {}
        self.remote = ray.remote(num_cpus=options.cpus, num_gpus=options.gpus, max_retries=_RETRIES, **memory)(_run)
        self.names = list(tasks)
        self.waiting = list(tasks.items())
        self.running: dict[str, Any] = {}

    def alive(self, names: Collection[str]) -> set[str]:
        """Tasks that wait or run; starts further ones where others have ended."""
        if self.running:
            ready, _ = self.ray.wait(list(self.running.values()), num_returns=len(self.running), timeout=0)
            ended = set(ready)
            self.running = {name: task for name, task in self.running.items() if task not in ended}
        while self.waiting and len(self.running) < self.jobs:
            name, task = self.waiting.pop(0)
            self.running[name] = self.remote.remote(task)
        return set(names) & (self.running.keys() | {name for name, _ in self.waiting})

    def problem(self, name: str) -> str:
        """What is known of a task that has ended without a result."""
        return "Ray's task has ended without a result (its worker was lost, or memory was not sufficient)"


def _run(task: ClusterTask) -> None:
    task()
