"""What trial steps decide before a training, said in one line each"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vit.console import Reporter, duration

if TYPE_CHECKING:
    from vit.data.module import ImageDataModule
    from vit.training.planning.plan import Plan
    from vit.training.trials.trial import Trial


@dataclass(frozen=True)
class TrialResult:
    """A training with nothing left to decide.

    Attributes:
        plan: the training.
        data: its loaders, with the images that memory holds already; None: no trial has made them.
    """

    plan: "Plan"
    data: "ImageDataModule | None" = None


def run_trials(plan: "Plan", began: float, reporter: Reporter) -> TrialResult:
    """Carry out the trials that a plan needs.

    Args:
        began: reading of `time.monotonic` at which the command began.

    Raises:
        UsageError: the time is too short.
        ResourceError: memory is not sufficient.
    """
    is_searched = plan.recipe.optim.batch_size == "auto"
    if not (plan.is_timed or is_searched):
        return TrialResult(plan)

    from vit.training.trials.largest_batch import plan_with_largest_batch
    from vit.training.trials.trial import trials

    with trials(plan) as trial:
        if is_searched:
            plan = plan_with_largest_batch(trial)
            reporter.notice(f"batch size {plan.batch_size}: the largest power of two whose trial steps fit")
        if plan.is_timed:
            plan = _timed(trial.of(plan), began, reporter)
        return TrialResult(plan, trial.data)


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
