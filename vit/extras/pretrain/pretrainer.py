"""The LightningModule around an objective, and the k-NN accuracy that shows its progress"""

from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from vit.data.batch import Batch
from vit.extras.pretrain.neighbor_accuracy import NeighborAccuracy
from vit.extras.pretrain.objective import BACKBONE, Objective
from vit.training.recipes.recipe import OptimConfig
from vit.training.training_module import TrainingModule

KNN = "val/knn_acc1"
_OBJECTIVE = "objective."


class Pretrainer(TrainingModule):
    """Trains an objective. With labeled images it logs val/knn_acc1.

    Checkpoints have the names of the backbone's weights as those of a classifier: "network." stands in front.

    Args:
        objective: the backbone, with what its pretraining needs.
        config, total_steps, seed: as for `TrainingModule`.
    """

    def __init__(self, objective: Objective, config: OptimConfig, total_steps: int, seed: int) -> None:
        super().__init__(config, total_steps, seed)
        self.objective = objective
        self.neighbors = NeighborAccuracy()
        self.resting_steps = round(objective.resting_fraction * total_steps)

    @property
    def trained(self) -> Objective:
        """The objective, whose other layers are trained with the backbone."""
        return self.objective

    def batch_loss(self, batch: Batch) -> Tensor:
        loss: Tensor = self.objective(batch.image, batch.label, batch.draw_seed)
        return loss

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Let the backbone rest in the first steps: weights without a gradient do not change."""
        if self.trainer.global_step < self.resting_steps:
            for weight in self.objective.network.parameters():
                weight.grad = None

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.add_neighbors(batch, batch.image, dataloader_idx)

    def add_neighbors(self, batch: Batch, images: Tensor, loader: int) -> None:
        """Add the features of normalized images (B, 3, S, S) to those that the accuracy of neighbors is computed of."""
        features = self.objective.network(images).flatten(1)[batch.valid]
        self.neighbors.update(features, batch.label[batch.valid], loader)

    def on_validation_epoch_end(self) -> None:
        self.log(KNN, self.neighbors.compute())
        self.neighbors.reset()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = checkpoint["state_dict"]
        checkpoint["state_dict"] = {name.replace(_OBJECTIVE + BACKBONE, BACKBONE, 1): state[name] for name in state}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = checkpoint["state_dict"]
        own = {name: _OBJECTIVE + name if name.startswith(BACKBONE) else name for name in state}
        checkpoint["state_dict"] = {own[name]: state[name] for name in state}
