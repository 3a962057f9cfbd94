"""Counts training images that cannot be read, and reports them. Other images take their places."""

from collections.abc import Callable
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from vit.data.core.batch import Batch
from vit.training.distributed.processes import gathered

SHOWN = 5


class Unreadable(Callback):
    """Collects the errors of training images over all processes, and reports new ones after each epoch.

    Args:
        notice: receiver of the warning.

    Attributes:
        errors: path and reason of each unreadable image, once.
    """

    def __init__(self, notice: Callable[[str], None]) -> None:
        self.errors: set[str] = set()
        self._notice = notice
        self._num_reported = 0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: Batch, batch_idx: int
    ) -> None:
        self.errors.update(error for error in batch.error if error)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._gather()
        if trainer.is_global_zero and len(self.errors) > self._num_reported:
            some = "; ".join(sorted(self.errors)[:SHOWN]) + "; ..." * (len(self.errors) > SHOWN)
            self._notice(
                f"WARNING: {len(self.errors):,} training images cannot be read; other images take their places: {some}"
            )
        self._num_reported = len(self.errors)

    def state_dict(self) -> dict[str, object]:
        self._gather()
        return {"errors": sorted(self.errors), "told": self._num_reported}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.errors, self._num_reported = set(state_dict["errors"]), state_dict["told"]

    def _gather(self) -> None:
        self.errors = set().union(*gathered(self.errors))
