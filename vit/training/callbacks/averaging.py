"""The moving average of the weights (EMA), which is evaluated and saved in their place"""

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging

from vit.training.callbacks.non_finite import NonFinite


class Averaging(EMAWeightAveraging):
    """Lightning's moving average of the weights, without the steps that `NonFinite` skips."""

    def __init__(self, decay: float, non_finite: NonFinite) -> None:
        super().__init__(decay=decay)
        self._non_finite = non_finite

    @property
    def state_key(self) -> str:
        """The key of the state in checkpoints. The key does not depend on the name of this class."""
        return EMAWeightAveraging.__qualname__

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Create the average on the device of the training: Lightning moves the network there after this call."""
        self._device = trainer.strategy.root_device
        super().setup(trainer, pl_module, stage)

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Whether this step changed the weights."""
        return super().should_update(step_idx, epoch_idx) and step_idx != self._non_finite.skipped_step
