"""What our callbacks add to a checkpoint: its description, and the progress of an epoch that is not over"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from vit.checkpoints.format import KEY, Description
from vit.console import count_of
from vit.data.module import ImageDataModule
from vit.launch import rank_and_world_size
from vit.training.distributed.processes import gathered
from vit.training.training_module import TrainingModule

PROGRESS = "progress"  # key of a checkpoint


class CountConsumed(Callback):
    """Counts finished batches in the data module. It precedes every callback that may save a checkpoint."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        assert isinstance(trainer.datamodule, ImageDataModule)  # type: ignore[attr-defined]
        trainer.datamodule.finished_batch()  # type: ignore[attr-defined]


class DescribeCheckpoint(Callback):
    """Adds our description, with the latest metrics, to every checkpoint.

    A resumed training does not open the weights that it started from. Their licence comes from its checkpoint.

    Args:
        rounds: number of epochs of the training; None: its length is a number of steps.

    Attributes:
        resumed_metrics: metrics of the checkpoint that this training continues; {} without one.
    """

    def __init__(self, description: Description, rounds: int | None) -> None:
        self.description, self.rounds = description, rounds
        self.resumed_metrics: Mapping[str, float] = {}

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        metrics["epoch"] = float(trainer.current_epoch)
        step, total = trainer.global_step, int(trainer.estimated_stepping_batches)
        done = f"{step:,} of {total:,} steps"
        if self.rounds is not None:
            done = f"{self.rounds * step / total:.4g} of {count_of(self.rounds, 'epoch')}"
        unfinished = f"{done}, {self.description.task.missing_fit}"
        checkpoint[KEY] = replace(self.description, metrics=metrics, unfinished=unfinished).to_dict()

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self.description = replace(self.description, licence=checkpoint[KEY].get("licence"))
        self.resumed_metrics = checkpoint[KEY]["metrics"]


class KeepEpochLoss(Callback):
    """Saves the sums of the training loss of every process, so that a resumed epoch has the same mean."""

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        assert isinstance(pl_module, TrainingModule)
        loss = pl_module.train_loss
        parts = gathered([float(loss.total), float(loss.batches)])
        checkpoint.setdefault(PROGRESS, {})["train_loss"] = parts

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        assert isinstance(pl_module, TrainingModule)
        rank, processes = rank_and_world_size()
        parts = checkpoint[PROGRESS]["train_loss"]
        if len(parts) != processes:  # the first process takes all sums: a batch counts once for every process
            share = processes / len(parts)
            parts = [[sum(column) * share for column in zip(*parts, strict=True)], *[[0.0, 0.0]] * (processes - 1)]
        pl_module.train_loss.update(*parts[rank])
