"""When last.ckpt is saved: after every epoch, by the clock, and when a signal ends the training"""

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
    """Saves last.ckpt where a training can resume exactly: after an optimizer step, or before a validation.

    Lightning calls this callback after all callbacks that are not checkpoints. So averaged weights, counts and rows are
    those after the step. After the last step of an epoch it waits for the validation, because Lightning takes an epoch
    with all its batches for validated.

    Several processes agree at every step on whether to save and to end. They do so over the CPU's network, because
    reading a flag from a GPU would wait for the GPU.

    Args:
        path: path of last.ckpt.
        every: seconds between two checkpoints; None to save only at the end of every epoch.
        saved: function called after every checkpoint.
    """

    def __init__(self, path: Path, every: float | None, signals: Signals, saved: Callable[[], None]) -> None:
        self.path, self.every, self.signals, self.saved = path, every, signals, saved
        self._group: dist.ProcessGroup | None = None
        self._step = 0
        self._saved_at = 0.0

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size > 1:
            self.signals.together = True
            group = dist.new_group(backend="gloo", timeout=PATIENCE)
            assert isinstance(group, dist.ProcessGroup)
            self._group = group

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._step, self._saved_at = trainer.global_step, time.monotonic()
        self.signals.in_loop = True

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if trainer.global_step == self._step:
            return  # only a micro-batch
        self._step = trainer.global_step
        if not trainer.is_last_batch:
            self._save_or_end(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save_or_end(trainer)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        _, signal_number = self._requests()
        if signal_number:
            for callback in trainer.callbacks:  # type: ignore[attr-defined]
                if isinstance(callback, WeightAveraging):
                    callback.on_validation_epoch_end(trainer, pl_module)  # restores the trained weights
            self._save(trainer)
            raise Stop(signal_number, self._step)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save(trainer)
        self._end_if_asked()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.signals.in_loop = False
        self._end_if_asked()

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.validating:  # as if its first step had begun: a resumed training repeats all steps
            begun = {"ready": 1, "started": 1, "processed": 0, "completed": 0}
            progress = {"total": begun, "current": dict(begun), "is_last_batch": False}
            checkpoint["loops"]["fit_loop"][_VALIDATION] = progress

    def _save_or_end(self, trainer: Trainer) -> None:
        is_due, signal_number = self._requests()
        if is_due or signal_number:
            self._save(trainer)
        if signal_number:
            raise Stop(signal_number, self._step)

    def _end_if_asked(self) -> None:
        """End the training, whose checkpoint is already saved, if a signal asked for this."""
        _, signal_number = self._requests()
        if signal_number:
            raise Stop(signal_number, self._step)

    def _save(self, trainer: Trainer) -> None:
        trainer.save_checkpoint(self.path, weights_only=False)
        self._saved_at = time.monotonic()
        self.saved()

    def _requests(self) -> tuple[bool, int]:
        """(whether a checkpoint is due, the signal of any process or 0), the same on all processes."""
        is_due = self.every is not None and time.monotonic() - self._saved_at >= self.every
        if self._group is None:
            return is_due, self.signals.received
        requests = torch.tensor([int(is_due), self.signals.received])
        dist.all_reduce(requests, dist.ReduceOp.MAX, self._group)
        return bool(requests[0]), int(requests[1])
