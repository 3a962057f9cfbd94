"""A recipe of a pretraining becomes a plan, and the plan a run folder with a backbone; k-NN accuracy shows the progress

The loss of an objective does not say how useful the features are. The accuracy of nearest neighbors does, as in
Caron et al. 2021 (DINO, arXiv 2104.14294, section 4.1). It needs labels of some images and trains nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from torch import Tensor
from torch.optim import Optimizer
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from vit.checkpoints.format import KEY, Description, read_description, weights_of
from vit.checkpoints.io import read_checkpoint
from vit.checkpoints.result import RunResult, versions
from vit.checkpoints.run import RunDirectory
from vit.data.core.batch import Batch
from vit.data.core.samples import Source
from vit.data.loading.module import ImageDataModule
from vit.errors import UsageError
from vit.extras.pretrain.images import PretrainingData, has_progress, open_images, with_more_images
from vit.extras.pretrain.objectives import BACKBONE, Diet, Mae, Objective, check_encoder, without_classes
from vit.inference.answers.nearest import neighbor_classifier
from vit.models.network import Network
from vit.training.callbacks.metrics_csv import Recorder, columns_with
from vit.training.distributed.devices import choose_machine
from vit.training.distributed.processes import lost_process_explained
from vit.training.fit import explained_failures
from vit.training.loop import Loop, TrainingModule
from vit.training.network.initial_network import initial_network
from vit.training.observers import Listener, Observers
from vit.training.planning.compatibility import check_compatibility
from vit.training.planning.images import chosen_part, divided
from vit.training.planning.network_choice import choose_network, wanted_network
from vit.training.planning.plan import Plan, absolute, decide
from vit.training.planning.schedule import AUTO, ROUNDS
from vit.training.recipes.pretrain_recipe import UNUSED, PretrainDataConfig, PretrainRecipe
from vit.training.recipes.recipe import OptimConfig
from vit.training.recipes.values import plain
from vit.training.running.oom_retry import StepCount, start_again, until_it_fits
from vit.training.running.result import FitResult, training_facts
from vit.weights.file import write_backbone

NEIGHBORS = 5
BANK, QUERIES = 0, 1  # numbers of the validation loaders: labeled training images, validation images
KNN = "val/knn_acc1"
_OBJECTIVE = "objective."


@dataclass(frozen=True)
class PretrainPlan(Plan):
    """A pretraining, fully decided. Its network has one class, whose layers are taken out: none cannot be built."""

    recipe: PretrainRecipe

    def data_module(self) -> ImageDataModule:
        """The loaders of this plan."""
        return PretrainingData(self.source, self.preprocess, self.augment, self.loader_options, self.recipe.seed)


def pretraining_images(data: PretrainDataConfig, seed: int) -> Source:
    """The images that a recipe names: those to learn from as "train", and the other splits, which are not learned from.

    UsageError where an option is wrong; DataError where the images cannot be used.

    Args:
        seed: seed of the pretraining, which decides where `data.train_images` is without a seed of its own.
    """
    source = open_images(data)
    if source.class_names:
        source = divided(source, data)
    source = chosen_part(source, data, seed)
    return source if data.unlabeled is None else with_more_images(source, data.unlabeled)


def make_pretrain_plan(recipe: PretrainRecipe, images: Source | None) -> PretrainPlan:
    """Decide everything that a recipe leaves open, and refuse contradictions.

    Args:
        images: what `pretraining_images` gives; None: they are listed here.

    Raises:
        CheckpointError: the weights to start from cannot be used.
        UsageError: options contradict each other, or the machine.
        DataError: there are fewer images than a batch has.
    """
    images = images or pretraining_images(recipe.data, recipe.seed)
    _check_used(recipe)
    machine = choose_machine(recipe.trainer)
    wanted = wanted_network(recipe.model)
    check_compatibility(recipe, machine, wanted)
    network = choose_network(recipe.model, wanted, images, num_classes=1)
    backbone = without_classes(network.shapes, network.spec.name)
    parameters = sum(parameter.numel() for parameter in backbone.parameters())
    network = replace(network, shapes=backbone, cost=replace(network.cost, parameters=parameters))
    if recipe.method == "mae":
        check_encoder(network.shapes)  # its errors come before a run folder is made
    unlabeled = recipe.data.unlabeled
    recipe = replace(
        recipe,
        augment=replace(recipe.augment, mixup=0.0, cutmix=0.0),  # an image mixed of two has no number of its own
        data=replace(recipe.data, unlabeled=unlabeled and absolute(unlabeled)),
    )
    plan = decide(PretrainPlan, recipe, images, network, machine)
    if plan.rounds <= ROUNDS:
        return plan
    steps = replace(recipe.optim, steps=plan.total_steps)  # a measurement after each of many epochs takes much time
    return decide(PretrainPlan, replace(recipe, optim=steps), images, network, machine)


def _check_used(recipe: PretrainRecipe) -> None:
    """Raise UsageError for options that a pretraining does not use."""
    values, defaults = plain(recipe), plain(PretrainRecipe())
    for option in UNUSED:
        section, _, name = option.partition(".")
        value, default = (tree[section][name] if name else tree[section] for tree in (values, defaults))
        if value not in (default, 0):
            raise UsageError(f"--{option} is not an option of a pretraining", "leave it out")
    if recipe.optim.batch_size == AUTO:
        raise UsageError("--batch_size auto is not for a pretraining", "give a number, or leave it out")
    if recipe.trainer.strategy == "fsdp":
        raise UsageError("--strategy fsdp is not for a pretraining", "give --strategy ddp")


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
        accuracy = float(neighbor_classifier(bank.cpu().numpy(), labels, NEIGHBORS).score(queries.cpu().numpy(), truth))
        return torch.tensor(accuracy, device=bank.device)


class Pretrainer(TrainingModule):
    """Trains an objective. With labeled images it logs val/knn_acc1.

    Checkpoints have the names of the backbone's weights as those of a classifier: "network." stands in front.
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
        names = {name: _OBJECTIVE + name if name.startswith(BACKBONE) else name for name in state}
        checkpoint["state_dict"] = {names[name]: state[name] for name in state}


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


def fit_pretraining(
    plan: PretrainPlan, run: RunDirectory, listeners: Sequence[Listener] = (), resume: bool = False
) -> tuple[FitResult, Network]:
    """Train the objective of a plan, and write last.ckpt, metrics.csv and the backbone. Arguments and errors: `fit`.

    Returns:
        the result, without scores of images, and the backbone with the last weights, in evaluation mode.
    """
    data = plan.data_module()
    if plan.world_size == 1:
        data.dataset("train")  # memory that the images need is not a matter of micro-batches
    with explained_failures(plan, run) as signals:

        def attempt(plan: PretrainPlan, count: StepCount) -> tuple[FitResult, Network]:
            observers = Observers(signals, [*listeners, count])
            return _fit(observers, plan, run, resume, data.renewed(plan.loader_options))

        return until_it_fits(plan, attempt, partial(start_again, run=run, listeners=listeners), not run.can_resume)


def _fit(
    observers: Observers, plan: PretrainPlan, run: RunDirectory, resume: bool, data: ImageDataModule
) -> tuple[FitResult, Network]:
    seed_everything(plan.recipe.seed, verbose=False)
    start = initial_network(plan, resume, observers.notice, has_classes=False)
    backbone = without_classes(start.network, plan.spec.name)
    if plan.recipe.method == "mae":
        objective: Objective = Mae(backbone)
    else:
        objective = Diet(backbone, len(plan.source.splits["train"]), plan.recipe.model.init_from is not None)
    module = Pretrainer(objective, plan.recipe.optim, plan.total_steps, plan.recipe.seed)
    shows = has_progress(plan.source)
    columns, callbacks = (columns_with((KNN,)), [StartingAccuracy()]) if shows else (columns_with(()), [])
    spec = replace(plan.spec, num_classes=0)
    description = Description((), spec, plan.preprocess, plan.precision, versions=versions(), license=start.license)
    loop = Loop(module, plan, run, observers, columns, description, callbacks)
    with lost_process_explained(loop.trainer):
        loop.trainer.fit(module, datamodule=data, ckpt_path=run.last_path if resume else None)
    stats = loop.stats
    metrics: dict[str, float] = {}
    license_name = start.license
    if stats.is_first_process:
        content = read_checkpoint(run.last_path)
        description = replace(read_description(content[KEY], run.last_path), unfinished=None)
        write_backbone(description, weights_of(content), run.backbone_path)
        metrics, license_name = description.metrics, description.license
        run.previous_path.unlink(missing_ok=True)
    result = RunResult(
        **{**training_facts(plan, stats, plan.source.splits), "spec": spec},
        best_epoch=plan.rounds - 1,
        validation={name: value for name, value in metrics.items() if name.startswith("val/")},
        metrics={},
        method=plan.recipe.method,
        license=license_name,
    )
    return FitResult(result, {}, data, stats.is_first_process), objective.network.eval()
