"""The first steps of a training on copies of everything, to decide what only the machine can tell

They tell how many optimizer steps a time allows, and the largest batch that fits into the memory of a device. Nothing
of them remains but what a callback has seen.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import LambdaCallback

from vit.checkpoints.run import RunDirectory
from vit.data.loading.module import ImageDataModule
from vit.errors import ResourceError, StoppedError, UsageError, explained, is_out_of_memory
from vit.ranges import seconds
from vit.training.fit import train_network
from vit.training.network.initial_network import initial_network
from vit.training.observers import Listener, Observers, Signals, Stop
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import LEAST_STEPS, ROUNDS, batch_multiple
from vit.training.running.oom_retry import StepCount, free_memory, until_it_fits

SAFETY = 0.05  # of the time that is left after the trial: steps are not equally long
FINISH_SECONDS = 5.0  # figures and page of a run
MIN_STEPS = 5
_SKIPPED = 3  # first steps, in which memory is allocated and kernels are chosen
_SKIPPED_ON_GPU = 100  # of a GPU's first steps, at most half: they took 1.4 to 1.6 times as long as later ones
_SHARE, _SHORTEST, _LONGEST = 0.05, 2.0, 20.0  # seconds of trial steps: this share of the time, within these limits
_ENDLESS = 10**6  # steps of a trial, which ends earlier
_BATCH_STEPS = 2  # the first makes the optimizer's state, which the second keeps beside its activations
_PREFIX = ".trial-"
_STALE_SECONDS = 86_400.0


class StopTrial(Exception):  # noqa: N818  not an error
    """Ends a trial before its validation."""


@dataclass(frozen=True)
class Trial:
    """The beginning of a training, which can be carried out as often as is needed.

    A trial has its own weights, optimizer, loaders and folder. The training itself starts from its seed afterwards, so
    that it does not depend on trials. Only the images that memory holds are shared, because they never change.
    """

    plan: Plan  # the training, which one process carries out
    data: ImageDataModule  # its loaders
    signals: Signals  # signals that end the trial

    def of(self, plan: Plan) -> "Trial":
        return replace(self, plan=plan)

    def run(self, callback: Callback, *listeners: Listener) -> None:
        """Train until the callback raises `StopTrial`, or else through the validation and the scores at the end."""
        plan = self.plan
        with _throw_away_folder(Path(plan.recipe.out).expanduser()) as folder, suppress(StopTrial):
            seed_everything(plan.recipe.seed, verbose=False)
            start = initial_network(plan, resume=False, notice=lambda _: None)
            observers = Observers(self.signals, listeners, (callback,))
            data = self.data.renewed(plan.loader_options)
            train_network(start, data, plan, RunDirectory(Path(folder)), observers, resume=False)
        self.clear()

    def clear(self) -> None:
        self.signals.in_loop = False
        free_memory(self.plan.device)


@contextmanager
def trials(plan: Plan) -> Iterator[Trial]:
    """While entered: trials of a plan, with all images in memory that the training keeps there.

    StoppedError: a signal ended a trial.
    """
    with Signals("start it again") as signals:
        try:
            data = plan.data_module()
            for split in plan.source.splits:
                data.dataset(split)  # so that no trial measures it
            yield Trial(plan, data, signals)
        except Stop as stop:
            problem = f"{Stop(stop.number).words} during trial steps"
            raise StoppedError(128 + stop.number, problem, "start it again") from stop


def _throw_away_folder(out: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder on the disk of the runs, whose speed is part of a measurement; those of killed processes are removed."""
    with explained(ResourceError, f"cannot write to {out}", "choose another folder with --out"):
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob(f"{_PREFIX}*"):
            if time.time() - old.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
        return tempfile.TemporaryDirectory(prefix=_PREFIX, dir=out, ignore_cleanup_errors=True)


@dataclass(frozen=True)
class Pace:
    """Measured seconds of the parts of a training."""

    start: float  # seconds from the first network to the end of the first step
    step: float  # seconds of an optimizer step
    validation: float  # seconds of a validation with its checkpoints
    end: float  # seconds of calibration and test

    def seconds(self, steps: int, validations: int) -> float:
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


def pace_of(trial: Trial, time_left: float) -> tuple[Plan, Pace]:
    """The plan of a training that may take `time_left` seconds, with micro-batches that fit, and its measured parts."""
    latest = time.perf_counter() + time_left

    def attempt(plan: Plan, count: StepCount) -> tuple[Plan, Pace]:
        clock = _StepClock(min(max(_SHARE * time_left, _SHORTEST), _LONGEST), latest)
        began = time.perf_counter()
        trial.of(plan.of_steps(1, _ENDLESS)).run(clock, count)
        ended, ends = time.perf_counter(), clock.ends
        step = step_seconds(began, ends, plan.device.type)
        return plan, Pace(ends[0] - began, step, clock.validated - ends[-1], ended - clock.validated)

    return until_it_fits(trial.plan, attempt, lambda plan: None)


def step_seconds(began: float, ends: Sequence[float], device: str) -> float:
    """Seconds of a later step, from the time at which the first step began and the end of each of the first."""
    skipped = max(_SKIPPED, min(_SKIPPED_ON_GPU, len(ends) // 2)) if device == "cuda" else _SKIPPED
    counted = ends[skipped - 1 :] if len(ends) > skipped else [began, *ends]
    return (counted[-1] - counted[0]) / (len(counted) - 1)


def plan_for_time(trial: Trial, began: float) -> tuple[Plan, Pace]:
    """The plan of a trial with as many steps as its time allows since `began`, a reading of `time.monotonic`.

    UsageError: the time is too short.
    """
    text = str(trial.plan.recipe.optim.time)
    whole = seconds(text, "--time")
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


def plan_with_largest_batch(trial: Trial) -> Plan:
    """The plan of a trial with the largest batch whose first steps fit. ResourceError: not even the smallest fits.

    The candidates are powers of two, times the number that a batch size is a multiple of. The largest is an eighth of
    the training images, so that an epoch has steps. The search begins near the automatic batch size. The learning rate
    stays as it is.
    """
    plan, smallest = trial.plan, batch_multiple(trial.plan.recipe)
    largest = max(len(plan.source.splits["train"]) // LEAST_STEPS, smallest)
    size = smallest
    while 2 * size <= min(plan.batch_size, largest):
        size *= 2
    fitting = None
    while size <= largest and _fits(trial, size):
        fitting, size = size, 2 * size
    while fitting is None and size > smallest:
        size //= 2
        fitting = size if _fits(trial, size) else None
    if fitting is None:
        problem = f"out of memory with {size} images of {plan.preprocess.image_size} pixels in {plan.precision}"
        raise ResourceError(problem, "give a smaller --image_size or --network")
    return plan.of_batch(fitting)


def _fits(trial: Trial, batch_size: int) -> bool:
    """Whether the first steps find enough memory: with a random head, and not compiled, which takes no less of it."""
    plan = trial.plan.of_batch(batch_size)
    recipe, model = plan.recipe, replace(plan.recipe.model, init_head="random")
    recipe = replace(recipe, model=model, trainer=replace(recipe.trainer, compile=False))
    trial = trial.of(replace(plan, recipe=recipe))

    def end(trainer: Trainer, *_: object) -> None:
        if trainer.global_step >= _BATCH_STEPS:
            raise StopTrial

    try:
        trial.run(LambdaCallback(on_train_batch_end=end))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        return True
    trial.clear()  # after the `except`, whose traceback keeps the tensors of the failed step
    return False
