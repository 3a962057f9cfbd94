"""`vit report STUDY|CROSSVAL|RUN`: the findings of a study, or the page of a run or cross-validation"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vit.commands.cli.arguments import StrPath, fraction, path_text
from vit.commands.cli.command_line import Metavar
from vit.commands.comparing.crossval_report import report_crossval
from vit.commands.studies.study_report import report_findings
from vit.console import Reporter
from vit.errors import UsageError, VitError
from vit.layout import CrossvalLayout, RunLayout, StudyLayout
from vit.registry import PRETRAINING_PAGE

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory
    from vit.data.core.samples import Source


def report(
    folder: Annotated[StrPath, Metavar("STUDY|CROSSVAL|RUN")],
    *,
    target: float | str | None = None,
    margin: float | str | None = None,
    root: StrPath | None = None,
) -> Path:
    """Report what a study has found so far, or write the page of a finished run.

    A study gets an answer, a table and a page with figures; this needs neither its data nor a GPU. The page of a run
    has pictures where the images of the run still exist.

    Args:
        folder: a folder that 'vit study', 'vit crossval', 'vit train' or 'vit pretrain' wrote
        target: for a study: an accuracy; the report estimates how many training images it needs
        margin: for a study: errors that differ by less count as equal, such as 0.01; null: 0.02
        root: for a run: folder of torchvision data sets; null: the folder of the training

    Returns:
        The page.

    Raises:
        VitError: the folder is not a study or a run, or nothing in it is finished.

    Example:
        vit report studies/photos --target 0.95
    """
    accuracy, least = fraction("--target", target), fraction("--margin", margin)
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise UsageError(
            f"there is no folder {path}", "give a folder that 'vit study', 'vit crossval' or 'vit train' made"
        )
    is_run, crossval = RunLayout(path).config_path.is_file(), CrossvalLayout(path)
    is_crossval = crossval.description_path.is_file()
    given = [name for name, value in (("--target", accuracy), ("--margin", least)) if value is not None]
    if (is_run or is_crossval) and given:
        raise UsageError(
            f"{given[0]} is for studies, and {path} is a {'run' if is_run else 'cross-validation'}", "leave it out"
        )
    if is_crossval:
        report_crossval(Reporter(), path)
        return crossval.report_path
    if is_run:
        return _report_run(Reporter(), path, root)
    report_findings(Reporter(), path, accuracy, least)
    return StudyLayout(path).report_path


def _report_run(reporter: Reporter, path: Path, root: StrPath | None) -> Path:
    from vit.checkpoints.run import RunDirectory
    from vit.report.run.run_page import write_run_report
    from vit.report.run.run_pictures import describe_changed

    run = RunDirectory.open(path)
    if run.is_pretraining:
        return _report_pretraining(reporter, run)
    num_changed = write_run_report(run, _source(reporter, run, root))
    if num_changed:
        reporter.notice(describe_changed(num_changed))
    reporter.facts([("report", str(run.report_path))])
    reporter.next_command(f"vit predict {shlex.quote(str(path))} FOLDER_OF_IMAGES --gallery")
    return run.report_path


def _report_pretraining(reporter: Reporter, run: "RunDirectory") -> Path:
    PRETRAINING_PAGE.load()(run)
    reporter.facts([("report", str(run.report_path))])
    reporter.next_command(f"vit train DATA --init_from {shlex.quote(str(run.path))}")
    return run.report_path


def _source(reporter: Reporter, run: "RunDirectory", root: StrPath | None) -> "Source | None":
    """The images of the run, or None and a notice where they cannot be opened."""
    from vit.commands.cli.recipe_options import read_recipe
    from vit.training.running.run_images import images_of_run

    try:
        return images_of_run(run, read_recipe(run.config_path), path_text(root))
    except VitError as error:
        reporter.notice(f"the page has no pictures: {error}")
        return None
