"""metrics.csv: the rows of a training, written as they come; its clock, and its training images that fail to read"""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.types import STEP_OUTPUT

from vit.atomic_files import atomic_write
from vit.console import count_of
from vit.csv_files import TableWriter, create, new_table, records
from vit.data.core.batch import Batch
from vit.data.loading.module import ImageDataModule
from vit.errors import some_of
from vit.launch import of_all_processes
from vit.training.losses import SmoothedLoss, epoch_loss
from vit.training.observers import Observers

_SMOOTHED = "train/smoothed_loss"
_TRAINING = ("epoch", "step", "lr", _SMOOTHED, "train/loss", "train/images_per_second")
MAX_ROW_STEPS, MAX_ROW_SECONDS = 50, 30.0  # between two rows
MIN_ROWS = 100  # of a training that has at least as many steps
SHOWN = 5  # images that cannot be read
_KEPT = ("lr", "num_rows", "num_reported", "training_seconds", "training_images", "waiting_seconds")  # in checkpoints
READ_SECONDS = 1.0  # between two reads of the loss on a GPU: each read waits for the GPU


def columns_with(validation: Sequence[str]) -> tuple[str, ...]:
    """The columns of metrics.csv with these names of validation metrics."""
    return (*_TRAINING, *validation, "seconds")


class Recorder(Callback):
    """Writes metrics.csv and tells the listeners. Only the first process does both.

    A row follows every hundredth part of the training, at least every 50 optimizer steps and every 30 seconds. It has
    `train/smoothed_loss`, the average of about the last 20 steps of the first process. One more row follows every
    validation, with `train/loss`, the mean since the previous validation over all processes. The column `epoch` counts
    validations from 0. They follow epochs, or equal parts of a length in steps.

    A resumed training first removes the rows after its checkpoint. Its times continue those of the checkpoint.

    It also collects the errors of training images over all processes, in whose places come other images, and reports
    new ones after each epoch.
    """

    def __init__(self, path: Path, micro_batch_size: int, observers: Observers, columns: Sequence[str]) -> None:
        self.path, self.micro_batch_size, self.columns = path, micro_batch_size, columns
        self.observers = observers
        self.unreadable: set[str] = set()
        self.num_reported = 0  # of them
        self.training_seconds = self.waiting_seconds = 0.0
        self.training_images = 0
        self.loss = math.nan
        self.last_step = 0
        self.lr: float | None = None  # of the last optimizer step; None before the first one
        self._smoothed = SmoothedLoss()
        self._read = self._wrote = -math.inf  # times of the last read of the loss, and of the last row
        self.num_rows: int | None = None  # in the file; None before the training starts
        self._started = self._mark = time.perf_counter()
        self._waited = 0.0  # seconds that the data module had waited at the last batch

    @property
    def images_per_second(self) -> float:
        """Training images per second so far, without validation and saving."""
        return self.training_images / self.training_seconds if self.training_seconds else 0.0

    @property
    def image_wait(self) -> float:
        """The fraction of the training time in which the first process waited for images, or made them itself."""
        return self.waiting_seconds / self.training_seconds if self.training_seconds else 0.0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def count_before(self, seconds: float) -> None:
        """Count a time before the first step as a part of the training."""
        self._started -= seconds

    def exclude_time(self) -> None:
        """Do not count the time since the last batch as training."""
        self._mark = time.perf_counter()

    def state_dict(self) -> dict[str, object]:
        self.unreadable = set().union(*of_all_processes(self.unreadable))
        losses, unreadable = self._smoothed.state_dict(), sorted(self.unreadable)
        counts = {name: getattr(self, name) for name in _KEPT}
        return {**counts, "seconds": self.seconds, "average_loss": losses, "unreadable": unreadable}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name in _KEPT:
            setattr(self, name, state_dict[name])
        self.unreadable = set(state_dict["unreadable"])
        self._smoothed.load_state_dict(state_dict["average_loss"])
        self._started = time.perf_counter() - state_dict["seconds"]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.last_step = trainer.global_step
        self._wrote = time.perf_counter()
        self._waited = _waited(trainer)
        self.exclude_time()
        if not trainer.is_global_zero:
            return
        is_resumed = self.num_rows is not None  # a file of an attempt that ran out of memory is not continued
        rows = _rows_until(self.path, trainer.global_step)[: self.num_rows] if is_resumed and self.path.exists() else []
        self.num_rows = len(rows)
        # atomic, because a kill here must not lose the rows
        with atomic_write(self.path) as partial, new_table(partial, self.columns) as table:
            for row in rows:
                table.row(row.get(name) for name in self.columns)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.exclude_time()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.exclude_time()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int) -> None:
        # here, because Lightning moves the schedule to the next step before it calls on_train_batch_end
        self.lr = max(float(group["lr"]) for group in trainer.optimizers[0].param_groups)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: STEP_OUTPUT, batch: Batch, batch_idx: int
    ) -> None:
        assert isinstance(outputs, Mapping)
        self.unreadable.update(error for error in batch.error if error)
        loss, now = outputs["loss"], time.perf_counter()
        self.training_seconds += now - self._mark
        self.training_images += self.micro_batch_size
        waited = _waited(trainer)
        self.waiting_seconds += waited - self._waited
        self._mark, self._waited = now, waited
        step, total = trainer.global_step, int(trainer.estimated_stepping_batches)
        self._smoothed.add(loss, is_whole=step != self.last_step)
        if step == self.last_step:
            return  # only a micro-batch
        self.last_step = step
        every = max(1, min(MAX_ROW_STEPS, total // MIN_ROWS))
        is_due = step % every == 0 or step == 1 or now - self._wrote >= MAX_ROW_SECONDS
        if is_due or loss.device.type == "cpu" or now - self._read >= READ_SECONDS:
            self.loss, self._read = self._smoothed.value, now
        if is_due:
            self.write({_SMOOTHED: self.loss}, trainer)
        for listener in self.observers.listeners if trainer.is_global_zero else ():
            listener.step(step, total, self.loss, self.images_per_second)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        loss = epoch_loss(pl_module)
        row = {name: float(value) for name, value in trainer.callback_metrics.items() if name in self.columns}
        row |= {"train/loss": float(loss.compute()), "train/images_per_second": self.images_per_second}
        loss.reset()
        if not math.isfinite(row.get("val/loss", 0.0)) and trainer.is_global_zero:
            self.observers.notice(
                "WARNING: the validation loss is not a number; these weights do not become the best checkpoint"
            )
        self.write(row, trainer)
        self.unreadable = set().union(*of_all_processes(self.unreadable))
        if trainer.is_global_zero and len(self.unreadable) > self.num_reported:
            some = some_of(sorted(self.unreadable), SHOWN, "; ")
            count = count_of(len(self.unreadable), "training image")
            self.observers.notice(f"WARNING: cannot read {count}; other images take the places: {some}")
        self.num_reported = len(self.unreadable)

    def write(self, row: dict[str, float], trainer: Trainer) -> None:
        """Add a row with these values, and with the step, its learning rate (where there was a step) and the time."""
        self._wrote = time.perf_counter()
        if not trainer.is_global_zero:
            return
        rate = {} if self.lr is None else {"lr": self.lr}
        place = {"epoch": trainer.current_epoch, "step": trainer.global_step}
        whole = {**place, **rate, "seconds": round(self.seconds, 3), **row}
        with create(self.path, "a") as file:
            TableWriter(file).row(whole.get(name) for name in self.columns)
        self.num_rows = (self.num_rows or 0) + 1
        for listener in self.observers.listeners:
            listener.row(whole, trainer.global_step)


def _waited(trainer: Trainer) -> float:
    assert isinstance(trainer.datamodule, ImageDataModule)  # type: ignore[attr-defined]
    return trainer.datamodule.waited  # type: ignore[attr-defined]


def _rows_until(path: Path, step: int) -> list[dict[str, str]]:
    return [row for row in records(path) if int(row["step"]) <= step]
