"""Early stopping: where validations bring nothing better, the learning rate falls, and after that the training ends

The end of the schedule is moved, and not cut off: weights become better while the learning rate falls.
"""

from collections.abc import Callable
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from vit.training.callbacks.checkpoints import BestCheckpoint
from vit.training.optim import Decay
from vit.training.planning.plan import Plan
from vit.training.planning.schedule import end_of_decay


class EarlyEnd(Callback):
    """Lets the learning rate fall once validations bring nothing better, or once the longest length asks for it.

    All that it knows is in checkpoints, so that a resumed training ends at the same step with the same weights.

    Args:
        patience: number of validations in a row that are not better than the best one.
        best: decides which validation is better.
        notice: shows a message to the user.
    """

    def __init__(self, patience: int, plan: Plan, best: BestCheckpoint, notice: Callable[[str], None]) -> None:
        self.patience, self.plan, self.best, self.notice = patience, plan, best, notice
        self._best_at = 0  # number of the best validation
        self._fell_at: int | None = None  # number of the validation after which the rate falls

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._fell_at is not None:
            self._decay(trainer, pl_module, self._fell_at)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        done, rounds = trainer.current_epoch + 1, self.plan.rounds
        if self.best.is_better(trainer):  # which Lightning saves after this
            self._best_at = done
        if self._fell_at is not None or done * self.plan.steps_per_round < self.plan.warmup_steps:
            return
        is_over, end = done - self._best_at >= self.patience, end_of_decay(done, rounds)
        if is_over or end == rounds:
            self._fell_at = done
            self._decay(trainer, pl_module, done)
        if is_over and end < rounds:
            name = self.plan.validation_name
            self.notice(
                f"{name} {self._best_at} is still the best: the learning rate falls from now on, and the training ends "
                f"with {name} {end} instead of {rounds}"
            )

    def _decay(self, trainer: Trainer, pl_module: LightningModule, done: int) -> None:
        """Let the rate fall from the `done`-th validation on. The rate of the next step is set already: the highest."""
        decay, end = pl_module.decay, end_of_decay(done, self.plan.rounds)
        assert isinstance(decay, Decay)
        decay.start, decay.end = done * self.plan.steps_per_round, end * self.plan.steps_per_round
        trainer.fit_loop.max_epochs = end

    def state_dict(self) -> dict[str, Any]:
        return {"best_at": self._best_at, "fell_at": self._fell_at}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._best_at, self._fell_at = state_dict["best_at"], state_dict["fell_at"]
