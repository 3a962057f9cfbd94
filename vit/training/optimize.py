"""Trains the weights of a network by gradient descent, and measures the best ones"""

from collections.abc import Sequence
from dataclasses import dataclass

from lightning.pytorch import Callback

from vit.checkpoints.run import RunDirectory
from vit.data.module import ImageDataModule
from vit.models.network import Network
from vit.training.best_weights import Measured, measure_checkpoint
from vit.training.callbacks.agreement import Agreement, deciding_facts
from vit.training.callbacks.averaging import Averaging
from vit.training.callbacks.best_checkpoint import BestCheckpoint
from vit.training.callbacks.checkpoint_contents import CountConsumed, DescribeCheckpoint, KeepEpochLoss
from vit.training.callbacks.last_checkpoint import LastCheckpoint
from vit.training.callbacks.listener import Listener
from vit.training.callbacks.metrics_csv import Recorder
from vit.training.callbacks.non_finite import NonFinite
from vit.training.callbacks.unreadable import Unreadable
from vit.training.checkpoint_io import DurableCheckpointIO
from vit.training.choose_loss import choose_loss
from vit.training.classifier import Classifier
from vit.training.distributed.processes import together
from vit.training.distributed.sharding import ShardedClassifier
from vit.training.initial_network import InitialNetwork, describe
from vit.training.lora import LoraClassifier
from vit.training.planning.plan import Plan
from vit.training.result import TrainingStats
from vit.training.signals import Signals
from vit.training.trainer import make_trainer


@dataclass(frozen=True)
class Watch:
    """Whoever watches a training.

    Attributes:
        signals: signals that end the training at its next step.
        listeners: receivers of steps, rows and notices.
        callbacks: callbacks beside those that every training has.
    """

    signals: Signals
    listeners: Sequence[Listener] = ()
    callbacks: Sequence[Callback] = ()


def optimize(
    start: InitialNetwork, data: ImageDataModule, plan: Plan, run: RunDirectory, watch: Watch, resume: bool
) -> tuple[TrainingStats, Measured]:
    """Train a network, write its checkpoints and metrics.csv, and measure best.ckpt.

    Args:
        start: network with the weights to start from.
        resume: whether to continue from last.ckpt.
    """
    network, optim = start.network, plan.recipe.optim
    recorder = Recorder(
        run.metrics_path, plan.batch_size // optim.accumulate, watch.listeners, plan.source.is_multilabel
    )
    unreadable = Unreadable(recorder.notice)
    non_finite = NonFinite(network, skip=optim.on_nan == "skip")
    callbacks: list[Callback] = [
        Agreement(deciding_facts(plan)),
        CountConsumed(),
        DescribeCheckpoint(describe(plan, start.licence)),
        KeepEpochLoss(),
        non_finite,
        recorder,
        unreadable,
        *([Averaging(plan.ema_decay, non_finite)] if plan.ema_decay else []),
        *watch.callbacks,
        BestCheckpoint(run.best_path, optim.best_metric),
        LastCheckpoint(run.last_path, plan.checkpoint_seconds, watch.signals, saved=recorder.exclude_time),
    ]
    trainer = make_trainer(plan, run, callbacks, DurableCheckpointIO(run.last_path, run.previous_path, recorder.notice))
    if trainer.is_global_zero and not resume:
        run.previous_path.unlink(missing_ok=True)
    if plan.recipe.trainer.compile:
        network.compile()  # in place, so that names in checkpoints stay; compiled again for validation
    with together(trainer):
        trainer.fit(_classifier(network, plan), datamodule=data, ckpt_path=run.last_path if resume else None)
        best = measure_checkpoint(run.best_path, plan, data, trainer.strategy.root_device)
    stats = TrainingStats(
        recorder.seconds,
        recorder.images_per_second,
        trainer.global_step,
        non_finite.skipped,
        len(unreadable.errors),
        trainer.is_global_zero,
    )
    return stats, best


def _classifier(network: Network, plan: Plan) -> Classifier:
    optim, steps, seed, rank = plan.recipe.optim, plan.total_steps, plan.recipe.seed, plan.recipe.model.lora
    train, smoothing, is_mixed = plan.source.splits["train"], optim.label_smoothing, plan.augment.mixes
    loss = choose_loss(train, plan.class_balance, optim.multilabel_loss, smoothing, is_mixed)
    if plan.is_sharded:
        return ShardedClassifier(network, optim, steps, seed, loss)
    if rank is not None:
        return LoraClassifier(network, optim, steps, seed, loss, rank)
    return Classifier(network, optim, steps, seed, loss)
