"""The checkpoints of a training: best.ckpt, last.ckpt, what they hold, and how they are written

best.ckpt has the weights with the lowest validation loss, with the highest value of a validation metric, or the last.
last.ckpt is saved after every epoch, by the clock, and when a signal ends the training.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint, WeightAveraging
from torch import Tensor

from vit.checkpoints.format import KEY, Description
from vit.checkpoints.io import read_checkpoint, write_checkpoint
from vit.checkpoints.run import RunDirectory
from vit.console import count_of
from vit.data.loading.module import ImageDataModule
from vit.errors import CheckpointError
from vit.launch import of_all_processes, rank_and_world_size
from vit.training.distributed.processes import cpu_group, readable_by_all
from vit.training.losses import epoch_loss
from vit.training.observers import Signals, Stop

PROGRESS = "progress"  # key of a checkpoint
LOSS = "val/loss"  # the default: less noisy than accuracy where validation images are few, and a proper scoring rule
LAST = "val/last"  # not a metric: the step


class CheckpointContent(Callback):
    """Adds to every checkpoint our description, and sums of the training loss, so that a resumed epoch has its mean.

    It counts finished batches in the data module, and so precedes every callback that may save a checkpoint. A resumed
    training does not open the weights that it started from. Their license comes from its checkpoint.
    """

    def __init__(self, description: Description, counts_epochs: bool) -> None:
        self.description, self.counts_epochs = description, counts_epochs
        self.resumed_metrics: Mapping[str, float] = {}

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        assert isinstance(trainer.datamodule, ImageDataModule)  # type: ignore[attr-defined]
        trainer.datamodule.finished_batch()  # type: ignore[attr-defined]

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        metrics["epoch"] = float(trainer.current_epoch)
        step, total = trainer.global_step, int(trainer.estimated_stepping_batches)
        done = f"{step:,} of {total:,} steps"
        if self.counts_epochs:
            rounds = trainer.max_epochs
            assert rounds is not None
            done = f"{rounds * step / total:.4g} of {count_of(rounds, 'epoch')}"
        unfinished = f"{done}, {self.description.task.missing_fit}"
        checkpoint[KEY] = replace(self.description, metrics=metrics, unfinished=unfinished).to_dict()
        loss = epoch_loss(pl_module)
        parts = of_all_processes([float(loss.total), float(loss.batches)])
        checkpoint.setdefault(PROGRESS, {})["train_loss"] = parts

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self.description = replace(self.description, license=checkpoint[KEY].get("license"))
        self.resumed_metrics = checkpoint[KEY]["metrics"]
        rank, processes = rank_and_world_size()
        parts = checkpoint[PROGRESS]["train_loss"]
        if len(parts) != processes:  # the first process takes all sums: a batch counts once for every process
            share = processes / len(parts)
            parts = [[sum(column) * share for column in zip(*parts, strict=True)], *[[0.0, 0.0]] * (processes - 1)]
        epoch_loss(pl_module).update(*parts[rank])


class BestCheckpoint(ModelCheckpoint):
    """Lightning's ModelCheckpoint, which keeps the best score when a run folder moves before the training resumes.

    Of equal values the earliest wins. Weights whose validation loss is not finite win only against nothing: their
    accuracy may be that of one class.
    """

    def __init__(self, path: Path, metric: str) -> None:
        monitor = f"val/{metric}"
        mode = "min" if monitor == LOSS else "max"
        super().__init__(
            path.parent, path.stem, monitor, mode=mode, auto_insert_metric_name=False, enable_version_counter=False
        )

    def is_better(self, trainer: Trainer) -> bool:
        """Whether the latest validation is better than that of best.ckpt, before it is saved."""
        return self.check_monitor_top_k(trainer, self._monitor_candidates(trainer).get(str(self.monitor)))

    def _monitor_candidates(self, trainer: Trainer) -> dict[str, Tensor]:
        values = super()._monitor_candidates(trainer)
        if self.monitor == LAST:
            values[LAST] = torch.tensor(float(trainer.global_step), dtype=torch.float64)
        if self.monitor in values and not values[LOSS].isfinite():
            values[self.monitor] = torch.full_like(values[self.monitor], torch.nan)
        return values

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        there, here = state_dict["dirpath"], str(self.dirpath)
        texts = {key: value.replace(there, here, 1) for key, value in state_dict.items() if isinstance(value, str)}
        best = {path.replace(there, here, 1): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict({**state_dict, **texts, "best_k_models": best})


class LastCheckpoint(Checkpoint):
    """Saves last.ckpt where a training can resume exactly: after an optimizer step, or before a validation.

    Lightning calls this callback after all callbacks that are not checkpoints. So averaged weights, counts and rows are
    those after the step. After the last step of an epoch it waits for the validation, because Lightning takes an epoch
    with all its batches for validated. Several processes agree at every step on whether to save and to end, over the
    CPU's network: reading a flag from a GPU would wait for the GPU. `every` None: only at the end of every epoch.
    """

    def __init__(self, path: Path, every: float | None, signals: Signals, saved: Callable[[], None]) -> None:
        self.path, self.every, self.signals, self.saved = path, every, signals, saved
        self._group: dist.ProcessGroup | None = None
        self._step, self._saved_at = 0, 0.0

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size > 1:
            self.signals.together = True
            self._group = cpu_group()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._step, self._saved_at = trainer.global_step, time.monotonic()
        self.signals.in_loop = True

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        is_whole_step, self._step = trainer.global_step != self._step, trainer.global_step
        if is_whole_step and not trainer.is_last_batch:
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
        self._save_or_end(trainer, must_save=True)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.signals.in_loop = False
        _, signal_number = self._requests()
        if signal_number:
            raise Stop(signal_number, self._step)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.validating:  # as if its first step had begun: a resumed training repeats all steps
            begun = {"ready": 1, "started": 1, "processed": 0, "completed": 0}
            progress = {"total": begun, "current": dict(begun), "is_last_batch": False}
            checkpoint["loops"]["fit_loop"]["epoch_loop.val_loop.batch_progress"] = progress

    def _save_or_end(self, trainer: Trainer, must_save: bool = False) -> None:
        is_due, signal_number = self._requests()
        if is_due or signal_number or must_save:
            self._save(trainer)
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


class DurableCheckpointIO(TorchCheckpointIO):
    """Writes checkpoints by `write_checkpoint`, and keeps the one before `last` at `previous`.

    Lightning's own writer goes through the temporary folder without a sync. Across file systems a kill left a corrupt
    file, and a full disk destroyed the good one.
    """

    def __init__(self, last: Path, previous: Path, notice: Callable[[str], None]) -> None:
        super().__init__()
        self.last, self.previous, self.notice = last, previous, notice
        self._last_is_broken = False
        run = RunDirectory(last.parent.parent)
        self._run = run if run.config_path.is_file() else None

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: object = None) -> None:
        if self._run is not None and not self._run.config_path.is_file():
            raise self._run.gone()
        is_last = Path(path) == self.last
        keeps = is_last and not self._last_is_broken
        write_checkpoint(checkpoint, Path(path), self.previous if keeps else None)
        self._last_is_broken = self._last_is_broken and not is_last

    def load_checkpoint(
        self, path: str | Path, map_location: object = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """The content of a checkpoint on every process; of `previous` if `last` is damaged or missing.

        CheckpointError: neither file is readable.
        """
        try:
            with readable_by_all(Path(path)) as file:
                return read_checkpoint(file)
        except CheckpointError as error:
            if Path(path) != self.last:
                raise
            with readable_by_all(self.previous) as file:
                if not file.is_file():
                    raise
                try:
                    content = read_checkpoint(file)
                except CheckpointError as older:
                    raise CheckpointError(f"{error.problem}, and {older.problem}", "start a new run") from older
            step = int(content["global_step"])
            self.notice(f"{error.problem}; going on from {self.previous.name}, step {step:,}")
        self._last_is_broken = True
        return content
