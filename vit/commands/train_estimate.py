"""How long a training takes, said once in its first epoch or after it"""

import time
from typing import TYPE_CHECKING

from vit.console import Reporter, count_of, duration
from vit.training.callbacks.listener import Listener
from vit.training.recipes.recipe import Recipe

if TYPE_CHECKING:
    from vit.training.planning.plan import Plan

MEASURED_SECONDS = 10.0  # of steps, where the first epoch is longer
_SKIPPED, _LEAST = 3, 5  # first steps, in which memory is allocated; steps of a measurement
FORWARD = 1 / 3  # of the time of a training step: the backward pass takes twice that of the forward pass
_DAY = 86_400.0


class Estimate(Listener):
    """A listener that says when the training will end.

    Steps are measured for ten seconds. Where the first epoch ends earlier, its validation is measured, too. Otherwise a
    validation counts as the forward passes of its images. Images of files in memory are decoded once, which takes as
    long per image as for the training images, before the first step.

    Attributes:
        seconds: estimated duration from the first network to the end of the test; None: there is no estimate yet.
    """

    def __init__(self, plan: "Plan", reporter: Reporter) -> None:
        self.plan, self.reporter = plan, reporter
        self.seconds: float | None = None
        self._restart()

    def replanned(self, recipe: Recipe) -> None:
        """Measure again, because the training starts again."""
        self._restart()

    def _restart(self) -> None:
        self._began = time.perf_counter()
        self._first = self._counted = 0  # first step of this process, and the last one before the measurement
        self._first_at = self._counted_at = self._last_at = 0.0
        self._validated_at: float | None = None  # end of the last step before a validation

    def row(self, row: dict[str, float], step: int) -> None:
        """Note that a validation has ended."""
        if self._first and any(name.startswith("val/") for name in row):
            self._validated_at = self._last_at

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        """Measure a step, and say when the training will end once that is known."""
        now = time.perf_counter()
        if self.seconds is None:
            if not self._first:
                self._first, self._first_at = done, now
            if self._validated_at is not None:
                self._say(done, total, self._step_seconds(self._validated_at, done - 1), now)
            elif done - self._first < _SKIPPED:
                self._counted, self._counted_at = done, now
            elif done - self._counted >= _LEAST and now - self._counted_at >= MEASURED_SECONDS:
                self._say(done, total, self._step_seconds(now, done), now)
        self._last_at = now

    def _step_seconds(self, until: float, done: int) -> float:
        """Seconds of a step, of those after the first few, or of all of a short epoch."""
        if done > self._counted:
            return (until - self._counted_at) / (done - self._counted)
        return (until - self._first_at) / max(1, done - self._first)

    def _say(self, done: int, total: int, step: float, now: float) -> None:
        plan = self.plan
        images = {split: len(samples) for split, samples in plan.source.splits.items()}
        decoding = self._first_at - self._began if plan.source.splits["train"].arrays is None else 0.0
        decoding /= images["train"]  # for each image
        scoring = FORWARD * step / plan.batch_size
        num_validation = images.get("validation", 0)
        validation = scoring * num_validation
        others = sum(images.values()) - images["train"] - num_validation
        left = decoding * others
        if self._validated_at is None:
            left += decoding * num_validation
        else:
            validation = max(validation, now - step - self._validated_at - decoding * num_validation)
        left += (total - done) * step + (total - done) / plan.steps_per_round * validation
        left += validation + scoring * others
        self.seconds = now - self._began + left
        ends = time.strftime("%H:%M" if left < _DAY else "%a %H:%M", time.localtime(time.time() + left))
        self.reporter.notice(f"about {duration(self.seconds)} for {self._what(total)}, ends at {ends}")

    def _what(self, total: int) -> str:
        """The part of the training that this process carries out."""
        plan, name = self.plan, self.plan.validation_name
        if self._first > plan.steps_per_round:
            return f"the last {total - self._first + 1:,} steps"
        return count_of(plan.rounds, "epoch") if name == "epoch" else count_of(total, "step")
