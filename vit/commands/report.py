"""`vit report STUDY|RUN`: what a study or a run found, as a page and files; at any time, from its folder alone."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.arguments import fraction, parse
from vit.commands.parser import Parser
from vit.commands.study_report import report_findings
from vit.console import Reporter
from vit.errors import UsageError, VitError

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory
    from vit.data.samples import Source


def report(arguments: Sequence[str]) -> int:
    """Summarize a study: results, summary, curve, page and verdict; or write the page of a run."""
    parser = Parser(
        "report",
        "Say what a study found so far: a verdict, a table, and a page with figures; it needs no data and no GPU. "
        "Or write the page of a finished run, with pictures where its images still are.",
        "vit report studies/photos --target 0.95",
    )
    parser.add_argument("folder", metavar="STUDY|RUN", type=str, help="a folder that 'vit study' or 'vit train' made")
    parser.add_argument(
        "--target",
        type=float | str | None,
        default=None,
        help="of a study: estimate how many training images this accuracy would take; null: do not",
    )
    parser.add_argument(
        "--root", type=str | None, default=None, help="of a run: folder of torchvision data sets; null: as in training"
    )
    given = parse(parser, arguments)
    target = fraction("--target", given.target)
    path = Path(given.folder).expanduser()
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}", "give a folder that 'vit study' or 'vit train' made")
    if not (path / "config.yaml").is_file():
        report_findings(Reporter(), path, target)
        return 0
    if target is not None:
        raise UsageError(f"--target is for studies, and {path} is a run", "leave it out")
    _report_run(Reporter(), path, given.root)
    return 0


def _report_run(reporter: Reporter, path: Path, root: str | None) -> None:
    from vit.checkpoints.run import RunDirectory
    from vit.report.run_page import write_run_report

    run = RunDirectory.open(path)
    write_run_report(run, _source(reporter, run, root))
    reporter.facts([("report", str(run.report))])
    reporter.next_command(f"vit predict {shlex.quote(str(path))} FOLDER_OF_IMAGES --gallery")


def _source(reporter: Reporter, run: "RunDirectory", root: str | None) -> "Source | None":
    """The run's images, or None and a notice where they cannot be had any more."""
    from vit.commands.recipe_options import read_recipe
    from vit.training.run_images import images_of_run

    try:
        return images_of_run(run, read_recipe(run.config), root)
    except VitError as error:
        reporter.notice(f"the page has no pictures: {error}")
        return None
