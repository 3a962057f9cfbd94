"""The cells of a study, trained with progress on the terminal, on this machine or on a cluster"""

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import ExecutorOptions
from vit.console import ProgressReport, Reporter, count_of, duration, percent
from vit.errors import StoppedError, interruption
from vit.layout import CELLS, RunLayout
from vit.study.running.cluster import run_cells_on

if TYPE_CHECKING:
    from vit.commands.studies.study_plan import StudyPlan
    from vit.study.grid import Cell
    from vit.study.running.runner import Event

HEAD_WORK = 50.0  # fitting a head takes about as long as computing the features of so many images


def train_cells(plan: "StudyPlan", reporter: Reporter) -> int:
    """Run this machine's cells, and forget those without enough time; returns the number of failed cells."""
    plan.folder.describe(plan.cells, plan.protocol)
    progress = _TimedProgress(reporter, plan)
    progress.run(progress.ordered(plan.own_cells), plan.options, plan.contents.by_path(plan.source))
    if left_out := progress.left_out:
        plan.folder.forget({cell.folder for cell in left_out})
        longer = duration(1.5 * (plan.seconds or 0.0)).replace(" ", "")
        over = f"{duration(plan.seconds or 0.0)} are over: {count_of(len(left_out), 'training')} did not start"
        reporter.notice(f"{over}, such as {left_out[0].describe()}; the same command with --time {longer} adds them")
    return progress.num_failed


class StudyProgress:
    """Shows the start and the end of cells, and counts failures."""

    def __init__(self, reporter: Reporter, study: Path, cells: "Sequence[Cell]", num_images: Mapping[str, int]) -> None:
        self.reporter, self.study = reporter, study
        self.progress = ProgressReport(reporter, "cell")
        self.work = work_of(cells, num_images)
        self.num_running = self.num_done = self.num_failed = 0
        self.left_out: list[Cell] = []
        left = [cell for cell in cells if not RunLayout(study / cell.folder).result_path.is_file()]
        self.total, self.work_done = len(left), 0.0
        self.total_work = sum(self.work[cell.folder] for cell in left)
        if len(left) < len(cells):
            reporter.notice(f"{len(cells) - len(left):,} of {len(cells):,} cells were done before")

    def run(self, cells: "Sequence[Cell]", where: ExecutorOptions, digests: Mapping[str, str]) -> None:
        """Run the cells that have no result and may start; StoppedError where Ctrl-C or SIGTERM ends them."""
        on, jobs = where.cluster_options, where.jobs
        try:
            run_cells_on(where.executor, self.study, cells, on, jobs, digests, self.notify, self.may_start)
        except KeyboardInterrupt as error:
            code, word = interruption(error)
            raise StoppedError(code, word, "to continue, give the same command again") from error
        finally:
            self.close()

    def may_start(self, cell: "Cell") -> bool:
        """Whether a cell may start."""
        return True

    def notify(self, cell: "Cell", event: "Event") -> None:
        """Show that a cell has started or ended."""
        if event == "started":
            self.num_running += 1
        else:
            self.num_running -= 1
            self.work_done += self.work[cell.folder]
            self.num_done += event == "done"
            self.num_failed += event == "failed"
            ended = self.num_done + self.num_failed
            self.reporter.notice(f"{ended}/{self.total}  {cell.describe()}: {self._outcome(cell, event)}")
        words = f"{self.num_running} running, {self.num_failed} failed"
        share = self.work_done / self.total_work
        self.progress.update(self.num_done + self.num_failed, self.total, words, share=share)

    def leave_out(self, cell: "Cell") -> None:
        """Expect no longer a cell that does not start."""
        self.left_out.append(cell)
        self.total -= 1
        self.total_work -= self.work[cell.folder]

    def close(self) -> None:
        """Remove the progress bar, and say how the offline runs of all cells are uploaded to Weights & Biases."""
        self.progress.close()
        offline = [run for cell in self.work for run in (self.study / cell / "wandb").glob("offline-run-*")]
        if offline:
            below = "/".join("*" for _ in Path(next(iter(self.work))).parts[1:])
            runs = f"{shlex.quote(str(self.study))}/{CELLS}/{below}/wandb/offline-run-*"
            count = count_of(len(offline), "offline run")
            self.reporter.notice(f"Weights & Biases has {count} of cells; upload with: wandb sync {runs}")

    def _outcome(self, cell: "Cell", event: "Event") -> str:
        from vit.checkpoints.run import RunDirectory

        run = RunDirectory(self.study / cell.folder)
        if event == "failed":
            return f"FAILED: {run.failure_path.read_text(encoding='utf-8').strip()} (see {run.log_path})"
        result = run.finished_result()
        return f"{percent(result.accuracy)} test {result.task.accuracy_name}, {duration(result.seconds)}"


class _TimedProgress(StudyProgress):
    """Keeps a study within its time: cells start in the order of the design, as long as they are expected to end."""

    def __init__(self, reporter: Reporter, plan: "StudyPlan") -> None:
        super().__init__(reporter, plan.folder.path, plan.own_cells, plan.num_images)
        self.plan = plan
        self._began: dict[str, float] = {}  # by the folder of a cell
        self._expected = self._taken = 0.0  # seconds of all cells that have ended
        self._decided: dict[tuple[int, int], bool] = {}  # all networks of a size and seed start, or none
        self._ranks: dict[tuple[int, int], int] = {}  # {(size, seed): place in the order of the design}
        for place, (size, count) in enumerate(() if plan.design is None else plan.design.order):
            for seed in plan.seeds[size][:count]:
                self._ranks.setdefault((size, seed), place)

    def ordered(self, cells: "Sequence[Cell]") -> "Sequence[Cell]":
        """The cells in the order of the design; in the given order where no time decides."""
        return sorted(cells, key=lambda cell: self._ranks.get((cell.num_images, cell.seed), -1))

    def notify(self, cell: "Cell", event: "Event") -> None:
        """Show the event, and take note of the time of the cell."""
        super().notify(cell, event)
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
            self._decided[key] = self._ranks.get(key) == 0 or time.monotonic() + needed <= plan.began + plan.seconds
        if not self._decided[key]:
            self.leave_out(cell)
        return self._decided[key]


def work_of(cells: "Sequence[Cell]", num_images: Mapping[str, int]) -> dict[str, float]:
    """{folder of a cell: its work}: images that training shows; in a linear probe those that no earlier cell computed.

    The training images of a seed are drawn by chance, so that the number of new ones is that of a random draw.
    """
    evaluated = sum(count for split, count in num_images.items() if split != "train")
    computed: dict[str, float] = {}  # {series: number of training images}
    work: dict[str, float] = {}
    for cell in cells:
        if cell.recipe.model.freeze != "backbone":
            work[cell.folder] = float(cell.images_shown)
            continue
        before = computed.get(cell.series, 0.0)
        new = cell.num_images * max(0.0, 1 - before / num_images["train"])
        computed[cell.series] = before + new
        work[cell.folder] = HEAD_WORK + new + (0 if before else evaluated)
    return work
