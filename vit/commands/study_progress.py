"""The progress of a study on the terminal"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.console import ProgressReport, Reporter, duration, percent
from vit.layout import RunLayout

if TYPE_CHECKING:
    from vit.study.grid import Cell
    from vit.study.runner import Event


class StudyProgress:
    """Shows the start and the end of cells, and counts failures.

    Args:
        study: folder of the study.
        cells: cells to run.
    """

    def __init__(self, reporter: Reporter, study: Path, cells: "Sequence[Cell]") -> None:
        self.reporter, self.study = reporter, study
        self.progress = ProgressReport(reporter, "cell")
        self.num_running = self.num_done = self.num_failed = self.images_shown = 0
        self.expect(cells)

    def expect(self, cells: "Sequence[Cell]") -> None:
        """Count the cells without a result."""
        left = [cell for cell in cells if not RunLayout(self.study / cell.folder).result_path.is_file()]
        self.total = self.num_done + self.num_failed + len(left)
        self.total_images_shown = self.images_shown + sum(cell.images_shown for cell in left)
        if len(left) < len(cells) and not self.num_done:
            self.reporter.notice(f"{len(cells) - len(left):,} of {len(cells):,} cells were done before")

    def notify(self, cell: "Cell", event: "Event") -> None:
        """Show that a cell has started or ended."""
        if event == "started":
            self.num_running += 1
        else:
            self.num_running -= 1
            self.images_shown += cell.images_shown
            self.num_done += event == "done"
            self.num_failed += event == "failed"
            ended = self.num_done + self.num_failed
            self.reporter.notice(f"{ended}/{self.total}  {cell.words()}: {self._outcome(cell, event)}")
        words = f"{self.num_running} running, {self.num_failed} failed"
        share = self.images_shown / self.total_images_shown
        self.progress.update(self.num_done + self.num_failed, self.total, words, share=share)

    def close(self) -> None:
        """Remove the progress bar."""
        self.progress.close()

    def _outcome(self, cell: "Cell", event: "Event") -> str:
        from vit.checkpoints.run import RunDirectory

        run = RunDirectory(self.study / cell.folder)
        if event == "failed":
            return f"FAILED: {run.failure_path.read_text(encoding='utf-8').strip()} (see {run.log_path})"
        result = run.read_result()
        assert result is not None
        name = "accuracy" if result.multilabel is None else "exact match"
        return f"{percent(result.accuracy)} test {name}, {duration(result.seconds)}"
