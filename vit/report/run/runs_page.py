"""The page of `vit runs`: a table of all runs, to sort and to filter"""

import os
from collections.abc import Sequence
from pathlib import Path

from vit.checkpoints.run_list import RunSummary, metric_text
from vit.console import duration, interval
from vit.layout import RunLayout
from vit.report.page.page import link_to, scripts, write_new_page


def write_runs_page(path: Path, folder: Path, found: Sequence[RunSummary]) -> None:
    """Write a page with a row for each run, which links to its report. ResourceError where it cannot be written."""
    rows = []
    for run in found:
        report = RunLayout(run.path).report_path
        rows.append({
            "run": run,
            "accuracy": "" if run.accuracy is None else interval(*run.accuracy),
            "value": "" if run.accuracy is None else f"{run.accuracy[0]:.6f}",
            "time": "" if run.seconds is None else duration(run.seconds),
            "link": f"./{link_to(report, path)}" if report.is_file() else "",
            "name": os.path.relpath(run.path, folder),
        })  # fmt: skip
    content = {"folder": str(folder), "rows": rows, "metric": metric_text(found), **scripts("table.js")}
    write_new_page(path, "runs.html", content)
