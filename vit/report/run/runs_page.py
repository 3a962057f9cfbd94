"""The page of `vit runs`: a table of all runs, to sort and to filter"""

import os
from collections.abc import Sequence
from pathlib import Path

from vit.checkpoints.run_list import RunSummary, metric_text
from vit.console import duration, interval
from vit.errors import ResourceError
from vit.layout import RunLayout
from vit.report.page.page import link_to, scripts, write_page


def write_runs_page(path: Path, folder: Path, found: Sequence[RunSummary]) -> None:
    """Write a page with a row for each run, which links to the report of the run.

    Raises:
        ResourceError: the page cannot be written.
    """
    rows = [
        {
            "run": run,
            "accuracy": "" if run.accuracy is None else interval(*run.accuracy),
            "value": "" if run.accuracy is None else f"{run.accuracy[0]:.6f}",
            "time": "" if run.seconds is None else duration(run.seconds),
            "link": _link(path, run),
            "name": os.path.relpath(run.path, folder),
        }
        for run in found
    ]
    content = {"folder": str(folder), "rows": rows, "metric": metric_text(found), **scripts("table.js")}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, "runs.html", content)
    except OSError as error:
        raise ResourceError(f"cannot write {path}: {error.strerror}", "choose another --page") from error


def _link(page: Path, run: RunSummary) -> str:
    """The address of a run's report, relative to the page; "" where it has none."""
    report = RunLayout(run.path).report_path
    return f"./{link_to(report, page)}" if report.is_file() else ""
