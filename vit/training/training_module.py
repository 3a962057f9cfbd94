"""What every LightningModule of ours has: seeds of batches, mean training loss, optimizer, schedule and clipping"""

from abc import ABC, abstractmethod

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim import Optimizer

from vit.data.batch import Batch
from vit.data.draws import seed_of
from vit.training.losses import EpochLoss
from vit.training.optim import Trainable, make_optimizer, make_schedule
from vit.training.recipes.recipe import OptimConfig


class TrainingModule(LightningModule, ABC):
    """Trains some weights by gradient descent on the loss of batches.

    Args:
        config: how weights are found.
        total_steps: number of optimizer steps of the whole training, for the schedule.
        seed: seed of dropout, hashed with batch and process, so that a resumed training draws the same numbers.
    """

    def __init__(self, config: OptimConfig, total_steps: int, seed: int) -> None:
        super().__init__()
        self.config = config
        self.total_steps = total_steps
        self.seed = seed
        self.train_loss = EpochLoss()

    @property
    @abstractmethod
    def trained(self) -> Trainable:
        """The module whose weights are found."""

    @abstractmethod
    def batch_loss(self, batch: Batch) -> Tensor:
        """The training loss of a batch."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        torch.manual_seed(seed_of(self.seed, self.trainer.fit_loop.total_batch_idx, self.global_rank))
        loss = self.batch_loss(batch)
        self.train_loss.update(loss.detach())
        return loss

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = make_optimizer(self.trained, self.config, fused=self.trainer.precision != "16-mixed")
        schedule = make_schedule(optimizer, self.config, self.total_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip by global norm. Lightning's own clipping refuses fused optimizers, though only float16 excludes them."""
        if gradient_clip_val:
            nn.utils.clip_grad_norm_(self.trained.parameters(), gradient_clip_val)
