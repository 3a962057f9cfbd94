"""Trains the weights of a network by gradient descent, and measures the best ones"""

from vit.checkpoints.run import RunDirectory
from vit.data.module import ImageDataModule
from vit.models.network import Network
from vit.training.best_weights import Measured, measure_checkpoint
from vit.training.callbacks.best_checkpoint import BestCheckpoint
from vit.training.callbacks.metrics_csv import columns_with
from vit.training.classifier import Classifier
from vit.training.distillation.distillation import Distillation
from vit.training.distillation.loss import TeachingLoss
from vit.training.distillation.teacher_logits import TeacherLogits
from vit.training.distributed.processes import together
from vit.training.distributed.sharding import ShardedClassifier
from vit.training.initial_network import InitialNetwork, describe
from vit.training.loop import Loop, Watch
from vit.training.lora import LoraClassifier
from vit.training.planning.plan import Plan
from vit.training.result import TrainingStats


def optimize(
    start: InitialNetwork, data: ImageDataModule, plan: Plan, run: RunDirectory, watch: Watch, resume: bool
) -> tuple[TrainingStats, Measured]:
    """Train a network, write its checkpoints and metrics.csv, and measure best.ckpt.

    Args:
        start: network with the weights to start from.
        resume: whether to continue from last.ckpt.
    """
    best_checkpoint = BestCheckpoint(run.best_path, plan.recipe.optim.best_metric)
    columns = columns_with(plan.source.task.validation_columns)
    classifier = _classifier(start.network, plan, _distillation(plan, data))
    loop = Loop(classifier, plan, run, watch, columns, describe(plan, start.licence), [best_checkpoint])
    loop.recorder.count_before(start.seconds)
    with together(loop.trainer):
        loop.fit(data, resume)
        best = measure_checkpoint(run.best_path, plan, data, loop.trainer.strategy.root_device)
    return loop.stats, best


def _distillation(plan: Plan, data: ImageDataModule) -> Distillation | None:
    """What the network learns from its teacher. The teacher computes each image once where it can."""
    config, class_names = plan.recipe.distill, plan.source.class_names
    if plan.teacher is None or config.weight is None:
        return None
    logits = TeacherLogits(plan.teacher, plan.preprocess, class_names, plan.device, plan.precision)
    if plan.teacher_remembers:
        logits.remember(data.dataset("train"), data.options.num_workers)
    return Distillation(logits, TeachingLoss(config.kind, config.temperature, config.weight))


def _classifier(network: Network, plan: Plan, distillation: Distillation | None) -> Classifier:
    optim, steps, seed, rank = plan.recipe.optim, plan.total_steps, plan.recipe.seed, plan.recipe.model.lora
    train, smoothing, is_mixed = plan.source.splits["train"], optim.label_smoothing, plan.augment.mixes
    weights, adjustment = plan.class_balance.weights, plan.class_balance.adjustment
    loss = train.task.loss(train.labels, optim.multilabel_loss, smoothing, is_mixed, weights, adjustment)
    if plan.is_sharded:
        return ShardedClassifier(network, optim, steps, seed, loss)
    if rank is not None:
        return LoraClassifier(network, optim, steps, seed, loss, distillation, rank)
    return Classifier(network, optim, steps, seed, loss, distillation)
