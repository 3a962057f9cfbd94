"""Tasks of a Ray cluster: cells of studies, and parts of predictions

Ray places the tasks and starts those of a lost machine elsewhere. Results are the files that tasks write: Ray's object
store never holds them.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vit.errors import UsageError, install
from vit.study.running.cluster import Alive, CellsToRun, ClusterOptions, ClusterTask

_RETRIES = 10  # of a task whose machine is lost
_PROBLEM = "Ray's task has ended without a result (its worker was lost, or memory was not sufficient)"


class Ray:
    """The `Cluster` of --executor ray: that of RAY_ADDRESS, or else a Ray that starts on this machine."""

    title = "Ray"

    def check(self, options: ClusterOptions) -> None:
        for name in ("time", "partition", "sbatch"):
            if getattr(options, name) != getattr(ClusterOptions, name):
                problem = f"--cluster.{name} with --executor ray"
                raise UsageError(problem, "leave it out: Ray's tasks have no such limit")
        if find_spec("ray") is None:
            raise UsageError("--executor ray needs Ray", install("ray"))

    def run_cells(self, work: CellsToRun) -> None:
        self.check(work.options)
        new = work.batches(work.left)
        with _running(new, work.options, work.jobs) as (names, alive):
            work.follow({name: batch.cells for name, batch in zip(names, new, strict=True)}, alive, lambda _: _PROBLEM)

    def started(
        self, folder: Path, tasks: Sequence[ClusterTask], options: ClusterOptions
    ) -> AbstractContextManager[tuple[list[str], Alive]]:
        return _running(tasks, options, None)


@contextmanager
def _running(
    tasks: Sequence[ClusterTask], options: ClusterOptions, jobs: int | None
) -> Iterator[tuple[list[str], Alive]]:
    """While entered: tasks run, at most `jobs` at a time; None: all are given to Ray at once."""
    import ray

    ray.init(log_to_driver=False, ignore_reinit_error=True, include_dashboard=False)
    memory = {"memory": int(options.memory * 1e9)} if options.memory else {}
    remote = ray.remote(num_cpus=options.cpus, num_gpus=options.gpus, max_retries=_RETRIES, **memory)(_run)
    waiting = {str(number): task for number, task in enumerate(tasks)}
    running: dict[str, Any] = {}

    def alive(names: Collection[str]) -> set[str]:
        """Tasks that wait or run; starts further ones where others have ended."""
        if running:
            for ended in ray.wait(list(running.values()), num_returns=len(running), timeout=0)[0]:
                del running[next(name for name, task in running.items() if task == ended)]
        for name in list(waiting)[: (jobs or len(tasks)) - len(running)]:
            running[name] = remote.remote(waiting.pop(name))
        return set(names) & (running.keys() | waiting.keys())

    try:
        yield list(waiting), alive
    finally:
        ray.shutdown()


def _run(task: ClusterTask) -> None:
    task()
