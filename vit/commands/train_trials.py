"""What trial steps decide or suggest before a training, said in one line each"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vit.commands.train_options import TrainOptions
from vit.console import Reporter, duration
from vit.errors import UsageError
from vit.training.recipes.recipe import Recipe

if TYPE_CHECKING:
    from vit.data.module import ImageDataModule
    from vit.training.planning.plan import Plan
    from vit.training.range_test import RangeTest
    from vit.training.trials.trial import Trial


@dataclass(frozen=True)
class Settled:
    """A training with nothing left to decide.

    Attributes:
        plan: the training.
        data: its loaders, with the images that memory holds already; None: no trial has made them.
        range_test: learning-rate range test, if one was asked for.
    """

    plan: "Plan"
    data: "ImageDataModule | None" = None
    range_test: "RangeTest | None" = None


def check_range_test(options: TrainOptions, recipe: Recipe) -> None:
    """Raise UsageError if a range test is asked for and the training cannot have one."""
    if not options.find_lr:
        return

    from vit.training.distributed.devices import device_and_world_size

    _, world_size = device_and_world_size(recipe)
    find = "--optim.lr find"
    if recipe.model.freeze == "backbone":
        raise UsageError(f"{find} with --freeze backbone, which has no learning rate", "leave it out")
    if world_size > 1:
        raise UsageError(f"{find} on {world_size} processes", "give --devices 1, or a number")


def settle(plan: "Plan", began: float, find_lr: bool, reporter: Reporter) -> Settled:
    """Carry out the trials that a plan needs, and a range test.

    Args:
        began: reading of `time.monotonic` at which the command began.

    Raises:
        UsageError: the time is too short.
        ResourceError: memory is not sufficient.
    """
    is_searched = plan.recipe.optim.batch_size == "auto"
    if not (plan.is_timed or is_searched or find_lr):
        return Settled(plan)

    from vit.training.trials.largest_batch import plan_with_largest_batch
    from vit.training.trials.trial import trials

    found = None
    with trials(plan) as trial:
        if is_searched:
            plan = plan_with_largest_batch(trial)
            reporter.notice(f"batch size {plan.batch_size}: the largest power of two whose trial steps fit")
        if find_lr:
            found = _suggest(trial.of(plan), reporter)
        if plan.is_timed:
            plan = _timed(trial.of(plan), began, reporter)
        return Settled(plan, trial.data, found)


def _suggest(trial: "Trial", reporter: Reporter) -> "RangeTest":
    from vit.training.trials.learning_rate import range_test

    found = range_test(trial)
    reporter.notice(
        f"range test of {len(found.rates)} steps suggests learning rate {found.suggestion:.1e}; this training keeps "
        f"{found.kept:g}, and its report shows the curve"
    )
    return found


def _timed(trial: "Trial", began: float, reporter: Reporter) -> "Plan":
    from vit.training.trials.clock import plan_for_time

    text = trial.plan.recipe.optim.time
    reporter.notice(f"{text} for the training: trial steps and a validation are measured")
    plan, pace = plan_for_time(trial, began)
    ends = time.localtime(time.time() + pace.seconds(plan.total_steps, plan.rounds))
    reporter.notice(
        f"{text} allow {plan.total_steps:,} steps: {_short(pace.step)} a step, {_short(pace.validation)} for each "
        f"of {plan.rounds} validations; ends at about {time.strftime('%H:%M', ends)}"
    )
    return plan


def _short(seconds: float) -> str:
    """A time in words, with two digits where it is short."""
    return f"{seconds:.2g} s" if seconds < 10 else duration(seconds)
