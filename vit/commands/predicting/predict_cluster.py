"""`vit predict --parts --executor slurm|ray`: tasks of a cluster compute the parts, and this process follows them"""

import os
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.executor_options import ExecutorOptions
from vit.commands.predicting.predict_parts import PartsJob, check_labeled, merge_command, predict_in_parts
from vit.commands.predicting.prediction_tally import DECIDED, PredictionSummary
from vit.console import ProgressReport, Reporter, count_of
from vit.errors import BadInputsError, UsageError
from vit.layout import PartsLayout
from vit.study.running.executors import Alive, cluster_of

if TYPE_CHECKING:
    from vit.inference.parts import Manifest

_POLL = 1.0  # seconds between two looks at the files
_GRACE = 20.0  # seconds in which the last files of a task may still appear on a shared file system


@dataclass(frozen=True)
class PartsTask:
    """A task that computes parts until all are there."""

    home: Path  # working folder of the command, from which its paths begin
    job: PartsJob  # what was asked for

    def __call__(self) -> None:
        """Compute the parts that no other task has computed or computes now."""
        os.chdir(self.home)
        with suppress(BadInputsError):  # of images without a label, which the command counts over all tasks
            predict_in_parts(self.job, fail_on_bad=False)

    def saved(self) -> "PartsTask":
        """The same: parts that are there are passed over."""
        return self


def check_where(where: ExecutorOptions, has_parts: bool) -> None:
    """Raise UsageError where the options for a cluster do not fit each other or this machine."""
    where.check()
    if where.executor == "local":
        if where.jobs is not None:
            raise UsageError(
                "--jobs without a cluster", "start the same command several times, or torchrun on several GPUs"
            )
        return
    if not has_parts:
        raise UsageError(f"--executor {where.executor} without --parts", "give --parts FOLDER, which all machines see")
    if where.jobs is None:
        raise UsageError(f"--executor {where.executor} without --jobs", "give --jobs N, the number of tasks")
    if where.cluster_options.cells_per_task:
        raise UsageError("--cluster.cells_per_task with vit predict", "give --jobs N, the number of tasks")


def predict_on_cluster(job: PartsJob, where: ExecutorOptions, fail_on_bad: bool) -> PredictionSummary:
    """Give the missing parts to tasks of a cluster, and wait for them.

    Args:
        fail_on_bad: whether files without a label are an error.

    Returns:
        Counts of what the tasks computed.

    Raises:
        BadInputsError: tasks ended before all parts were there; or as `predict_in_parts`.
        StoppedError: Ctrl-C ended the waiting for SLURM; the tasks go on.
    """
    job.setup.check()
    with job.open_manifest(lambda: job.listed().paths) as manifest:  # tasks do not list the images while this runs
        return _follow_tasks(job, manifest, where, fail_on_bad)


def _follow_tasks(job: PartsJob, manifest: "Manifest", where: ExecutorOptions, fail_on_bad: bool) -> PredictionSummary:
    """Start the tasks for the missing parts, and wait for them."""
    files, reporter = PartsLayout(job.folder.absolute()), Reporter()
    before = files.finished()
    num_left = manifest.num_parts - len(before)
    reporter.notice(f"{len(before):,} of {manifest.num_parts:,} parts are there ({manifest.num_rows:,} images in all)")
    tasks = [PartsTask(Path.cwd(), job)] * min(where.jobs or 1, num_left)
    if tasks:
        kind = "task" if len(tasks) == 1 else "tasks"
        reporter.notice(f"{len(tasks):,} {kind} of {where.executor.upper()}; their logs are in {files.jobs_dir}")
        files.jobs_dir.mkdir(exist_ok=True)
        with cluster_of(where.executor).started(files.jobs_dir, tasks, where.cluster_options) as (names, alive):
            _follow(files, manifest, names, alive, reporter)
    summary = _summary(files, manifest, before)
    num_missing = manifest.num_parts - len(files.finished())
    if num_missing:
        raise BadInputsError(
            f"the tasks have ended, and {num_missing:,} of {manifest.num_parts:,} parts are missing",
            f"see the logs in {files.jobs_dir}; the same command computes what is missing",
        )
    reporter.line(f"{count_of(summary.num_files, 'row')} in {job.folder}")
    check_labeled(summary, fail_on_bad)
    reporter.next_command(merge_command(job.folder))
    return summary


def _follow(files: PartsLayout, manifest: "Manifest", names: Sequence[str], alive: Alive, reporter: Reporter) -> None:
    """Wait until all parts are there, or all tasks have ended; the progress counts the parts."""
    gone_since: float | None = None
    with ProgressReport(reporter, "part") as progress:
        while True:
            num_there = len(files.finished())
            progress.update(num_there, manifest.num_parts)
            if num_there >= manifest.num_parts:
                return
            if alive(names):
                gone_since = None
            elif gone_since is None:
                gone_since = time.monotonic()
            elif time.monotonic() - gone_since > _GRACE:
                return
            time.sleep(_POLL)


def _summary(files: PartsLayout, manifest: "Manifest", before: Collection[str]) -> PredictionSummary:
    """Counts of the parts that were not there before."""
    import pyarrow.parquet as pq

    from vit.inference.rows import LABELS

    statuses, labels = Counter[str](), Counter[str]()
    for number in range(manifest.num_parts):
        path = files.part_path(number)
        if path.name in before or not path.is_file():
            continue
        answer = "label" if "label" in pq.read_schema(path).names else LABELS  # one class, or a list of labels
        table = pq.read_table(path, columns=["status", answer])
        statuses.update(table["status"].to_pylist())
        for found in filter(None, table[answer].to_pylist()):
            labels.update([found] if isinstance(found, str) else found)
    unlabeled = sum(count for status, count in statuses.items() if status not in DECIDED)
    return PredictionSummary(files.path, None, statuses.total(), unlabeled, statuses["unsure"], dict(labels))
