"""What happens when a loss, a gradient or a weight is not finite: the training stops, or skips that step"""

from collections.abc import Iterable
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from vit.data.core.batch import Batch
from vit.errors import DivergedError
from vit.training.callbacks.checkpoints import PROGRESS
from vit.training.distributed.processes import gathered

CHECK_BATCHES = 50  # between two reads of a GPU
MAX_SKIPPED = 10  # steps in a row
MIN_SCALE = (
    2.0**-24
)  # of float16's losses: 2^16 falls to this value by 40 steps that overflow, without one that does not
SHOWN = 3  # paths of a batch
_FIX_FLOAT16 = "give --precision bf16-mixed or 32-true, or lower --lr"
_FIX = "lower --lr, raise --optim.warmup, or give --precision 32-true"


class NonFinite(Callback):
    """Checks the losses, gradients and weights of a network.

    To stop, it keeps the losses on their device. It reads them rarely, because each read waits for a GPU.

    To skip, it reads every step before the optimizer acts, and removes the gradients of a bad step. Without gradients
    an optimizer changes neither the weights nor its own state. The buffers that the forward pass changed (running
    means) get their previous values.

    float16's scaler leaves out a step whose gradients overflow, and lowers its scale. Such a step counts as skipped.

    Args:
        network: the network.
        skip: whether to skip bad steps. Otherwise the first one ends the training.

    Attributes:
        skipped: number of skipped steps.
        skipped_step: the latest skipped step, counted from 0; -1 without one.
    """

    def __init__(self, network: nn.Module, skip: bool) -> None:
        self.network, self.skip = network, skip
        self.skipped, self.skipped_step, self.in_a_row = 0, -1, 0
        self._bad_step = 0
        self._unread: list[tuple[int, Tensor]] = []  # steps with their losses
        self._finite: Tensor | None = None  # whether all losses of this optimizer step are finite so far
        self._buffers: list[Tensor] = []
        self._paths: tuple[str, ...] = ()
        self._step = 0
        self._scale = 0.0  # of float16's losses after the latest step

    @property
    def bad_step(self) -> int:
        """The first optimizer step with a bad loss, counted from 1; 0 without one. The read waits for the device."""
        if self._unread:
            steps, losses = zip(*self._unread, strict=True)
            self._unread = []
            finite = torch.stack(losses).isfinite().tolist()
            bad = (step for step, is_finite in zip(steps, finite, strict=True) if not is_finite)
            self._bad_step = self._bad_step or next(bad, 0)
        return self._bad_step

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._step, self._scale = trainer.global_step, _scale(trainer)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        """Keep the buffers as they are before an optimizer step."""
        self._paths = tuple(batch.path[:SHOWN])
        if self.skip and self._finite is None:
            self._buffers = [buffer.clone() for buffer in self.network.buffers()]

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        """Check the loss of a batch.

        Raises:
            DivergedError: training is to stop, and this loss or an earlier one is not finite.
        """
        if self.skip:
            finite = loss.detach().isfinite()
            self._finite = finite if self._finite is None else self._finite & finite
        else:
            self._stop_if_bad(loss.detach(), trainer)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Skip the step if a loss or a gradient of any process is not finite.

        Raises:
            DivergedError: this is the tenth skipped step in a row.
        """
        if not self.skip:
            return
        gradients = [weight.grad for weight in self.network.parameters() if weight.grad is not None]
        finite = _whole(torch.nn.utils.get_total_norm(gradients)).isfinite()
        if self._finite is not None:
            finite = finite & self._finite.to(finite.device)
        self._finite = None
        if trainer.strategy.reduce_boolean_decision(bool(finite)):
            self.in_a_row = 0
        else:
            self._skip_step(trainer)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Count a step that float16's scaler left out.

        Raises:
            DivergedError: the scale is near zero, so that all further steps would be left out.
        """
        before, self._scale = self._scale, _scale(trainer)
        if trainer.global_step == self._step:
            return  # only a micro-batch
        self._step = trainer.global_step
        if self._scale < before and not self.skip:
            self.skipped, self.skipped_step = self.skipped + 1, self._step - 1
        if self._scale < MIN_SCALE:
            raise DivergedError(
                f"gradients do not fit into float16 at any scale, after step {self._step:,} ({_rate(trainer)})",
                _FIX_FLOAT16,
            )

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise DivergedError where no step changed the weights."""
        if self.skipped and self.skipped >= trainer.global_step:
            fix = _FIX if trainer.precision_plugin.precision != "16-mixed" else f"train for longer; {_FIX_FLOAT16}"
            raise DivergedError(f"all {self.skipped:,} steps were skipped: nothing was learned ({_rate(trainer)})", fix)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the counts of skipped steps. A good checkpoint must not be replaced by a useless one.

        Raises:
            DivergedError: a loss of any process, or a weight, is not finite.
        """
        bad_step = max(gathered(self.bad_step))
        if bad_step:
            raise _bad_loss(bad_step, trainer)
        if not _are_finite(self.network.parameters()):
            step = trainer.global_step
            raise DivergedError(f"the weights are not numbers after step {step:,} ({_rate(trainer)})", _FIX)
        counts = {"skipped": self.skipped, "skipped_step": self.skipped_step, "in_a_row": self.in_a_row}
        checkpoint.setdefault(PROGRESS, {}).update(counts)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        counts = checkpoint[PROGRESS]
        self.skipped, self.skipped_step, self.in_a_row = (
            int(counts[key]) for key in ("skipped", "skipped_step", "in_a_row")
        )

    def _stop_if_bad(self, loss: Tensor, trainer: Trainer) -> None:
        """Keep a loss, and read the losses now and then: on a CPU always, on a GPU rarely."""
        step = trainer.global_step + 1
        self._unread.append((step, loss))
        is_due = trainer.fit_loop.total_batch_idx % CHECK_BATCHES == 0 or trainer.is_last_batch
        if (is_due or loss.device.type == "cpu") and self.bad_step:
            raise _bad_loss(self.bad_step, trainer, self._paths if self.bad_step == step else ())

    def _skip_step(self, trainer: Trainer) -> None:
        for weight in self.network.parameters():
            weight.grad = None
        for buffer, before in zip(self.network.buffers(), self._buffers, strict=True):
            buffer.copy_(before)
        self.skipped_step = trainer.global_step
        self.skipped += 1
        self.in_a_row += 1
        if self.in_a_row == MAX_SKIPPED:
            raise DivergedError(
                f"loss or gradient is not a number in {MAX_SKIPPED} steps in a row, the last one step "
                f"{self.skipped_step + 1:,} ({_rate(trainer)})",
                _FIX,
            )


def _whole(number: Tensor) -> Tensor:
    """A number whose parts may lie on several processes."""
    return number.full_tensor() if isinstance(number, DTensor) else number


def _are_finite(weights: Iterable[Tensor]) -> bool:
    return bool(torch.stack([_whole(weight.detach().sum()).isfinite() for weight in weights]).all())


def _scale(trainer: Trainer) -> float:
    """The scale of float16's losses; 1 without float16."""
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    return 1.0 if scaler is None else float(scaler.get_scale())


def _bad_loss(step: int, trainer: Trainer, paths: tuple[str, ...] = ()) -> DivergedError:
    images = f"; images of the batch: {', '.join(paths)}, ..." if paths else ""
    return DivergedError(f"the loss is not a number at step {step:,} ({_rate(trainer)}{images})", _FIX)


def _rate(trainer: Trainer) -> str:
    """The highest rate of all groups, because layer decay lowers the others."""
    return f"learning rate {max(group['lr'] for group in trainer.optimizers[0].param_groups):.2g}"
