"""What trial steps decide before a training, said in one line each"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vit.console import Reporter, duration

if TYPE_CHECKING:
    from vit.data.module import ImageDataModule
    from vit.training.planning.plan import Plan


@dataclass(frozen=True)
class Settled:
    """A training with nothing left to decide.

    Attributes:
        plan: the training.
        data: its loaders, with the images that memory holds already; None: no trial has made them.
    """

    plan: "Plan"
    data: "ImageDataModule | None" = None


def settle(plan: "Plan", began: float, reporter: Reporter) -> Settled:
    """Carry out the trials that a plan needs.

    Args:
        began: reading of `time.monotonic` at which the command began.

    Raises:
        UsageError: the time is too short.
    """
    if not plan.is_timed:
        return Settled(plan)

    from vit.training.trials.clock import plan_for_time
    from vit.training.trials.trial import trials

    with trials(plan) as trial:
        if plan.is_timed:
            reporter.notice(f"{plan.recipe.optim.time} for the training: trial steps and a validation are measured")
            plan, pace = plan_for_time(trial, began)
            ends = time.localtime(time.time() + pace.seconds(plan.total_steps, plan.rounds))
            reporter.notice(
                f"{plan.recipe.optim.time} allow {plan.total_steps:,} steps: {1000 * pace.step:.3g} ms a step, "
                f"{duration(pace.validation)} for each of {plan.rounds} validations; ends at about "
                f"{time.strftime('%H:%M', ends)}"
            )
        return Settled(plan, trial.data)
