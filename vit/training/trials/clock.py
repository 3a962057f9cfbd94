"""How many optimizer steps a time allows, from trial steps, a trial validation and trial scores"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from vit.errors import UsageError
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import ROUNDS
from vit.training.running.oom_retry import StepCount, until_it_fits
from vit.training.trials.trial import Trial

SAFETY = 0.05  # of the time that is left after the trial: steps are not equally long
FINISH_SECONDS = 5.0  # figures and page of a run
MIN_STEPS = 5
_SKIPPED = 3  # first steps, in which memory is allocated and kernels are chosen
_SKIPPED_ON_GPU = 100  # of a GPU's first steps, at most half: they took 1.4 to 1.6 times as long as later ones
_SHARE, _SHORTEST, _LONGEST = 0.05, 2.0, 20.0  # seconds of trial steps: this share of the time, within these limits
_ENDLESS = 10**6  # steps of a trial, which ends earlier


@dataclass(frozen=True)
class Pace:
    """Measured seconds of the parts of a training."""

    start: float  # seconds from the first network to the end of the first step
    step: float  # seconds of an optimizer step
    validation: float  # seconds of a validation with its checkpoints
    end: float  # seconds of calibration and test

    def seconds(self, steps: int, validations: int) -> float:
        """Seconds of a whole training."""
        return self.start + self.step * steps + self.validation * validations + self.end + FINISH_SECONDS


class _StepClock(Callback):
    """Notes when steps end, and asks for the validation after enough of them."""

    def __init__(self, seconds: float, latest: float) -> None:
        self.seconds, self.latest = seconds, latest
        self.ends: list[float] = []
        self.validated = 0.0
        self._step = 0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if trainer.global_step == self._step:
            return  # only a micro-batch
        self._step, now = trainer.global_step, time.perf_counter()
        self.ends.append(now)
        if len(self.ends) < _SKIPPED + MIN_STEPS and now < self.latest:
            return
        if now - self.ends[0] >= self.seconds or now >= self.latest:
            if pl_module.device.type == "cuda":
                torch.cuda.synchronize()  # steps are queued
                self.ends[-1] = time.perf_counter()
            trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.validated = time.perf_counter()


def pace_of(trial: Trial, seconds: float) -> tuple[Plan, Pace]:
    """The parts of a training, measured; and its plan, with micro-batches that fit.

    Args:
        seconds: time that the whole training may take.
    """
    latest = time.perf_counter() + seconds

    def attempt(plan: Plan, count: StepCount) -> tuple[Plan, Pace]:
        clock, began = _StepClock(min(max(_SHARE * seconds, _SHORTEST), _LONGEST), latest), time.perf_counter()
        trial.of(plan.of_steps(1, _ENDLESS)).run(clock, count)
        ended, ends = time.perf_counter(), clock.ends
        step = step_seconds(began, ends, plan.device.type)
        return plan, Pace(ends[0] - began, step, clock.validated - ends[-1], ended - clock.validated)

    return until_it_fits(trial.plan, attempt, lambda plan: None)


def step_seconds(began: float, ends: Sequence[float], device: str) -> float:
    """Seconds of a later step, from the end of each of the first.

    Args:
        began: time at which the first step began.
        device: type of the device.
    """
    skipped = max(_SKIPPED, min(_SKIPPED_ON_GPU, len(ends) // 2)) if device == "cuda" else _SKIPPED
    counted = ends[skipped - 1 :] if len(ends) > skipped else [began, *ends]
    return (counted[-1] - counted[0]) / (len(counted) - 1)


def plan_for_time(trial: Trial, began: float) -> tuple[Plan, Pace]:
    """The plan of a trial with as many steps as its time allows.

    Args:
        began: reading of `time.monotonic` at which the time began.

    Raises:
        UsageError: the time is too short.
    """
    text = str(trial.plan.recipe.optim.time)
    whole = trial.plan.time_seconds
    plan, pace = pace_of(trial, whole - (time.monotonic() - began))
    left = (1 - SAFETY) * (whole - (time.monotonic() - began))
    steps_per_round = int((left - pace.seconds(0, ROUNDS)) / (ROUNDS * pace.step))
    if steps_per_round >= 1:
        return plan.of_steps(ROUNDS, steps_per_round), pace
    few = [steps for steps in range(MIN_STEPS, ROUNDS) if pace.seconds(steps, steps) <= left]
    if few:
        return plan.of_steps(few[-1], 1), pace
    spent = time.monotonic() - began
    least = spent + pace.seconds(ROUNDS, ROUNDS) / (1 - SAFETY) + 1
    raise UsageError(
        f"--time {text} is too short for {MIN_STEPS} steps: trial steps took {spent:.0f} s, a step "
        f"takes {pace.step:.2g} s, and a validation {pace.validation:.2g} s",
        f"give --time {least:.0f}s or more",
    )
