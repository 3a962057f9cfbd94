"""`vit report STUDY`: what a study's finished cells say, as a table, a page and files; at any time, on any machine."""

from collections.abc import Sequence
from pathlib import Path

from jsonargparse.typing import OpenUnitInterval

from vit.commands.arguments import Parser, parse
from vit.commands.study_report import report_findings
from vit.console import Reporter
from vit.errors import UsageError


def report(arguments: Sequence[str]) -> int:
    """Summarise a study's folder, write its results, summary, curve and page, and print the verdict."""
    parser = Parser(
        "report",
        "Say what a study found so far: a verdict, a table, and a page with figures. Needs no data and no GPU.",
        "vit report studies/photos --target 0.95",
    )
    parser.add_argument("study", metavar="STUDY", type=str, help="a folder that 'vit study' made")
    parser.add_argument(
        "--target",
        type=OpenUnitInterval | None,
        default=None,
        help="estimate how many training images this accuracy would take; null: do not",
    )
    given = parse(parser, arguments)
    path = Path(given.study).expanduser()
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}", "give a folder that 'vit study' made")
    report_findings(Reporter(), path, None if given.target is None else float(given.target))
    return 0
