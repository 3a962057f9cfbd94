"""A learning-rate range test: the loss while the learning rate grows from step to step

Smith 2017, "Cyclical Learning Rates for Training Neural Networks" (arXiv 1506.01186), section 3.3. The suggestion is
a tenth of the learning rate with the lowest loss, as in fastai. The training keeps the learning rate of its recipe.
"""

import math
from collections.abc import Mapping
from contextlib import suppress

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.types import STEP_OUTPUT

from vit.errors import DivergedError
from vit.training.range_test import RangeTest
from vit.training.trials.trial import Enough, Trial

STEPS = 100
LOWEST, HIGHEST = 1e-7, 10.0  # learning rates, as fastai's `lr_find`
DIVERGED = 4.0  # times the lowest loss
BELOW_MINIMUM = 10.0  # the suggestion is so many times below the learning rate of the lowest loss, as in fastai


class _GrowingRate(Callback):
    """Sets the learning rate before each step, and keeps the loss after it."""

    def __init__(self, kept: float) -> None:
        self.kept = kept
        self.rates: list[float] = []
        self.losses: list[float] = []
        self._parts: list[float] = []

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int) -> None:
        rate = LOWEST * (HIGHEST / LOWEST) ** (trainer.global_step / (STEPS - 1))
        if len(self.rates) == trainer.global_step:
            self.rates.append(rate)
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = group["initial_lr"] * rate / self.kept

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: object, batch_idx: int
    ) -> None:
        assert isinstance(outputs, Mapping)
        self._parts.append(float(outputs["loss"]))
        if trainer.global_step < len(self.rates):
            return  # only a micro-batch
        loss, self._parts = sum(self._parts), []
        if not math.isfinite(loss):
            raise Enough
        self.losses.append(loss)
        if loss > DIVERGED * min(self.losses) or len(self.losses) == STEPS:
            raise Enough


def range_test(trial: Trial) -> RangeTest:
    """Train for up to 100 steps with a learning rate that grows, on copies that are thrown away."""
    kept = trial.plan.recipe.optim.lr
    growing = _GrowingRate(kept)
    with suppress(DivergedError):
        trial.of(trial.plan.of_steps(1, STEPS)).run(growing)
    trial.clear()
    losses = smoothed(growing.losses)
    rates = growing.rates[: len(losses)]
    return RangeTest(rates, losses, suggested(rates, losses, kept), kept)


def smoothed(losses: list[float], decay: float = 0.9) -> list[float]:
    """The exponential moving average of losses, without the bias of its first values."""
    average, found = 0.0, []
    for number, loss in enumerate(losses, start=1):
        average = decay * average + (1 - decay) * loss
        found.append(average / (1 - decay**number))
    return found


def suggested(rates: list[float], losses: list[float], kept: float) -> float:
    """A tenth of the learning rate with the lowest loss; the kept one where no step had a finite loss."""
    if not losses:
        return kept
    return rates[losses.index(min(losses))] / BELOW_MINIMUM
