"""The LightningModule around a network: loss, metrics, steps. No architecture, no files."""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from lightning.pytorch import LightningModule
from torch import Tensor
from torchmetrics import MeanMetric, MetricCollection, SumMetric
from torchmetrics.classification import MulticlassAccuracy, MulticlassCalibrationError

from vit.data.batch import Batch
from vit.data.draws import seed_of
from vit.launch import rank_and_world_size
from vit.models.network import Network
from vit.training.callbacks.non_finite import Finite
from vit.training.optim import make_optimizer, make_schedule
from vit.training.recipe import OptimConfig

PROGRESS = "progress"


class Classifier(LightningModule):
    """Trains a network with cross-entropy.

    Logged: val/loss, val/acc1, val/acc5 (more than five classes), val/ece. Metrics count each
    image once, whatever the number of processes: rows that only fill a batch up are left out, and torchmetrics adds the
    processes' counts.

    Args:
        total_steps: optimizer steps of the whole training, for the schedule.
        seed: of dropout; step and process are hashed with it, so that a resumed run draws what it would have drawn.
    """

    def __init__(self, network: Network, config: OptimConfig, total_steps: int, seed: int) -> None:
        super().__init__()
        self.network = network
        self.config = config
        self.total_steps = total_steps
        self.seed = seed
        num_classes = network.num_classes
        self.train_loss = SumMetric(nan_strategy="disable")  # NaN has its own check, without waiting for a GPU
        self.train_batches = SumMetric(nan_strategy="disable")
        self.val_loss = MeanMetric(nan_strategy="disable")  # which ignores weights: it is given each image's loss
        metrics: dict[str, Any] = {"acc1": MulticlassAccuracy(num_classes, average="micro")}
        if num_classes > 5:
            metrics["acc5"] = MulticlassAccuracy(num_classes, average="micro", top_k=5)
        self.val_metrics = MetricCollection({**metrics, "ece": MulticlassCalibrationError(num_classes, n_bins=15)})
        self.finite = Finite(network, skip=config.on_nan == "skip")

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        torch.manual_seed(seed_of(self.seed, self.trainer.fit_loop.total_batch_idx, self.global_rank))
        self.finite.begin_batch()
        logits = self.network(batch.image)
        loss = F.cross_entropy(logits.float(), batch.label, label_smoothing=self.config.label_smoothing)
        counted, weight = self.finite.counted(loss.detach())
        self.train_loss.update(counted)
        self.train_batches.update(weight)
        self.finite.watch(loss.detach(), batch, self)
        return loss

    def epoch_loss(self) -> float:
        """Mean training loss since the last call, over all processes; all of them must call it."""
        mean = float(self.train_loss.compute() / self.train_batches.compute())
        self.train_loss.reset()
        self.train_batches.reset()
        return mean

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        valid = batch.valid
        logits, labels = self.network(batch.image).float()[valid], batch.label[valid]
        if len(labels):
            self.val_loss.update(F.cross_entropy(logits, labels, reduction="none"))
            self.val_metrics.update(logits.softmax(dim=1), labels)

    def on_validation_epoch_end(self) -> None:
        if self.trainer.sanity_checking:
            return
        self.log("val/loss", self.val_loss.compute())
        self.log_dict({f"val/{name}": value for name, value in self.val_metrics.compute().items()})
        self.val_loss.reset()
        self.val_metrics.reset()

    def configure_optimizers(self) -> Any:
        optimizer = make_optimizer(self.network, self.config, fused=self.trainer.precision != "16-mixed")
        schedule = make_schedule(optimizer, self.config, self.total_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: Any = None
    ) -> None:
        """Clip by global norm; Lightning refuses fused optimizers, though only float16's loss scaling is at odds."""
        if self.finite.left_out(self):
            return
        if gradient_clip_val:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), gradient_clip_val)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what an epoch that is not over has gathered, of every process; refuse weights that are no numbers."""
        own = [float(metric.sum_value) for metric in (self.train_loss, self.train_batches)] + [self.finite.bad_step]
        parts: list[Any] = [own]
        if self.trainer.world_size > 1:
            parts = [None] * self.trainer.world_size
            dist.all_gather_object(parts, own)
        self.finite.check(max(step for _, _, step in parts), self)
        checkpoint[PROGRESS] = {"train_loss": [part[:2] for part in parts], **self.finite.state_dict()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take up what `on_save_checkpoint` has added; an earlier version of this program added nothing."""
        if PROGRESS not in checkpoint:
            return
        rank, processes = rank_and_world_size()
        parts = checkpoint[PROGRESS]["train_loss"]
        if len(parts) != processes:  # all of it goes to the first; a batch counts once for every process
            share = processes / len(parts)
            parts = [[sum(column) * share for column in zip(*parts, strict=True)], *([[0.0, 0.0]] * (processes - 1))]
        self.train_loss.update(parts[rank][0])
        self.train_batches.update(parts[rank][1])
        self.finite.load_state_dict(checkpoint[PROGRESS])
