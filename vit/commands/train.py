"""`vit train DATA`: from images to a classifier in a run folder"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.arguments import StrPath, without_dry_run
from vit.commands.one_process import in_one_process
from vit.commands.reading import find_bursts, read_images, read_together
from vit.commands.resuming import further_recipe, newest_for_all
from vit.commands.run_folder import draw_or_notice, open_run, tracker_of
from vit.commands.starting import find_start
from vit.commands.train_estimate import Estimate
from vit.commands.train_options import TrainOptions, read_values, read_words
from vit.commands.train_plan import show_plan, warn_of_seen, warn_of_space
from vit.commands.train_progress import TrainProgress, show_result
from vit.commands.train_trials import TrialResult, run_trials
from vit.console import Reporter
from vit.errors import BadInputsError, DisagreementError, StoppedError, UsageError
from vit.launch import is_first
from vit.training.recipes.values import dump

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory, RunPath
    from vit.training.planning.plan import Plan
    from vit.training.result import FitResult
    from vit.training.tracking.tracker import Tracker


def train(
    data: StrPath | None = None,
    *,
    config: StrPath | Sequence[StrPath] | None = None,
    resume: StrPath | None = None,
    **options: object,
) -> "RunPath":
    """Train a classifier on labeled images, and leave a run folder with checkpoints, result and report.

    Args:
        data: a folder of class folders, a folder with train/ and test/, a CSV with path,label[,split], "digits", or the
            name of a torchvision data set; None: the recipe's.
        config: recipe files, or names of shipped recipes; a later one stands above an earlier one.
        resume: unfinished run to resume; "auto": the newest one below `out` that has these options, else a new run.
        options: options of the recipe by their names on the command line: network="resnet18", epochs=30, seed=1. A name
            with dots is given as `**{"model.network.pos_embed": "none"}`. One device trains, unless torchrun has
            started the program.

    Returns:
        The run folder, which `vit.load` takes, as a path whose `result` is what the training found.

    Raises:
        VitError: an option, the data or the machine does not allow the training, or the training ended early.

    Example:
        vit.train("photos/", network="vit_tiny_patch16_224", epochs=30)
    """
    run = run_training(in_one_process(read_values(data, config, resume, options)))
    if run is None:
        raise UsageError("a dry run leaves no run folder", "leave dry_run out, or use the command line")

    from vit.checkpoints.run import RunPath

    return RunPath(run.path)


def main(words: Sequence[str]) -> int:
    """`vit train`: `train` with the options of a command line, which may also ask for the plan or the recipe alone.

    Returns:
        The exit code.

    Raises:
        BadInputsError: the training is finished, but validation or test images could not be read.
    """
    options = read_words(words)
    run = run_training(options)
    if options.dry_run:
        Reporter().next_command(f"vit train {without_dry_run(words)}".rstrip())
    if run is None:
        return 0

    from vit.training.run_images import count_left_out

    bad = count_left_out(run)
    if bad:
        raise BadInputsError(
            f"{bad:,} of the validation and test images cannot be read or measured",
            f"see left_out in {run.result_path}",
        )
    return 0


def run_training(options: TrainOptions) -> "RunDirectory | None":
    """Carry a training out; None where it was only to be shown."""
    if options.print_config:
        parent = options.parent
        recipe = options.given.recipe() if parent is None else further_recipe(parent, options.given)
        print(dump(recipe), end="")
        return None
    began = time.monotonic()
    reporter = Reporter(quiet=not is_first())
    start = find_start(options, reporter)

    from vit.checkpoints.run import RunDirectory
    from vit.training.beginning import check_unchanged
    from vit.training.distributed.devices import device_and_world_size
    from vit.training.distributed.meeting import Meeting
    from vit.training.planning.plan import make_plan
    from vit.training.seen_before import seen_before

    if not options.names_data:
        reporter.notice("no DATA is given: digits are trained on, which come with the installation")
    # kept until the end: the training itself meets in its store
    meeting = start.meeting or Meeting(device_and_world_size(start.recipe)[1])
    find_bursts(start.listed, start.recipe.data, reporter, meeting)
    plan = make_plan(start.recipe, start.listed)
    if options.run is None and plan.device.type == "cpu" and (note := options.given.note_for_cpu()):
        reporter.notice(note)
    if options.dry_run:
        warn_of_seen(reporter, seen_before(plan.recipe, plan.source, read_images(plan.source, reporter)))
        show_plan(reporter, plan, "none: a dry run trains nothing", start.why)
        return None
    resumed = options.run
    if options.resume is not None and resumed is None:
        resumed, plan = newest_for_all(plan, meeting, start.listed, reporter)
    contents = read_together(plan.source, reporter, meeting)
    if contents is not None:
        plan = replace(plan, seen_before=seen_before(plan.recipe, plan.source, contents))
        warn_of_seen(reporter, plan.seen_before)
    decided = run_trials(plan, began, reporter)
    plan = decided.plan
    with ExitStack() as lock:

        def decide() -> str:
            assert contents is not None
            if options.parent is not None:
                check_unchanged(RunDirectory(options.parent), plan.source, contents, may_have_moved=True)
            return str(open_run(plan, resumed, contents, lock, plan.recipe.name).path)

        run = RunDirectory(Path(meeting.decided("run", decide)))
        show_plan(reporter, plan, str(run.path), start.why)
        if is_first():
            warn_of_space(reporter, plan, run)
        _train(decided, run, resumed is not None, reporter)
    return run


def _train(decided: TrialResult, run: "RunDirectory", resume: bool, reporter: Reporter) -> None:
    """Train into a run folder, and on the first process write and show the result."""
    from vit.report.run_figures import write_classes
    from vit.training.finish import TrackedRows, finish
    from vit.training.fit import fit
    from vit.training.tracking.tracker import tracked

    plan = decided.plan
    tracker = tracker_of(plan, run, reporter)
    progress = TrainProgress(reporter, plan.validation_name, plan.rounds, plan.recipe.optim.best_metric)
    try:
        with tracked(tracker):
            fitted = fit(plan, run, [TrackedRows(tracker), progress, Estimate(plan, reporter)], resume, decided.data)
    except (StoppedError, DisagreementError):
        if is_first():
            raise
        return  # the first process says it; a launcher that sees another code first would cut that short
    finally:
        progress.close()
    if not fitted.is_first_process:
        return

    def write_others() -> None:
        write_classes(run, fitted, plan.source.class_names)
        _draw(reporter, run, plan, fitted, tracker)

    finish(run, fitted, tracker, write_others, plan.recipe.trainer.keep_state)
    show_result(reporter, run, fitted.result)


def _draw(reporter: Reporter, run: "RunDirectory", plan: "Plan", fitted: "FitResult", tracker: "Tracker") -> None:
    """Draw figures and page."""

    def draw() -> None:
        from vit.report.run_figures import draw_run
        from vit.report.run_page import write_run_report

        draw_run(run, plan, fitted, tracker)
        write_run_report(run, plan.source, fitted.result)

    draw_or_notice(reporter, run, draw)
