"""The tables and the curve of a study in the trackers of its cells"""

from typing import TYPE_CHECKING

from vit.commands.study_plan import StudyPlan
from vit.console import Reporter

if TYPE_CHECKING:
    from vit.study.findings import Findings

_TITLES = ("series", "training images", "test error", "low", "high", "seeds")


def track_findings(plan: StudyPlan, findings: "Findings", reporter: Reporter) -> None:
    """Show results, errors with intervals, and the curve, in a run of the study itself.

    The run goes on where the study is continued. Its tables hold numbers and names of networks, no images.
    """
    from vit.csv_files import read_table
    from vit.training.tracking.open import open_trackers
    from vit.training.tracking.tracker import NUMBERS_ALONE, Tracking

    if not plan.cells:
        return
    folder = plan.folder
    name = folder.path.name
    told = Tracking(folder.path, folder.path, name, name, plan.protocol, NUMBERS_ALONE)
    tracker = open_trackers(plan.cells[0].recipe, told, reporter.notice)
    rows = [
        (series.name, point.num_images, point.mean.value, point.mean.low, point.mean.high, len(point.seeds))
        for series in findings.series
        for point in series.points
    ]
    tracker.table("study/errors", _TITLES, rows)
    tracker.table("study/results", *read_table(folder.results_path))
    tracker.figure("study/curve", folder.curve_path)
    tracker.finish()
