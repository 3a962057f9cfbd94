"""The objective of a recipe, the LightningModule around it, and the k-NN accuracy that shows its progress"""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import Optimizer
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from vit.data.core.batch import Batch
from vit.extras.pretrain.diet import Diet
from vit.extras.pretrain.images import PretrainingData
from vit.extras.pretrain.mae import Mae
from vit.extras.pretrain.objective import BACKBONE, Objective, without_classes
from vit.extras.pretrain.plan import PretrainPlan
from vit.inference.answers.nearest import NeighborClassifier
from vit.models.network import Network
from vit.training.callbacks.metrics_csv import Recorder
from vit.training.loop import TrainingModule
from vit.training.recipes.recipe import OptimConfig

# The progress of a pretraining: how often the nearest labeled images have an image's label
#
# The loss of an objective does not say how useful the features are. The accuracy of nearest neighbors does, as in
# Caron et al. 2021 (DINO, arXiv 2104.14294, section 4.1). It needs labels of some images and trains nothing.

NEIGHBORS = 5
BANK, QUERIES = 0, 1  # numbers of the validation loaders: labeled training images, validation images


class NeighborAccuracy(Metric):
    """Accuracy of nearest neighbors: labels of validation images from those of the nearest training images."""

    bank: list[Tensor]
    bank_labels: list[Tensor]
    queries: list[Tensor]
    query_labels: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        for name in ("bank", "bank_labels", "queries", "query_labels"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, features: Tensor, labels: Tensor, loader: int) -> None:
        """Add features (B, D) and labels (B,) of one of the two loaders."""
        where, names = (self.bank, self.bank_labels) if loader == BANK else (self.queries, self.query_labels)
        where.append(features.float())
        names.append(labels)

    def compute(self) -> Tensor:
        """The accuracy. NaN where a feature is not finite, or no image could be read."""
        if not (len(self.bank) and len(self.queries)):
            return torch.tensor(torch.nan, device=self.device)
        bank, queries = dim_zero_cat(self.bank), dim_zero_cat(self.queries)
        if not (bank.isfinite().all() and queries.isfinite().all()):
            return torch.tensor(torch.nan, device=bank.device)
        labels, truth = dim_zero_cat(self.bank_labels).cpu().numpy(), dim_zero_cat(self.query_labels).cpu().numpy()
        found = NeighborClassifier(bank.cpu().numpy(), labels, NEIGHBORS).accuracy(queries.cpu().numpy(), truth)
        return torch.tensor(found, device=bank.device)


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
