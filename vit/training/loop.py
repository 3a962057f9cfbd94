"""The loop: everything that one training by gradient descent does between its first and its last step

Loop                        Lightning's Trainer for a plan, with our callbacks and files
  trainer.fit(module)       for each micro-batch: `training_step`, backward pass, optimizer, schedule, callbacks
    TrainingModule          seed of the batch, mean loss, `configure_optimizers` (optim.py)
      Classifier            a network, its loss and metrics (vit/tasks/), its teacher (distillation.py)
  callbacks/
    checks.py               processes agree; a loss or weight that is not finite; the end by `--patience`
    checkpoints.py          best.ckpt, last.ckpt, what they hold, and the files, with the previous one as a reserve
    metrics_csv.py          rows of metrics.csv, which the listeners get too; images that cannot be read
    averaging.py            the moving average of the weights (EMA)
"""

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim import Optimizer
from torchmetrics import MeanMetric, Metric

from vit.checkpoints.format import Description
from vit.checkpoints.run import RunDirectory
from vit.data.core.batch import Batch
from vit.data.core.draws import seed_of
from vit.errors import DataError, UsageError
from vit.models.memory_format import compile_in_place
from vit.models.network import Network
from vit.tasks.losses import Loss
from vit.tasks.task import LossOptions
from vit.training.callbacks.averaging import Averaging
from vit.training.callbacks.checkpoints import CheckpointContent, DurableCheckpointIO, LastCheckpoint
from vit.training.callbacks.checks import ConsistencyCheck, NonFinite, facts_to_compare
from vit.training.callbacks.metrics_csv import Recorder
from vit.training.distillation import Distillation
from vit.training.distributed.devices import lightning_devices, lightning_environment, shard, strategy_for
from vit.training.distributed.processes import observe_patiently
from vit.training.lora import PARTS, merged
from vit.training.losses import EpochLoss, OwnLoss, own_metric
from vit.training.observers import Observers
from vit.training.optim import Decay, Trainable, make_optimizer, make_schedule
from vit.training.planning.plan import Plan
from vit.training.recipes.recipe import OptimConfig
from vit.training.running.result import TrainingStats


class TrainingModule(LightningModule, ABC):
    """Trains some weights by gradient descent on the loss of batches.

    The seed of dropout is hashed with batch and process, so that a resumed training draws the same numbers.
    """

    def __init__(self, config: OptimConfig, total_steps: int, seed: int) -> None:
        super().__init__()
        self.config, self.total_steps, self.seed = config, total_steps, seed
        self.decay = Decay.planned(config, total_steps)
        self.train_loss = EpochLoss()

    @property
    @abstractmethod
    def trained(self) -> Trainable:
        """The module whose weights are found."""

    @abstractmethod
    def batch_loss(self, batch: Batch) -> Tensor:
        """The training loss of a batch."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        seed = seed_of(self.seed, self.trainer.fit_loop.total_batch_idx, self.global_rank)
        (torch.default_generator if self.device.type == "cpu" else torch).manual_seed(seed)  # all devices take 0.4 ms
        loss = self.batch_loss(batch)
        self.train_loss.update(loss.detach())
        return loss

    def configure_optimizers(self) -> OptimizerLRScheduler:
        self._clipped = list(self.trained.parameters())  # listed once, because it takes time
        optimizer = make_optimizer(self.trained, self.config, fused=self.trainer.precision != "16-mixed")
        schedule = make_schedule(optimizer, self.config, self.total_steps, self.decay)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip by global norm. Lightning's own clipping refuses fused optimizers, though only float16 excludes them."""
        if gradient_clip_val:
            nn.utils.clip_grad_norm_(self._clipped, gradient_clip_val)


class Classifier(TrainingModule):
    """Trains a network on labels, and on the answers of a teacher if there is one.

    It logs val/loss, the unweighted cross-entropy, and the metrics of the loss. They count each image once
    on any number of processes: torchmetrics adds the counts, and rows that only fill a batch are left out.

    Args:
        network: images (B, 3, S, S) -> logits (B, C).
        lora: rank of the network's adapters; None: there are none.
        own_loss: loss of a training batch in the place of `loss`, which validation keeps; None: `loss`.
        metrics: validation metrics beside those of the loss, by their names.
    """

    def __init__(
        self,
        network: Network,
        config: OptimConfig,
        total_steps: int,
        seed: int,
        loss: Loss,
        distillation: Distillation | None = None,
        lora: int | None = None,
        own_loss: OwnLoss | None = None,
        metrics: Mapping[str, Metric] | None = None,
    ) -> None:
        super().__init__(config, total_steps, seed)
        self.network, self.distillation, self.training_loss = network, distillation, loss
        self.lora, self.own_loss = lora, own_loss
        self.val_loss = MeanMetric(nan_strategy="disable")  # "disable" ignores weights: it takes each image's loss
        self.val_metrics = loss.metrics(network.num_classes)
        if taken := {"loss", *self.val_metrics} & set(metrics or ()):
            raise UsageError(f"--optim.metric: val/{taken.pop()} is a metric of every run", "give it another name")
        self.val_metrics.add_metrics(dict(metrics or {}))

    @classmethod
    def of(cls, plan: Plan, network: Network, distillation: Distillation | None) -> "Classifier":
        """The module of a plan: its loss, its teacher and its optimizer around the network."""
        optim, train = plan.recipe.optim, plan.source.splits["train"]
        balance = plan.class_balance
        options = LossOptions(
            optim.multilabel_loss, optim.label_smoothing, balance.weights, balance.adjustment, plan.augment.mixes
        )
        loss = train.task.loss(train.labels, options)
        seed, lora = plan.recipe.seed, plan.recipe.model.lora
        own_loss = None if optim.loss is None else OwnLoss(optim.loss)
        metrics = None if optim.metric is None else own_metric(optim.metric, train.labels, network.num_classes)
        return cls(network, optim, plan.total_steps, seed, loss, distillation, lora, own_loss, metrics)

    @property
    def trained(self) -> Network:
        return self.network

    def configure_model(self) -> None:
        if self.device_mesh is not None:  # of FSDP alone
            shard(self.network, self.device_mesh, self.trainer.precision)

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images)

    def batch_loss(self, batch: Batch) -> Tensor:
        label_loss = self.training_loss if self.own_loss is None else self.own_loss
        if self.distillation is not None:
            return self.distillation.of(self.network, batch, label_loss)
        return label_loss(self.network(batch.image).float(), batch.label)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        logits, labels = self.network(batch.image).float()[batch.valid], batch.label[batch.valid]
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

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.lora is not None:  # the weights are the sums, and the parts stand beside them
            checkpoint[PARTS] = parts = checkpoint["state_dict"]
            frozen = {name: value.detach() for name, value in self.named_parameters() if not value.requires_grad}
            checkpoint["state_dict"] = merged({**parts, **frozen}, self.lora)  # the average of equal values is rounded

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.lora is not None:
            checkpoint["state_dict"] = checkpoint[PARTS]


class Loop:
    """Lightning's Trainer for a plan. It trains a module into a run folder: `loop.trainer.fit(module, ...)`.

    The `callbacks` act before a checkpoint is saved. UsageError: Lightning does not accept the settings.
    """

    def __init__(
        self,
        module: TrainingModule,
        plan: Plan,
        run: RunDirectory,
        observers: Observers,
        columns: Sequence[str],
        description: Description,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        optim, network = plan.recipe.optim, cast(nn.Module, module.trained)
        self.recorder = Recorder(run.metrics_path, plan.batch_size // optim.accumulate, observers, columns)
        self._content = CheckpointContent(description, plan.validation_name == "epoch")
        self._non_finite = NonFinite(network, skip=optim.on_nan == "skip")
        every = [
            ConsistencyCheck(facts_to_compare(plan)),
            self._content,
            self._non_finite,
            self.recorder,
            *([Averaging(plan.ema_decay, self._non_finite)] if plan.ema_decay else []),
            *observers.callbacks,
            *callbacks,
            LastCheckpoint(run.last_path, plan.checkpoint_seconds, observers.signals, self.recorder.exclude_time),
        ]
        files = DurableCheckpointIO(run.last_path, run.previous_path, observers.notice)
        if plan.recipe.trainer.compile:
            compile_in_place(network, plan.device)  # in place, so that names in checkpoints stay
        for name in ("lightning.pytorch", "lightning.fabric"):  # notices for developers, not about the user's run
            logging.getLogger(name).setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module=r"lightning\.(pytorch|fabric)\..*")
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        observe_patiently()
        devices, machines = lightning_devices(plan.recipe.trainer, plan.device)
        try:
            self.trainer = Trainer(
                accelerator=plan.recipe.trainer.accelerator,
                devices=devices,
                num_nodes=machines,
                strategy=strategy_for(plan.world_size, plan.is_sharded),
                precision=plan.precision,  # type: ignore[arg-type]
                benchmark=not torch.are_deterministic_algorithms_enabled(),  # of cuDNN: all batches have one shape
                max_epochs=plan.rounds,
                accumulate_grad_batches=plan.recipe.optim.accumulate,
                gradient_clip_val=plan.recipe.optim.clip_norm or None,
                callbacks=every,
                plugins=[files, lightning_environment()],
                logger=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                num_sanity_val_steps=0,
                use_distributed_sampler=False,
                default_root_dir=run.path,
            )
        except (ValueError, MisconfigurationException) as error:
            problem = f"Lightning refuses the trainer's settings: {' '.join(str(error).split())[:300]}"
            raise UsageError(problem, "change trainer.*") from error
        self.trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]  # see Signals

    @property
    def stats(self) -> TrainingStats:
        # a training that is resumed after its last validation has no metrics of its own
        latest = {name: float(value) for name, value in self.trainer.callback_metrics.items()}
        metrics = {**self._content.resumed_metrics, **latest}
        return TrainingStats(
            self.recorder.seconds,
            self.recorder.images_per_second,
            self.trainer.global_step,
            self._non_finite.skipped,
            len(self.recorder.unreadable),
            self.trainer.is_global_zero,
            {name: value for name, value in metrics.items() if name.startswith("val/")},
            self.recorder.image_wait,
        )
