"""`vit runs [FOLDER]`: all runs below a folder, with their accuracies"""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vit.commands.cli.arguments import PositiveInt, StrPath, new_file, new_page
from vit.console import Reporter, count_of, duration, interval
from vit.csv_files import new_output
from vit.errors import UsageError
from vit.layout import CellsLayout

if TYPE_CHECKING:
    from vit.checkpoints.run_list import RunSummary

Order = Literal["newest", "accuracy", "data", "network", "time"]
_COLUMNS = (
    "path", "state", "started", "data", "network", "images", "accuracy", "low", "high", "seconds", "problem", "metric",
)  # fmt: skip
_KEYS: "dict[Order, Callable[[RunSummary], tuple[object, ...]]]" = {
    "newest": lambda run: (),
    "accuracy": lambda run: (-run.accuracy[0] if run.accuracy else 1.0,),
    "data": lambda run: (run.data,),
    "network": lambda run: (run.network,),
    "time": lambda run: (-(run.seconds or 0.0),),
}


def runs(
    folder: StrPath = "runs",
    *,
    only: str = "",
    sort: Order = "newest",
    limit: PositiveInt = 40,
    output: StrPath | None = None,
    page: StrPath | None = None,
) -> "list[RunSummary]":
    """List the runs below a folder: data, network, accuracy with its interval, time, and state.

    The accuracy of a run with several labels for an image is the exact match. Runs inside studies and cross-validations
    are not listed. 'vit report FOLDER' shows what they found, and 'vit runs FOLDER/cells' lists them.

    Args:
        folder: folder of runs, as --out of 'vit train'
        only: words that must all occur in path, state, day, data or network of a run
        sort: newest, accuracy (highest first), data, network, or time (longest first)
        limit: largest number of lines on the terminal
        output: new CSV with all of these runs; null: none
        page: new HTML page with all of these runs, to sort and to filter; null: none

    Returns:
        The runs in their order.

    Example:
        vit runs runs/photos --sort accuracy
    """
    from vit.checkpoints.run_list import first_study, list_runs, metric_text

    place = Path(folder).expanduser()
    if not place.is_dir():
        raise UsageError(f"there is no folder {place}", "give the folder of your runs: vit runs FOLDER")
    table_file = None if output is None else new_file(output)
    page_file = new_page(page, table_file)
    listed = sorted((run for run in list_runs(place) if run.has_words(only)), key=lambda run: run.started, reverse=True)
    if not listed:
        words = f" with the words {only!r}" if only else ""
        if only or (study := first_study(place)) is None:
            raise UsageError(f"{place} has no run{words}", "start one: vit train DATA")
        report, cells = (shlex.quote(str(path)) for path in (study, CellsLayout(study).cells_dir))
        fix = f"see them with 'vit report {report}', or list their runs: vit runs {cells}"
        raise UsageError(f"{place} has no run outside of studies and cross-validations", fix)
    listed.sort(key=_KEYS[sort])
    reporter = Reporter()
    columns = ("started", "data", "network", "images", metric_text(listed[:limit]), "time", "run")
    in_path = ("started", "network", "data")  # a run folder is named by them: runs/DATA/NETWORK/START
    reporter.table(columns, map(_row, listed[:limit]), spare=(*in_path, "time", "images"))
    if len(listed) > limit:
        reporter.line(f"... and {len(listed) - limit:,} more; raise --limit, or give --only words")
    for run in (run for run in listed if run.problem):
        reporter.warn(f"{run.path}{' is damaged' * (run.state == 'damaged')}: {run.problem}")
    if table_file is not None:
        with new_output(table_file, _COLUMNS) as table:
            for run in listed:
                around = run.accuracy or ("", "", "")
                images = "" if run.images is None else run.images
                seconds = "" if run.seconds is None else f"{run.seconds:.1f}"
                names = (run.path, run.state, run.started, run.data, run.network)
                table.row((*map(str, names), images, *around, seconds, run.problem, run.metric))
        reporter.line(f"\n{count_of(len(listed), 'row')} in {table_file}")
    if page_file is not None:
        from vit.report.run.runs_page import write_runs_page

        write_runs_page(page_file, place, listed)
        reporter.line(f"\npage in {page_file}")
    reporter.next_command(_next(listed))
    return listed


def _row(run: "RunSummary") -> tuple[str, ...]:
    accuracy = run.state if run.accuracy is None else interval(*run.accuracy)
    images = "" if run.images is None else f"{run.images:,}"
    time = "" if run.seconds is None else duration(run.seconds)
    return (run.started, run.data, run.network, images, accuracy, time, str(run.path))


def _next(listed: "Sequence[RunSummary]") -> str:
    from vit.checkpoints.run import RunDirectory

    best = max(listed, key=lambda run: (run.accuracy is not None, not run.problem, run.accuracy or ()))
    if best.accuracy:
        return f"vit predict {shlex.quote(str(best.path))} FOLDER_OF_IMAGES"
    stopped = (RunDirectory(run.path) for run in listed if run.state == "stopped")
    return next((run.how_to_resume for run in stopped if run.can_resume), "vit train DATA")
