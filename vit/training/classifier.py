"""The LightningModule around a network: loss, metrics, steps"""

from torch import Tensor
from torchmetrics import MeanMetric

from vit.data.batch import Batch
from vit.errors import DataError
from vit.models.network import Network
from vit.tasks.loss import Loss
from vit.training.distillation.distillation import Distillation
from vit.training.recipes.recipe import OptimConfig
from vit.training.training_module import TrainingModule


class Classifier(TrainingModule):
    """Trains a network with cross-entropy, binary for each label where an image may have several.

    It logs val/loss, the unweighted cross-entropy, and the metrics of the loss. They count each image once
    on any number of processes: torchmetrics adds the counts, and rows that only fill a batch are left out.

    Args:
        network: images (B, 3, S, S) -> logits (B, C).
        config, total_steps, seed: as for `TrainingModule`.
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
        super().__init__(config, total_steps, seed)
        self.network = network
        self.distillation = distillation
        self.training_loss = loss
        self.val_loss = MeanMetric(
            nan_strategy="disable"
        )  # ignores weights, so it takes the loss of each image or label
        self.val_metrics = loss.metrics(network.num_classes)

    @property
    def trained(self) -> Network:
        """The network."""
        return self.network

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images)

    def batch_loss(self, batch: Batch) -> Tensor:
        if self.distillation is not None:
            return self.distillation.of(self.network, batch, self.training_loss)
        loss: Tensor = self.training_loss(self.network(batch.image).float(), batch.label)
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        valid = batch.valid
        logits, labels = self.network(batch.image).float()[valid], batch.label[valid]
        if len(labels):
            self.val_loss.update(self.training_loss.validation_losses(logits, labels))
            self.val_metrics.update(self.training_loss.probabilities(logits), labels.long())

    def on_validation_epoch_end(self) -> None:
        loss = self.val_loss.compute()
        # the decision is joint, and so is the loss
        if loss.isnan() and not self.trainer.strategy.reduce_boolean_decision(self.val_loss.update_called, all=False):
            raise DataError("no validation image can be read any more", "make the images readable again")
        self.log("val/loss", loss)
        self.log_dict({f"val/{name}": value for name, value in self.val_metrics.compute().items()})
        self.val_loss.reset()
        self.val_metrics.reset()
