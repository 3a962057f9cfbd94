"""The LightningModule around a network: loss, metrics, steps"""

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.optim import Optimizer
from torchmetrics import MeanMetric

from vit.data.batch import Batch
from vit.data.draws import seed_of
from vit.models.network import Network
from vit.training.choose_loss import Loss
from vit.training.distillation.distillation import Distillation
from vit.training.losses import EpochLoss
from vit.training.multilabel_loss import MultilabelLoss
from vit.training.optim import make_optimizer, make_schedule
from vit.training.recipes.recipe import OptimConfig
from vit.training.validation_metrics import validation_metrics


class Classifier(LightningModule):
    """Trains a network with cross-entropy, binary for each label where an image may have several.

    It logs val/loss, the unweighted cross-entropy, and the metrics of `validation_metrics`. They count each image once
    on any number of processes: torchmetrics adds the counts, and rows that only fill a batch are left out.

    Args:
        network: images (B, 3, S, S) -> logits (B, C).
        config: how weights are found.
        total_steps: number of optimizer steps of the whole training, for the schedule.
        seed: seed of dropout, hashed with batch and process, so that a resumed training draws the same numbers.
        loss: loss of a training batch by its labels.
        distillation: loss by labels and by a teacher; None: labels alone.
    """

    def __init__(
        self,
        network: Network,
        config: OptimConfig,
        total_steps: int,
        seed: int,
        loss: Loss,
        distillation: Distillation | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.distillation = distillation
        self.config = config
        self.total_steps = total_steps
        self.seed = seed
        self.training_loss = loss
        self.train_loss = EpochLoss()
        self.val_loss = MeanMetric(
            nan_strategy="disable"
        )  # ignores weights, so it takes the loss of each image or label
        self.val_metrics = validation_metrics(network.num_classes, isinstance(loss, MultilabelLoss))

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        torch.manual_seed(seed_of(self.seed, self.trainer.fit_loop.total_batch_idx, self.global_rank))
        loss: Tensor
        if self.distillation is None:
            loss = self.training_loss(self.network(batch.image).float(), batch.label)
        else:
            loss = self.distillation.of(self.network, batch, self.training_loss)
        self.train_loss.update(loss.detach())
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        valid = batch.valid
        logits, labels = self.network(batch.image).float()[valid], batch.label[valid]
        if len(labels):
            self.val_loss.update(self.training_loss.validation_losses(logits, labels))
            self.val_metrics.update(self.training_loss.probabilities(logits), labels.long())

    def on_validation_epoch_end(self) -> None:
        self.log("val/loss", self.val_loss.compute())
        self.log_dict({f"val/{name}": value for name, value in self.val_metrics.compute().items()})
        self.val_loss.reset()
        self.val_metrics.reset()

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = make_optimizer(self.network, self.config, fused=self.trainer.precision != "16-mixed")
        schedule = make_schedule(optimizer, self.config, self.total_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip by global norm. Lightning's own clipping refuses fused optimizers, though only float16 excludes them."""
        if gradient_clip_val:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), gradient_clip_val)
