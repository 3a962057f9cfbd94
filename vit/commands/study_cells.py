"""The cells of a study, trained with progress on the terminal"""

from vit.commands.study_plan import StudyPlan
from vit.commands.study_progress import StudyProgress
from vit.console import Reporter
from vit.errors import StoppedError


def train_cells(plan: StudyPlan, reporter: Reporter) -> int:
    """Run this machine's cells, at first those that tuning chooses among; returns the number of failed cells."""
    from vit.study.folder import ListedCell, tuned
    from vit.study.runner import run_cells

    cells, folder = plan.own_cells, plan.folder
    folder.describe(plan.cells, plan.protocol)
    group, digests = folder.path.name, plan.contents.by_path(plan.source)
    num_images = {split: len(samples) for split, samples in plan.source.splits.items()}
    progress = StudyProgress(reporter, folder.path, cells, num_images)
    try:
        if any(cell.choice for cell in cells):
            first = {cell.group: cell.seed for cell in reversed(cells)}
            tried = [cell for cell in cells if cell.seed == first[cell.group]]
            run_cells(folder.path, tried, plan.machine, group, digests, progress.notify)
            choices = tuned(folder, [ListedCell.of(cell) for cell in cells])
            cells = [cell for cell in cells if choices.get(cell.group) == cell.choice]
            progress.expect(cells)
        run_cells(folder.path, cells, plan.machine, group, digests, progress.notify)
    except KeyboardInterrupt as error:
        raise StoppedError(130, "interrupted", "to continue, give the same command again") from error
    finally:
        progress.close()
    return progress.num_failed
