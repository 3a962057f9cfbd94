"""`vit train DATA`: from images to a classifier in a run folder"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import StrPath, without
from vit.commands.training.resuming import further_recipe, newest_for_all
from vit.commands.training.run_folder import (
    find_bursts,
    noticed_failure,
    open_run,
    read_images,
    read_on_first,
    tracker_of,
)
from vit.commands.training.train_options import (
    TrainOptions,
    find_start,
    in_one_process,
    read_values,
    read_words,
    unused_options,
)
from vit.commands.training.train_plan import show_plan, warn_of_space
from vit.commands.training.train_progress import TrainProgress, show_result
from vit.console import Reporter, duration
from vit.errors import BadInputsError, DisagreementError, StoppedError, UsageError
from vit.launch import is_first
from vit.training.recipes.values import dump
from vit.training.tracking.tracker import Tracker, tracked

if TYPE_CHECKING:
    from vit.checkpoints.run import RunDirectory, RunPath
    from vit.data.loading.module import ImageDataModule
    from vit.training.planning.plan import Plan
    from vit.training.running.result import FitResult


def train(
    data: StrPath | None = None,
    *,
    config: StrPath | Sequence[StrPath] | None = None,
    resume: StrPath | None = None,
    **options: object,
) -> "RunPath":
    """Train a classifier on labeled images, and leave a run folder with checkpoints, result and report.

    Args:
        data: a folder of class folders or of train/ and test/, a CSV with path,label[,split], a parquet table, shards,
            hf:NAME, "digits", a torchvision data set by name, or a finished run to train further; None: the recipe's.
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
    """`vit train`: `train` with the words of a command line; BadInputsError where measured images cannot be read."""
    options = read_words(words)
    run = run_training(options)
    if options.dry_run:
        Reporter().next_command(f"vit train {without(words, '--dry_run')}".rstrip())
    if run is None:
        return 0

    from vit.training.running.run_images import left_out_of

    if bad := sum(map(len, left_out_of(run).values())):
        problem = f"{bad:,} of the validation and test images cannot be read or measured"
        raise BadInputsError(problem, f"see left_out in {run.result_path}")
    return 0


def run_training(options: TrainOptions) -> "RunDirectory | None":
    """Carry a training out; None where it was only to be shown.

    1. Decide the recipe and its initial weights, and list the images.
    2. Plan: every automatic choice; trial steps where a time or the memory decides.
    3. Open the run folder, whose lock is held until the end.
    4. Train, then write and show the result on the first process.
    """
    if options.print_config:
        parent = options.parent
        recipe = options.layers.recipe() if parent is None else further_recipe(parent, options.layers)
        print(dump(recipe), end="")
        return None
    began = time.monotonic()
    reporter = Reporter(quiet=not is_first())
    start = find_start(options, reporter)

    from vit.training.distributed.devices import device_and_world_size
    from vit.training.distributed.processes import Rendezvous
    from vit.training.planning.plan import make_plan, open_inputs
    from vit.training.running.run_images import seen_before

    if not options.names_data:
        reporter.notice("no DATA is given: digits are trained on, which come with the installation")
    # kept until the end: the training itself meets in its store
    rendezvous = start.rendezvous or Rendezvous(device_and_world_size(start.recipe.trainer)[1])
    inputs = open_inputs(start.recipe, start.listed)
    find_bursts(start.listed, start.recipe.data, reporter, rendezvous)
    plan = make_plan(start.recipe, inputs)
    reporter.notice("; ".join(unused_options(options.layers.options, plan.recipe, inputs.images.splits).values()))
    if options.run is None and plan.device.type == "cpu":
        reporter.notice(options.layers.note_for_cpu())
    if options.dry_run:
        reporter.warn(*seen_before(plan.recipe, plan.source, read_images(plan.source, reporter)))
        show_plan(reporter, plan, "none: a dry run trains nothing", start.why)
        return None
    resumed, contents = options.run, read_on_first(plan.source, reporter, rendezvous)
    if options.resume is not None and resumed is None:
        resumed, plan = newest_for_all(plan, rendezvous, start.listed, contents, reporter)
    if contents is not None:
        plan = replace(plan, seen_before=seen_before(plan.recipe, plan.source, contents))
        reporter.warn(*plan.seen_before)
    plan, loaders = run_trials(plan, began, reporter)

    from vit.checkpoints.run import RunDirectory
    from vit.report.run.run_page import write_classes
    from vit.training.fit import TrackedRows, check_unchanged, finish, fit

    with ExitStack() as lock:

        def open_on_first() -> str:
            assert contents is not None
            if options.parent is not None:
                check_unchanged(RunDirectory(options.parent), plan.source, contents, may_have_moved=True)
            return str(open_run(plan, resumed, contents, lock, plan.recipe.name).path)

        run = RunDirectory(Path(rendezvous.decided("run", open_on_first)))
        show_plan(reporter, plan, str(run.path), start.why)
        if is_first():
            warn_of_space(reporter, plan, run)
        tracker = tracker_of(plan, run, reporter)
        progress = TrainProgress(reporter, plan.validation_name, plan.rounds, plan.recipe.optim.best_metric)
        try:
            with tracked(tracker):
                fitted = fit(plan, run, [TrackedRows(tracker), progress], resumed is not None, loaders)
        except (StoppedError, DisagreementError):
            if is_first():
                raise
            return run  # the first process says it; a launcher that sees another code first would cut that short
        finally:
            progress.close()
        if fitted.is_first_process:

            def write_others() -> None:
                write_classes(run, fitted, plan.source.class_names)
                with noticed_failure(reporter, run):
                    _draw(run, plan, fitted, tracker)

            finish(run, fitted, tracker, write_others, plan.recipe.trainer.keep_state)
            show_result(reporter, run, fitted.result)
    return run


def run_trials(plan: "Plan", began: float, reporter: Reporter) -> "tuple[Plan, ImageDataModule | None]":
    """The plan after the trials that it needs, and their loaders, with the images that memory holds already."""
    is_searched = plan.recipe.optim.batch_size == "auto"
    if not (plan.recipe.optim.is_timed or is_searched):
        return plan, None

    from vit.training.trials import plan_for_time, plan_with_largest_batch, trials

    with trials(plan) as trial:
        if is_searched:
            plan = plan_with_largest_batch(trial)
            scaled = plan.recipe.optim.lr_batch_size is not None
            rate = "" if scaled else "; the learning rate stays (--optim.lr_batch_size scales it)"
            reporter.notice(f"batch size {plan.batch_size}: the largest power of two whose trial steps fit{rate}")
        if plan.recipe.optim.is_timed:
            text = plan.recipe.optim.time
            reporter.notice(f"{text} for the training: trial steps and a validation are measured")
            plan, pace = plan_for_time(trial.of(plan), began)
            end = time.localtime(time.time() + pace.seconds(plan.total_steps, plan.rounds))
            times = [f"{one:.2g} s" if one < 10 else duration(one) for one in (pace.step, pace.validation)]
            costs = f"{times[0]} a step, {times[1]} for each of {plan.rounds} validations"
            ends = f"ends at about {time.strftime('%H:%M', end)}"
            reporter.notice(f"{text} allow {plan.total_steps:,} steps: {costs}; {ends}")
        return plan, trial.data


def _draw(run: "RunDirectory", plan: "Plan", fitted: "FitResult", tracker: Tracker) -> None:
    from vit.report.run.run_page import draw_run, write_run_report

    draw_run(run, plan, fitted, tracker)
    write_run_report(run, plan.source, fitted.result)
