"""The cells of a study, trained with progress on the terminal, on this machine or on a cluster"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from vit.commands.study_plan import StudyPlan
from vit.commands.study_progress import StudyProgress
from vit.console import Reporter, count_of, duration
from vit.errors import StoppedError

if TYPE_CHECKING:
    from vit.study.grid import Cell
    from vit.study.runner import Event


def train_cells(plan: StudyPlan, reporter: Reporter) -> int:
    """Run this machine's cells; returns the number of failed cells.

    Cells for which the time of the study does not suffice are left out, and the study's list of cells forgets them.
    """

    cells, folder = plan.own_cells, plan.folder
    folder.describe(plan.cells, plan.protocol)
    num_images = {split: len(samples) for split, samples in plan.source.splits.items()}
    progress = StudyProgress(reporter, folder.path, cells, num_images, cells)
    clock = _Clock(plan, progress.notify)
    try:
        _run(plan, clock.ordered(cells), clock)
    except KeyboardInterrupt as error:
        raise StoppedError(130, "interrupted", "to continue, give the same command again") from error
    finally:
        progress.close()
    if clock.left_out:
        folder.forget({cell.folder for cell in clock.left_out})
        longer = duration(1.5 * (plan.seconds or 0.0)).replace(" ", "")
        reporter.notice(
            f"{duration(plan.seconds or 0.0)} are over: {count_of(len(clock.left_out), 'training')} did not start, "
            f"such as {clock.left_out[0].words()}; the same command with --time {longer} adds them"
        )
    return progress.num_failed


class _Clock:
    """Keeps a study within its time: cells start in the order of the design, as long as they are expected to end.

    Args:
        notify: receiver of the events of cells.

    Attributes:
        left_out: cells that did not start.
    """

    def __init__(self, plan: StudyPlan, notify: "Callable[[Cell, Event], None]") -> None:
        self.plan, self._receiver = plan, notify
        self.left_out: list[Cell] = []
        self._began: dict[str, float] = {}  # by the folder of a cell
        self._expected = self._taken = 0.0  # seconds of all cells that have ended
        self._decided: dict[tuple[int, int], bool] = {}  # all networks of a size and seed start, or none

    def ordered(self, cells: "Sequence[Cell]") -> "list[Cell]":
        """The cells in the order of the design; in the given order where no time decides."""
        design = self.plan.design
        if design is None:
            return list(cells)
        rungs = list(design.order)

        def rank(cell: "Cell") -> int:
            number = self.plan.seeds[cell.num_images].index(cell.seed) + 1
            return next((at for at, (size, most) in enumerate(rungs) if size == cell.num_images and number <= most), -1)

        return sorted(cells, key=rank)

    def notify(self, cell: "Cell", event: "Event") -> None:
        """Take note of the time of a cell."""
        self._receiver(cell, event)
        if event == "started":
            self._began[cell.folder] = time.monotonic()
        elif event == "done" and self.plan.pace is not None:
            self._taken += time.monotonic() - self._began[cell.folder]
            self._expected += self.plan.pace.seconds(cell.series, cell.recipe)

    def may_start(self, cell: "Cell") -> bool:
        """Whether the cells of this size and seed are expected to end in time. Those of the first rung always start."""
        plan = self.plan
        if plan.design is None or plan.pace is None or plan.seconds is None:
            return True
        key = cell.num_images, cell.seed
        if key not in self._decided:
            slower = self._taken / self._expected if self._expected else 1.0
            group = [one for one in plan.cells if (one.num_images, one.seed) == key]
            needed = slower * sum(plan.pace.seconds(one.series, one.recipe) for one in group) / plan.pace.slots
            first = [size for size, _ in plan.design.order[:1]]
            is_first = cell.num_images in first and cell.seed in plan.seeds[cell.num_images][: plan.design.order[0][1]]
            self._decided[key] = is_first or time.monotonic() + needed <= plan.began + plan.seconds
        if not self._decided[key]:
            self.left_out.append(cell)
        return self._decided[key]


def _run(plan: StudyPlan, cells: "Sequence[Cell]", clock: _Clock) -> None:
    """Run cells where the study's executor says."""
    from vit.study.executors import run_cells_on

    options, digests = plan.options, plan.contents.by_path(plan.source)
    where = (options.executor, plan.folder.path, cells, options.cluster_options, options.jobs, digests)
    run_cells_on(*where, clock.notify, clock.may_start)
