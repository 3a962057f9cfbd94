"""`vit report STUDY|CROSSVAL|RUN`: the findings of a study, or the page of a run or cross-validation"""

import shlex
from pathlib import Path
from typing import Annotated

from vit.commands.cli.arguments import Fraction, StrPath
from vit.commands.cli.command_line import Metavar
from vit.commands.studies.study_report import report_crossval, report_findings
from vit.console import Reporter
from vit.errors import UsageError
from vit.layout import CrossvalLayout, RunLayout, StudyLayout
from vit.registry import PRETRAINING_PAGE


def report(
    folder: Annotated[StrPath, Metavar("STUDY|CROSSVAL|RUN")],
    *,
    target: Fraction | None = None,
    margin: Fraction | None = None,
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

    Example:
        vit report studies/photos --target 0.95
    """
    path, reporter = Path(folder).expanduser(), Reporter()
    if not path.is_dir():
        fix = "give a folder that 'vit study', 'vit crossval' or 'vit train' made"
        raise UsageError(f"there is no folder {path}", fix)
    crossval = CrossvalLayout(path)
    kind = "run" if RunLayout(path).config_path.is_file() else "study"
    kind = "cross-validation" if crossval.description_path.is_file() else kind
    of_study = [name for name, value in (("--target", target), ("--margin", margin)) if value is not None]
    if kind != "study" and of_study:
        raise UsageError(f"{of_study[0]} is for studies, and {path} is a {kind}", "leave it out")
    if kind != "run" and root is not None:
        raise UsageError(f"--root is for runs, and {path} is a {kind}", "leave it out")
    if kind == "cross-validation":
        report_crossval(reporter, path)
        return crossval.report_path
    if kind == "study":
        report_findings(reporter, path, target, margin)
        return StudyLayout(path).report_path

    from vit.checkpoints.run import RunDirectory
    from vit.commands.measuring.measured_images import images_for_pictures
    from vit.commands.training.train_progress import next_of
    from vit.report.run.run_page import write_run_report
    from vit.report.run.run_pictures import describe_changed

    run = RunDirectory.open(path)
    if run.is_pretraining:
        if root is not None:
            raise UsageError(f"--root is for runs with classes, and {path} is a pretraining", "leave it out")
        PRETRAINING_PAGE.load()(run)
        following = f"vit train DATA --init_from {shlex.quote(str(path))}"
    else:
        if num_changed := write_run_report(run, images_for_pictures(path, root, reporter)):
            reporter.notice(describe_changed(num_changed))
        following = next_of(run, run.finished_result())
    reporter.facts([("report", str(run.report_path))])
    reporter.next_command(following)
    return run.report_path
