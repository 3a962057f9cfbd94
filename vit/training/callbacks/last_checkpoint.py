"""When last.ckpt is saved: after every epoch, by the clock in between, and before a training that was asked to end."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, WeightAveraging

from vit.training.distributed.processes import PATIENCE
from vit.training.signals import Signals, Stop

_VALIDATION = "epoch_loop.val_loop.batch_progress"


class LastCheckpoint(Checkpoint):
    """Saves last.ckpt whenever a training can go on from it exactly: after an optimizer step, or before a validation.

    Lightning calls it after all callbacks that are no checkpoints, so that averaged weights, counts and rows are those
    after the step. With the last step of an epoch it waits for the validation, which follows: Lightning takes an epoch
    whose batches are finished for validated.

    On several processes all of them agree at every step on whether to save and to end, over the CPU's network: reading
    a flag from GPUs would wait for them.

    Args:
        path: of last.ckpt.
        every: seconds between two checkpoints; None: only at the end of every epoch.
        saved: called after every checkpoint.
    """

    def __init__(self, path: Path, every: float | None, signals: Signals, saved: Callable[[], None]) -> None:
        self.path, self.every, self.signals, self.saved = path, every, signals, saved
        self._group: Any = None
        self._step = 0
        self._saved_at = 0.0

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size > 1:
            self.signals.together = True
            self._group = dist.new_group(backend="gloo", timeout=PATIENCE)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._step, self._saved_at = trainer.global_step, time.monotonic()
        self.signals.heeded = True

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self._step:
            return  # a part of a batch
        self._step = trainer.global_step
        if not trainer.is_last_batch:
            self._save_or_end(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save_or_end(trainer)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        _, number = self._wishes()
        if number:
            for callback in trainer.callbacks:  # type: ignore[attr-defined]
                if isinstance(callback, WeightAveraging):
                    callback.on_validation_epoch_end(trainer, pl_module)  # gives the trained weights back
            self._save(trainer)
            raise Stop(number, self._step)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save(trainer)
        self._end_if_asked()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.signals.heeded = False
        self._end_if_asked()

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.validating:  # as if its first step had begun, so that all of it comes again
            begun = {"ready": 1, "started": 1, "processed": 0, "completed": 0}
            progress = {"total": begun, "current": dict(begun), "is_last_batch": False}
            checkpoint["loops"]["fit_loop"][_VALIDATION] = progress

    def _save_or_end(self, trainer: Trainer) -> None:
        due, number = self._wishes()
        if due or number:
            self._save(trainer)
        if number:
            raise Stop(number, self._step)

    def _end_if_asked(self) -> None:
        """Leave after a checkpoint that is there already."""
        _, number = self._wishes()
        if number:
            raise Stop(number, self._step)

    def _save(self, trainer: Trainer) -> None:
        trainer.save_checkpoint(self.path, weights_only=False)
        self._saved_at = time.monotonic()
        self.saved()

    def _wishes(self) -> tuple[bool, int]:
        """(whether a checkpoint is due, the signal that somebody has heard or 0), the same on all processes."""
        due = self.every is not None and time.monotonic() - self._saved_at >= self.every
        if self._group is None:
            return due, self.signals.heard
        wishes = torch.tensor([int(due), self.signals.heard])
        dist.all_reduce(wishes, dist.ReduceOp.MAX, self._group)
        return bool(wishes[0]), int(wishes[1])
