"""`vit study DATA`: networks, numbers of images and seeds; which network is better with how many images"""

from collections.abc import Sequence
from pathlib import Path

from vit.commands.cli.arguments import StrPath, without_dry_run
from vit.commands.studies.study_cells import train_cells
from vit.commands.studies.study_estimate import check_time, show_estimate, show_study, with_design
from vit.commands.studies.study_frozen import compare_with_frozen, frozen_first
from vit.commands.studies.study_options import StudyOptions, read_values, read_words
from vit.commands.studies.study_plan import StudyPlan, make_study_plan
from vit.commands.studies.study_report import report_findings, track_findings
from vit.console import Reporter
from vit.errors import UsageError

FAILED_CELLS = 5  # exit code


def study(data: StrPath | None = None, *, config: StrPath | None = None, **options: object) -> Path:
    """Compare networks over growing numbers of training images, with several seeds, and report with intervals.

    Finished cells of the same study are not trained again.

    Args:
        data: images as `vit.train` takes them; None: the data of the recipes.
        config: YAML file of a study, or the name of a shipped study.
        options: options of `vit study` by their names: networks=["vit_tiny_cifar", "resnet18_cifar"],
            sizes=[100, 300, "all"], seeds=5, budget="steps:2000", vary={"model.network.pool": ["cls", "mean"]},
            set={"optim.lr": 0.001}, `**{"data.root": "sets/"}`.

    Returns:
        The folder of the study, which `vit.report` takes. Its report names cells that have failed.

    Raises:
        VitError: an option, the data or the machine does not allow the study, or no cell is finished.

    Example:
        vit.study("photos/", seeds=5)
    """
    from vit.study.running.runner import end_if_imported

    end_if_imported()
    given = read_values(data, config, options)
    if given.dry_run:
        raise UsageError("a dry run leaves no study folder", "leave dry_run out, or use the command line")
    plan, _ = run_study(given, Reporter())
    return plan.folder.path


def main(words: Sequence[str]) -> int:
    """`vit study`: `study` with the options of a command line; returns the exit code."""
    options, reporter = read_words(words), Reporter()
    _, num_failed = run_study(options, reporter)
    if options.dry_run:
        reporter.next_command(f"vit study {without_dry_run(words)}")
    return FAILED_CELLS if num_failed else 0


def run_study(options: StudyOptions, reporter: Reporter) -> tuple[StudyPlan, int]:
    """Run the cells without a result, then write the report; returns the plan and the number of failed cells."""
    plan = make_study_plan(options, reporter)
    if plan.is_by_time:
        plan = with_design(plan, reporter)
    show_study(reporter, plan)
    if options.dry_run:
        show_estimate(reporter, plan)
        return plan, 0
    check_time(reporter, plan)

    from vit.checkpoints.locking import alone

    folder = plan.folder
    frozen_first(plan, reporter)
    num_failed = train_cells(plan, reporter)
    with alone(folder.lock_path):  # of shards that end together, the last one reports the cells of all
        findings = report_findings(reporter, folder.path, options.accuracy, options.least_difference)
        compare_with_frozen(plan, findings, reporter)
        track_findings(plan, findings, reporter)
    return plan, num_failed
