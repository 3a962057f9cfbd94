"""Tasks of a Ray cluster: cells of studies, and parts of predictions

Ray places the tasks and starts those of a lost machine elsewhere. Results are the files that tasks write: Ray's object
store never holds them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.errors import UsageError, install
from vit.study.cluster import ClusterOptions, Task, batches, follow, without_result

if TYPE_CHECKING:
    from vit.study.grid import Cell
    from vit.study.runner import Event

_RETRIES = 10  # of a task whose machine is lost


def run_on_ray(
    study: Path,
    cells: "Sequence[Cell]",
    options: ClusterOptions,
    jobs: int | None,
    group: str,
    digests: Mapping[str, str],
    notify: "Callable[[Cell, Event], None]",
) -> None:
    """Run every cell without a result as a task of Ray, and wait for all of them.

    The cluster is that of RAY_ADDRESS; without it, Ray starts on this machine.

    Args:
        study: folder of the study or cross-validation, on a file system that all machines see.
        cells: cells to run.
        options: what a task asks for; Ray knows no time, partition and options of sbatch.
        jobs: largest number of tasks at a time; None: as many as the cluster has room for.
        group: group at Weights & Biases.
        digests: {path: digest} of the images.
        notify: function that gets a cell and its event.

    Raises:
        UsageError: Ray is missing, or an option is for SLURM.
    """
    check_ray(options)
    import ray

    made = batches(study, without_result(study, cells), options, group, digests)
    found = {str(number): batch for number, batch in enumerate(made)}
    ray.init(log_to_driver=False, ignore_reinit_error=True, include_dashboard=False)
    try:
        tasks = RayTasks(ray, found, options, jobs)
        follow(study, {name: batch.cells for name, batch in found.items()}, tasks.alive, tasks.problem, notify)
    finally:
        ray.shutdown()


class RayTasks:
    """Tasks of Ray, of which a part runs at a time.

    Args:
        ray: the library.
        found: {name: task}.
        options: what a task asks for.
        jobs: largest number of tasks at a time; None: all are given to Ray at once.
    """

    def __init__(self, ray: Any, found: Mapping[str, Task], options: ClusterOptions, jobs: int | None) -> None:
        self.ray, self.jobs = ray, jobs or len(found)
        memory = {"memory": int(options.memory * 1e9)} if options.memory else {}
        self.remote = ray.remote(num_cpus=options.cpus, num_gpus=options.gpus, max_retries=_RETRIES, **memory)(_run)
        self.names = list(found)
        self.waiting = list(found.items())
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


def _run(task: Task) -> None:
    task()


def check_ray(options: ClusterOptions) -> None:
    """Raise UsageError if Ray is missing, or an option is for SLURM."""
    for name in ("time", "partition", "sbatch"):
        if getattr(options, name) != getattr(ClusterOptions, name):
            raise UsageError(f"--cluster.{name} with --executor ray", "leave it out: Ray's tasks have no such limit")
    if find_spec("ray") is None:
        raise UsageError("--executor ray needs Ray", install("ray"))
