"""The objective of a recipe, the LightningModule around it, and the k-NN accuracy that shows its progress"""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import Optimizer

from vit.data.core.batch import Batch
from vit.extras.pretrain.diet import Diet
from vit.extras.pretrain.images import PretrainingData
from vit.extras.pretrain.mae import Mae
from vit.extras.pretrain.neighbor_accuracy import NeighborAccuracy
from vit.extras.pretrain.objective import BACKBONE, Objective, without_classes
from vit.extras.pretrain.plan import PretrainPlan
from vit.models.network import Network
from vit.training.callbacks.metrics_csv import Recorder
from vit.training.loop import TrainingModule
from vit.training.recipes.recipe import OptimConfig

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


class StartingAccuracy(Callback):
    """Measures the weights before the first step. Without this row nothing would show what the pretraining adds."""

    @torch.no_grad()
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, Pretrainer)
        if trainer.global_step:
            return  # a resumed training has the row already
        data = trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, PretrainingData)
        pl_module.eval()
        with trainer.precision_plugin.val_step_context():
            for number, loader in enumerate(data.val_dataloader()):
                for batch in loader:
                    there = batch.to(pl_module.device)
                    pl_module.add_neighbors(there, data.preprocess.normalize(there.image), number)
        value = float(pl_module.neighbors.compute())
        pl_module.neighbors.reset()
        pl_module.train()
        recorder = next(callback for callback in trainer.callbacks if isinstance(callback, Recorder))  # type: ignore[attr-defined]
        recorder.write({KNN: value}, trainer)
        recorder.exclude_time()


def make_objective(network: Network, plan: PretrainPlan) -> Objective:
    """The objective of a plan around a network, whose layers for classes are taken out.

    Raises:
        UsageError: the network does not fit the method.
    """
    backbone = without_classes(network, plan.spec.name)
    if plan.recipe.method == "mae":
        return Mae(backbone)
    return Diet(backbone, len(plan.source.splits["train"]), plan.recipe.model.init_from is not None)
