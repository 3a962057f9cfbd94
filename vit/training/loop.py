"""The training loop of everything that is trained by gradient descent, with its callbacks, its files and its counts"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from lightning.pytorch import Callback
from torch import nn

from vit.checkpoints.format import Description
from vit.checkpoints.run import RunDirectory
from vit.data.module import ImageDataModule
from vit.models.memory_format import compile_in_place
from vit.training.callbacks.agreement import Agreement, deciding_facts
from vit.training.callbacks.checkpoint_contents import CountConsumed, DescribeCheckpoint, KeepEpochLoss
from vit.training.callbacks.last_checkpoint import LastCheckpoint
from vit.training.callbacks.listener import Listener
from vit.training.callbacks.metrics_csv import Recorder
from vit.training.callbacks.non_finite import NonFinite
from vit.training.callbacks.sharded_averaging import averaging
from vit.training.callbacks.unreadable import Unreadable
from vit.training.checkpoint_io import DurableCheckpointIO
from vit.training.planning.plan import Plan
from vit.training.result import TrainingStats
from vit.training.signals import Signals
from vit.training.trainer import make_trainer
from vit.training.training_module import TrainingModule


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

    def notice(self, text: str) -> None:
        """Pass a message for the user to the listeners."""
        for listener in self.listeners:
            listener.notice(text)


class Loop:
    """Trains a module into a run folder: metrics.csv, last.ckpt, exact resume, signals, several processes.

    Args:
        module: the weights to find, with their loss.
        plan: the training.
        run: its folder.
        watch: whoever watches.
        columns: columns of metrics.csv.
        description: description of every checkpoint.
        callbacks: callbacks that act before a checkpoint is saved.

    Attributes:
        trainer: Lightning's trainer.
        recorder: writer of metrics.csv.
    """

    def __init__(
        self,
        module: TrainingModule,
        plan: Plan,
        run: RunDirectory,
        watch: Watch,
        columns: Sequence[str],
        description: Description,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        optim = plan.recipe.optim
        self.module, self.plan, self.run = module, plan, run
        self.recorder = Recorder(run.metrics_path, plan.batch_size // optim.accumulate, watch.listeners, columns)
        self._unreadable = Unreadable(self.recorder.notice)
        self._describe = DescribeCheckpoint(description, plan.rounds if plan.validation_name == "epoch" else None)
        self._non_finite = NonFinite(cast(nn.Module, module.trained), skip=optim.on_nan == "skip")
        every = [
            Agreement(deciding_facts(plan)),
            CountConsumed(),
            self._describe,
            KeepEpochLoss(),
            self._non_finite,
            self.recorder,
            self._unreadable,
            *averaging(plan.ema_decay, self._non_finite, plan.is_sharded),
            *watch.callbacks,
            *callbacks,
            LastCheckpoint(run.last_path, plan.checkpoint_seconds, watch.signals, saved=self.recorder.exclude_time),
        ]
        files = DurableCheckpointIO(run.last_path, run.previous_path, self.recorder.notice)
        self.trainer = make_trainer(plan, run, every, files)

    def fit(self, data: ImageDataModule, resume: bool) -> None:
        """Train to the last step.

        Args:
            resume: whether to continue from last.ckpt.
        """
        if self.plan.recipe.trainer.compile:
            # in place, so that names in checkpoints stay; compiled again for validation
            compile_in_place(cast(nn.Module, self.module.trained), self.plan.device)
        self.trainer.fit(self.module, datamodule=data, ckpt_path=self.run.last_path if resume else None)

    @property
    def stats(self) -> TrainingStats:
        """Duration and counts so far, and the latest validation."""
        # a training that is resumed after its last validation has no metrics of its own
        latest = {name: float(value) for name, value in self.trainer.callback_metrics.items()}
        metrics = {**self._describe.resumed_metrics, **latest}
        return TrainingStats(
            self.recorder.seconds,
            self.recorder.images_per_second,
            self.trainer.global_step,
            self._non_finite.skipped,
            len(self._unreadable.errors),
            self.trainer.is_global_zero,
            {name: value for name, value in metrics.items() if name.startswith("val/")},
            self.recorder.image_wait,
        )
