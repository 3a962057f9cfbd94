"""Options that say where cells run, shared by `vit study`, `vit crossval`, `vit probe` and `vit predict --parts`"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from vit.commands.cli.options import options_of
from vit.commands.cli.parser import Parser
from vit.errors import UsageError
from vit.study.running.cluster import ClusterOptions, Executor, check_executor
from vit.training.recipes.ranges import PositiveInt


@dataclass(frozen=True)
class ExecutorOptions:
    """Where cells run, and how many at a time. A cell is a training, a fold, a linear probe, or a task of --parts.

    Attributes:
        jobs: number of cells at a time; null: one for each GPU, or for each CPU core; on a cluster, as many tasks as it
            allows
        executor: where cells run. local: on this machine. slurm: as tasks of SLURM. ray: on a cluster of Ray
        cluster: what a task of SLURM or Ray asks for, such as --cluster.time 4h, --cluster.cpus 4, --cluster.gpus 1,
            --cluster.memory 16 (GB), --cluster.partition gpu, --cluster.cells_per_task 10
    """

    jobs: PositiveInt | None = None
    executor: Executor = "local"
    cluster: dict[str, bool | int | float | str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, command: str, values: Mapping[str, object]) -> "ExecutorOptions":
        """The options from keyword arguments of Python; UsageError for a wrong value.

        Args:
            command: name of the command, for errors.
        """
        return cls(**Parser(command, "", "", tuple(options_of(cls))).read_values(values))

    @property
    def cluster_options(self) -> ClusterOptions:
        """What a task of a cluster asks for; UsageError for a wrong value, or without a cluster."""
        if self.cluster and self.executor == "local":
            raise UsageError("--cluster.* without a cluster", "give --executor slurm or --executor ray")
        return ClusterOptions.of(self.cluster)

    def check(self, dry_run: bool = False) -> None:
        """Raise UsageError for wrong options, and where the executor is missing, which a dry run does not need."""
        options = self.cluster_options
        if not dry_run:
            check_executor(self.executor, options)


EXECUTOR_OPTIONS = tuple(one.name for one in fields(ExecutorOptions))
