"""The cells of a study, trained with progress on the terminal, on this machine or on a cluster"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vit.commands.study_plan import StudyPlan
from vit.commands.study_progress import StudyProgress
from vit.console import Reporter
from vit.errors import StoppedError

if TYPE_CHECKING:
    from vit.study.grid import Cell
    from vit.study.runner import Event


def train_cells(plan: StudyPlan, reporter: Reporter) -> int:
    """Run this machine's cells; returns the number of failed cells."""

    cells, folder = plan.own_cells, plan.folder
    folder.describe(plan.cells, plan.protocol)
    num_images = {split: len(samples) for split, samples in plan.source.splits.items()}
    progress = StudyProgress(reporter, folder.path, cells, num_images, cells)
    try:
        _run(plan, cells, progress.notify)
    except KeyboardInterrupt as error:
        raise StoppedError(130, "interrupted", "to continue, give the same command again") from error
    finally:
        progress.close()
    return progress.num_failed


def _run(plan: StudyPlan, cells: "Sequence[Cell]", notify: "Callable[[Cell, Event], None]") -> None:
    """Run cells where the study's executor says."""
    from vit.study.executors import run_cells_on

    options, digests = plan.options, plan.contents.by_path(plan.source)
    run_cells_on(options.executor, plan.folder.path, cells, options.cluster_options, options.jobs, digests, notify)
