"""Training images that cannot be read: others stand in for them, and that is counted and said."""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from lightning.pytorch import Callback, LightningModule, Trainer

from vit.data.batch import Batch
from vit.launch import rank_and_world_size

SHOWN = 5


class Unreadable(Callback):
    """Gathers the errors of all training images, of every process; `notice` is told of new ones after each epoch.

    Attributes:
        errors: path and reason of each image, once.
    """

    def __init__(self, notice: Callable[[str], None]) -> None:
        self.errors: set[str] = set()
        self._notice = notice
        self._told = 0

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        self.errors.update(error for error in batch.error if error)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._gather()
        if trainer.is_global_zero and len(self.errors) > self._told:
            some = "; ".join(sorted(self.errors)[:SHOWN]) + "; ..." * (len(self.errors) > SHOWN)
            self._notice(
                f"WARNING: training images that cannot be read, others stand in for them: {len(self.errors):,}; {some}"
            )
        self._told = len(self.errors)

    def state_dict(self) -> dict[str, Any]:
        self._gather()
        return {"errors": sorted(self.errors), "told": self._told}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.errors, self._told = set(state_dict["errors"]), state_dict["told"]

    def _gather(self) -> None:
        _, processes = rank_and_world_size()
        if processes > 1:
            parts: list[set[str]] = [set()] * processes
            dist.all_gather_object(parts, self.errors)
            self.errors = set().union(*parts)
