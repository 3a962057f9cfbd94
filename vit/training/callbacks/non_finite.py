"""What happens when a loss, a gradient or a weight is no finite number: training stops, or leaves that step out."""

from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vit.data.batch import Batch
from vit.errors import DivergedError

CHECK_BATCHES = 50
MOST_SKIPPED = 10
SMALLEST_SCALE = (
    2.0**-24
)  # of float16's losses: from 2^16 there, 40 steps must have overflowed without one that did not
_REMEDY = "lower --lr, raise --optim.warmup, or give --precision 32-true"


class Finite:
    """Watches the losses and gradients of a network.

    To stop, the first step whose loss is no number is kept on the device and read rarely: reading waits for a GPU. To
    skip, every step is read before the optimizer acts: without gradients no optimizer touches a weight or its own
    state, and what batches leave behind in the forward pass (running means) is put back.

    Args:
        skip: leave such steps out; otherwise the first one ends the training.

    Attributes:
        skipped: steps that were left out.
        skipped_step: the latest of them, counted from 0; -1: none. The average of weights leaves it out too.
    """

    def __init__(self, network: nn.Module, skip: bool) -> None:
        self.network, self.skip = network, skip
        self.skipped, self.skipped_step, self.in_a_row = 0, -1, 0
        self._bad_step: Tensor | None = None
        self._finite: Tensor | None = None  # whether all losses of this optimizer step are, so far
        self._buffers: list[Tensor] = []

    @property
    def bad_step(self) -> int:
        """The first optimizer step, counted from 1, whose loss is no number; 0: none. Waits for the device."""
        return 0 if self._bad_step is None else int(self._bad_step)

    def begin_batch(self) -> None:
        """Before the forward pass of a batch: keep the buffers as they were when its optimizer step began."""
        if self.skip and self._finite is None:
            self._buffers = [buffer.clone() for buffer in self.network.buffers()]

    def counted(self, loss: Tensor) -> tuple[Tensor, Tensor]:
        """(loss, weight) for the mean over an epoch: a loss that is skipped has no weight."""
        weight = torch.ones_like(loss)
        if not self.skip:
            return loss, weight
        finite = loss.isfinite()
        return torch.where(finite, loss, 0.0), weight * finite

    def watch(self, loss: Tensor, batch: Batch, module: LightningModule) -> None:
        """Take note of a batch's loss.

        Raises:
            DivergedError: this one or an earlier one is no number, and training is to stop.
        """
        number = module.trainer.fit_loop.total_batch_idx
        if number % CHECK_BATCHES == 0:
            _check_scale(module)
        finite = loss.isfinite()
        if self.skip:
            self._finite = finite if self._finite is None else self._finite & finite
            return
        step = module.trainer.global_step + 1
        bad = torch.zeros((), dtype=torch.int64, device=loss.device) if self._bad_step is None else self._bad_step
        self._bad_step = torch.where((bad == 0) & ~finite, step, bad)
        if number % CHECK_BATCHES and not module.trainer.is_last_batch and loss.device.type != "cpu":
            return
        if self.bad_step:
            own = f"; images of the batch: {', '.join(batch.path[:3])}, ..." if self.bad_step == step else ""
            raise DivergedError(f"the loss is not a number at step {self.bad_step:,} ({_rate(module)}{own})", _REMEDY)

    def left_out(self, module: LightningModule) -> bool:
        """Whether the optimizer step that is about to be taken has just been made to change nothing.

        Raises:
            DivergedError: it is the tenth in a row.
        """
        if not self.skip:
            return False
        gradients = [weight.grad for weight in self.network.parameters() if weight.grad is not None]
        finite = _whole(torch.nn.utils.get_total_norm(gradients)).isfinite()
        if self._finite is not None:
            finite = finite & self._finite.to(finite.device)
        self._finite = None
        if module.trainer.strategy.reduce_boolean_decision(bool(finite)):
            self.in_a_row = 0
            return False
        for weight in self.network.parameters():
            weight.grad = None
        for buffer, before in zip(self.network.buffers(), self._buffers, strict=True):
            buffer.copy_(before)
        self.skipped_step = module.trainer.global_step
        self.skipped += 1
        self.in_a_row += 1
        if self.in_a_row == MOST_SKIPPED:
            raise DivergedError(
                f"loss or gradient is not a number in {MOST_SKIPPED} steps in a row, the last one step "
                f"{self.skipped_step + 1:,} ({_rate(module)})",
                _REMEDY,
            )
        return True

    def check(self, bad_step: int, module: LightningModule) -> None:
        """Before a checkpoint: a good one must not be replaced by one that nobody can use.

        Raises:
            DivergedError: the loss was no number at `bad_step` (0: at none), or a weight is none.
        """
        if bad_step:
            raise DivergedError(f"the loss is not a number at step {bad_step:,} ({_rate(module)})", _REMEDY)
        if not torch.stack([_whole(weight.detach().sum()).isfinite() for weight in self.network.parameters()]).all():
            step = module.trainer.global_step
            raise DivergedError(f"the weights are not numbers after step {step:,} ({_rate(module)})", _REMEDY)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed training needs."""
        return {"skipped": self.skipped, "skipped_step": self.skipped_step, "in_a_row": self.in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
        self.skipped, self.skipped_step, self.in_a_row = (
            int(state[key]) for key in ("skipped", "skipped_step", "in_a_row")
        )


def _whole(number: Tensor) -> Tensor:
    """A number that sharded processes have parts of."""
    return number.full_tensor() if isinstance(number, DTensor) else number


def _check_scale(module: LightningModule) -> None:
    """Raise DivergedError if float16's loss scaling has come to nothing: it leaves steps out without a word."""
    scaler = getattr(module.trainer.precision_plugin, "scaler", None)
    if scaler is not None and scaler.get_scale() < SMALLEST_SCALE:
        step = module.trainer.global_step
        raise DivergedError(
            f"gradients do not fit into float16 at any scale, after step {step:,} ({_rate(module)})",
            "give --precision bf16-mixed or 32-true, or lower --lr",
        )


def _rate(module: LightningModule) -> str:
    return f"learning rate {module.trainer.optimizers[0].param_groups[0]['lr']:.2g}"
