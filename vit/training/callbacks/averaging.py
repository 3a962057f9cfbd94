"""The moving average of the weights (EMA), which is evaluated and saved in their place"""

from itertools import chain

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from vit.training.callbacks.checks import NonFinite


class Averaging(EMAWeightAveraging):
    """Lightning's moving average of the weights, without the steps that `NonFinite` skips."""

    def __init__(self, decay: float, non_finite: NonFinite) -> None:
        super().__init__(decay=decay)
        self._decay, self._non_finite = decay, non_finite

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Create the average on the device of the training: Lightning moves the network there after this call."""
        if stage == "fit":
            self._average_model = _Average(pl_module, trainer.strategy.root_device, self._decay)

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        return super().should_update(step_idx, epoch_idx) and step_idx != self._non_finite.skipped_step


class _Average(AveragedModel):
    """PyTorch's average in a few operations for all weights together, none of which waits for a GPU.

    PyTorch reads its count of steps from the device twice at every step, and averages the weights one by one.
    """

    def __init__(self, module: nn.Module, device: torch.device, decay: float) -> None:
        super().__init__(module, device, use_buffers=True)
        self.n_averaged = torch.zeros((), dtype=torch.long)
        self._decay = decay
        # averages and values, which change in place alone
        self._moving: tuple[list[Tensor], list[Tensor]] = [], []
        self._counts: list[tuple[Tensor, Tensor]] = []

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Add the weights and buffers after a step. Those of the first step are the average; counts are copied."""
        if not self._moving[0]:
            ours, theirs = (chain(some.parameters(), some.buffers()) for some in (self.module, model))
            for average, value in zip(ours, theirs, strict=True):
                if average.is_floating_point():
                    self._moving[0].append(average.detach())
                    self._moving[1].append(value.detach())
                else:
                    self._counts.append((average, value))
        for count, value in self._counts:
            count.copy_(value)
        torch._foreach_lerp_(*self._moving, 1.0 - self._decay if self.n_averaged else 1.0)
        self.n_averaged += 1
