"""The progress of a study on the terminal"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.console import ProgressReport, Reporter, count_of, duration, percent
from vit.csv_files import records
from vit.layout import CELLS, RunLayout
from vit.training.planning.schedule import choose_schedule

if TYPE_CHECKING:
    from vit.study.grid import Cell
    from vit.study.runner import Event

HEAD_WORK = 50.0  # fitting a head takes about as long as computing the features of so many images
LEAST = 0.05  # of a cell's work: a cell without a result has its test images to score


class StudyProgress:
    """Shows the start and the end of cells, and counts failures.

    Args:
        study: folder of the study.
        cells: cells that may run.
        num_images: {split: number of images} of the data.
        expected: cells that will run, as far as that is known.
    """

    def __init__(
        self,
        reporter: Reporter,
        study: Path,
        cells: "Sequence[Cell]",
        num_images: Mapping[str, int],
        expected: "Sequence[Cell]",
    ) -> None:
        self.reporter, self.study = reporter, study
        self.progress = ProgressReport(reporter, "cell")
        self.work = {
            cell.folder: work * _share_left(cell, RunLayout(study / cell.folder))
            for cell, work in zip(cells, work_of(cells, num_images), strict=True)
        }
        self.num_running = self.num_done = self.num_failed = 0
        self.work_done = 0.0
        self.expect(expected)
        if self.total < len(expected):
            self.reporter.notice(f"{len(expected) - self.total:,} of {len(expected):,} cells were done before")

    def expect(self, cells: "Sequence[Cell]") -> None:
        """Count the cells that will run, without those that have a result."""
        left = [cell for cell in cells if not RunLayout(self.study / cell.folder).result_path.is_file()]
        self.total = self.num_done + self.num_failed + len(left)
        self.total_work = self.work_done + sum(self.work[cell.folder] for cell in left)

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
            self.reporter.notice(f"{ended}/{self.total}  {cell.words()}: {self._outcome(cell, event)}")
        words = f"{self.num_running} running, {self.num_failed} failed"
        share = self.work_done / self.total_work
        self.progress.update(self.num_done + self.num_failed, self.total, words, share=share)

    def close(self) -> None:
        """Remove the progress bar, and say how the offline runs of all cells are uploaded to Weights & Biases."""
        self.progress.close()
        offline = [run for cell in self.work for run in (self.study / cell / "wandb").glob("offline-run-*")]
        if offline:
            found = {"/".join("*" for _ in Path(cell).parts[1:]) for cell in self.work}
            folders = f"{shlex.quote(str(self.study))}/{CELLS}/{found.pop()}"
            count = count_of(len(offline), "offline run")
            self.reporter.notice(
                f"Weights & Biases has {count} of cells; upload with: wandb sync {folders}/wandb/offline-run-*"
            )

    def _outcome(self, cell: "Cell", event: "Event") -> str:
        from vit.checkpoints.run import RunDirectory

        run = RunDirectory(self.study / cell.folder)
        if event == "failed":
            return f"FAILED: {run.failure_path.read_text(encoding='utf-8').strip()} (see {run.log_path})"
        result = run.read_result()
        assert result is not None
        name = result.task.accuracy_name
        return f"{percent(result.accuracy)} test {name}, {duration(result.seconds)}"


def _share_left(cell: "Cell", run: RunLayout) -> float:
    """How much of a cell is left: none with a result, else what the last row of its metrics leaves, `LEAST` or more."""
    if run.result_path.is_file():
        return 0.0
    try:
        last = records(run.metrics_path)[-1]
        trained = int(last["step"]) / choose_schedule(cell.recipe, cell.num_images, 1).total_steps
    except (OSError, ValueError, LookupError):  # not begun, or a file that its resumption will refuse or write again
        return 1.0
    return min(max(1 - trained, LEAST), 1.0)


def work_of(cells: "Sequence[Cell]", num_images: Mapping[str, int]) -> list[float]:
    """The work of each cell: images that training shows; in a linear probe images that no earlier cell has computed.

    The training images of a seed are drawn by chance, so that the number of new ones is that of a random draw.
    """
    evaluated = sum(count for split, count in num_images.items() if split != "train")
    computed: dict[str, float] = {}  # {series: number of training images}
    found = []
    for cell in cells:
        if cell.recipe.model.freeze != "backbone":
            found.append(float(cell.images_shown))
            continue
        before = computed.get(cell.series, 0.0)
        new = cell.num_images * max(0.0, 1 - before / num_images["train"])
        computed[cell.series] = before + new
        found.append(HEAD_WORK + new + (0 if before else evaluated))
    return found
