"""The moving average of the weights (EMA), which is evaluated and saved in their place"""

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging
from torch.optim.swa_utils import PARAM_LIST, AveragedModel

from vit.training.callbacks.checks import NonFinite


class Averaging(EMAWeightAveraging):
    """Lightning's moving average of the weights, without the steps that `NonFinite` skips."""

    def __init__(self, decay: float, non_finite: NonFinite) -> None:
        super().__init__(decay=decay)
        self._decay, self._non_finite = decay, non_finite

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Create the average on the device of the training: Lightning moves the network there after this call.

        All weights are averaged in a few operations, where Lightning's own average takes one for each.
        """
        if stage == "fit":
            device = trainer.strategy.root_device
            self._average_model = AveragedModel(pl_module, device, multi_avg_fn=self._average, use_buffers=True)
            self._average_model.n_averaged = torch.zeros((), dtype=torch.long)  # read at each step: a GPU would wait

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        return super().should_update(step_idx, epoch_idx) and step_idx != self._non_finite.skipped_step

    @torch.no_grad()
    def _average(self, averages: PARAM_LIST, current: PARAM_LIST, _: object) -> None:
        """Update tensors of one type. Whole numbers, such as places in Swin's table of positions, have no average."""
        if averages[0].is_floating_point():
            torch._foreach_lerp_(averages, current, 1 - self._decay)
        else:
            torch._foreach_copy_(averages, current)
