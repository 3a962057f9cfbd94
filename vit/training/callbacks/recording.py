"""What happens beside the optimization: counting, recording, describing checkpoints."""

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint
from torch import Tensor

from vit.atomic_files import atomic_write
from vit.checkpoints.format import KEY, Description
from vit.csv_files import TableWriter, create, new_table, records
from vit.data.module import ImageDataModule
from vit.training.classifier import Classifier

COLUMNS = (
    "epoch", "step", "lr", "train/loss", "train/images_per_second",
    "val/loss", "val/acc1", "val/acc5", "val/ece", "seconds",
)  # fmt: skip
MOST_STEPS, MOST_SECONDS = 50, 30.0  # between two rows
FEWEST_ROWS = 100  # of a training of so many steps or more
READ_SECONDS = 1.0  # between two looks at a loss on a GPU, each of which waits for it
KEPT = 0.95  # of the average loss, at every step: its memory is about 20 steps


class Listener(Protocol):
    """Whoever watches a training: a progress bar, a log, a tracker."""

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        """An optimizer step ended; `loss` is the mean of about the last 20 steps, on a GPU up to a second old."""

    def row(self, row: dict[str, float], step: int) -> None:
        """A row was added to metrics.csv."""

    def notice(self, text: str) -> None:
        """Something that the user should know; by default nobody is told."""
        return


class CountConsumed(Callback):
    """Counts finished batches in the data module; stands before every callback that may save a checkpoint."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(trainer.datamodule, ImageDataModule)  # type: ignore[attr-defined]
        trainer.datamodule.finished_batch()  # type: ignore[attr-defined]


class DescribeCheckpoint(Callback):
    """Puts our description, with the metrics of that moment, into every checkpoint."""

    def __init__(self, description: Description) -> None:
        self.description = description

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        metrics["epoch"] = float(trainer.current_epoch)
        checkpoint[KEY] = replace(self.description, metrics=metrics).to_dict()


class Averaging(EMAWeightAveraging):
    """Lightning's moving average of the weights, without the steps that were left out."""

    def __init__(self, decay: float, classifier: Classifier) -> None:
        super().__init__(decay=decay)
        self._finite = classifier.finite

    @property
    def state_key(self) -> str:
        """The name under which earlier checkpoints have it."""
        return EMAWeightAveraging.__qualname__

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Make the average where the network will be: it is moved to its device after this call."""
        self._device = trainer.strategy.root_device
        super().setup(trainer, pl_module, stage)

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Whether this step changed the weights."""
        return super().should_update(step_idx, epoch_idx) and step_idx != self._finite.skipped_step


class BestCheckpoint(ModelCheckpoint):
    """Lightning's, which would forget the best score of a run folder that was moved or renamed before it is resumed."""

    @property
    def state_key(self) -> str:
        """The name under which earlier checkpoints have it."""
        return super().state_key.replace(type(self).__qualname__, ModelCheckpoint.__qualname__, 1)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        there, here = Path(state_dict["dirpath"]), Path(str(self.dirpath))

        def moved(path: str) -> str:
            return str(here / Path(path).relative_to(there)) if path and Path(path).is_relative_to(there) else path

        paths = {key: moved(state_dict[key]) for key in ("best_model_path", "kth_best_model_path", "last_model_path")}
        best = {moved(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict({**state_dict, **paths, "best_k_models": best, "dirpath": self.dirpath})


class AverageLoss:
    """An exponential moving average of the loss of optimizer steps, without those that are not finite.

    It is kept on the loss's device: only `value` and `state_dict` wait for a GPU.
    """

    def __init__(self) -> None:
        self._sum: Tensor | float = 0.0  # of the losses, with falling weights
        self._weight: Tensor | float = 0.0
        self._step: Tensor | float = 0.0  # the loss of the step that is being computed

    def add(self, part: Tensor, is_whole: bool) -> None:
        """Add the loss of a part of a step, divided by the number of parts; `is_whole`: it is the last part."""
        self._step = self._step + part.detach()
        if is_whole:
            finite = self._step.isfinite()
            kept = torch.where(finite, KEPT, 1.0)
            self._sum = self._sum * kept + torch.where(finite, self._step, 0.0) * (1.0 - kept)
            self._weight = self._weight * kept + (1.0 - kept)
            self._step = 0.0

    @property
    def value(self) -> float:
        """NaN before the first finite loss."""
        weight = float(self._weight)
        return float(self._sum) / weight if weight else math.nan

    def state_dict(self) -> dict[str, float]:
        return {"sum": float(self._sum), "weight": float(self._weight)}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self._sum, self._weight = state["sum"], state["weight"]


class Recorder(Callback):
    """Writes metrics.csv, a row flushed at once, and tells the listeners; other processes only help to add up.

    A row follows every hundredth of the training, but at least every 50 optimizer steps and every 30 seconds; its loss
    is the average of about the last 20 steps of the first process. Another row follows every epoch, with the mean loss
    of the epoch over all processes. On resume the rows after the checkpoint are dropped first, so that none stands
    twice; times go on from those of the checkpoint.
    """

    def __init__(self, path: Path, batch_size: int, listeners: list[Listener]) -> None:
        self.path = path
        self.batch_size = batch_size
        self.listeners = listeners
        self.training_seconds = 0.0
        self.training_images = 0
        self.loss = math.nan
        self.last_step = 0
        self._average = AverageLoss()
        self._read = self._wrote = -math.inf  # when the loss was read, and when a row was written
        self._rows: int | None = None  # in the file; None: a checkpoint that does not say
        self._started = self._mark = time.perf_counter()

    @property
    def images_per_second(self) -> float:
        """Training images per second so far, validation and saving left out."""
        return self.training_images / self.training_seconds if self.training_seconds else 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the beginning, the parts of an interrupted run together."""
        return time.perf_counter() - self._started

    def leave_out(self) -> None:
        """The time since the last batch was spent on something that is not training."""
        self._mark = time.perf_counter()

    def notice(self, text: str) -> None:
        """Pass on what the user should know."""
        for listener in self.listeners:
            listener.notice(text)

    def state_dict(self) -> dict[str, Any]:
        return {
            "rows": self._rows,
            "average_loss": self._average.state_dict(),
            "seconds": self.seconds,
            "training_seconds": self.training_seconds,
            "training_images": self.training_images,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._rows = state_dict["rows"]
        if "average_loss" in state_dict:  # checkpoints of earlier versions begin to average anew
            self._average.load_state_dict(state_dict["average_loss"])
        self._started = time.perf_counter() - state_dict["seconds"]
        self.training_seconds = state_dict["training_seconds"]
        self.training_images = state_dict["training_images"]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.last_step = trainer.global_step
        self._wrote = time.perf_counter()
        self.leave_out()
        if not trainer.is_global_zero:
            return
        rows = _rows_until(self.path, trainer.global_step) if self.path.exists() else []
        rows = rows[: self._rows]
        self._rows = len(rows)
        # whole, because a kill here must not lose the rows
        with atomic_write(self.path) as partial, new_table(partial, COLUMNS) as table:
            for row in rows:
                table.row(row.get(name) for name in COLUMNS)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.leave_out()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.leave_out()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        self.training_seconds += now - self._mark
        self.training_images += self.batch_size
        self._mark = now
        step, total = trainer.global_step, int(trainer.estimated_stepping_batches)
        self._average.add(outputs["loss"], is_whole=step != self.last_step)
        if step == self.last_step:
            return  # a part of a batch
        self.last_step = step
        every = max(1, min(MOST_STEPS, total // FEWEST_ROWS))
        is_due = step % every == 0 or step == 1 or now - self._wrote >= MOST_SECONDS
        if is_due or outputs["loss"].device.type == "cpu" or now - self._read >= READ_SECONDS:
            self.loss, self._read = self._average.value, now
        if is_due:
            self._write({"train/loss": self.loss}, trainer)
        for listener in self.listeners if trainer.is_global_zero else ():
            listener.step(step, total, self.loss, self.images_per_second)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, Classifier)
        row = {name: float(value) for name, value in trainer.callback_metrics.items() if name in COLUMNS}
        row |= {"train/loss": pl_module.epoch_loss(), "train/images_per_second": self.images_per_second}
        if not math.isfinite(row.get("val/loss", 0.0)) and trainer.is_global_zero:
            self.notice("WARNING: the validation loss is not a number; this epoch is not taken for the best")
        self._write(row, trainer)

    def _write(self, row: dict[str, float], trainer: Trainer) -> None:
        self._wrote = time.perf_counter()
        if not trainer.is_global_zero:
            return
        lr = max(float(group["lr"]) for group in trainer.optimizers[0].param_groups)
        whole = {
            "epoch": trainer.current_epoch,
            "step": trainer.global_step,
            "lr": lr,
            "seconds": round(self.seconds, 3),
            **row,
        }
        with create(self.path, "a") as file:
            TableWriter(file).row(whole.get(name) for name in COLUMNS)
        self._rows = (self._rows or 0) + 1
        for listener in self.listeners:
            listener.row(whole, trainer.global_step)


def _rows_until(path: Path, step: int) -> list[dict[str, str]]:
    """Rows up to a step; a last line that was cut short is dropped."""
    return [row for row in records(path) if int(row["step"]) <= step]
