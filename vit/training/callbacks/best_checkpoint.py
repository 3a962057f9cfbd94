"""best.ckpt: the weights with the lowest validation loss, with the highest value of a validation metric, or the last"""

from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

LOSS = "val/loss"  # the default: less noisy than accuracy where validation images are few, and a proper scoring rule
LAST = "val/last"  # not a metric: the step


class BestCheckpoint(ModelCheckpoint):
    """Lightning's ModelCheckpoint, which keeps the best score when a run folder moves before the training resumes.

    Of equal values the earliest wins. Weights whose validation loss is not finite win only against nothing: their
    accuracy may be that of one class.

    Args:
        path: path of best.ckpt.
        metric: `optim.best_metric` of the recipe.
    """

    def __init__(self, path: Path, metric: str) -> None:
        monitor = f"val/{metric}"
        mode = "min" if monitor == LOSS else "max"
        super().__init__(
            path.parent, path.stem, monitor, mode=mode, auto_insert_metric_name=False, enable_version_counter=False
        )

    @property
    def state_key(self) -> str:
        """The key of the state in checkpoints. The key does not depend on the name of this class."""
        return super().state_key.replace(type(self).__qualname__, ModelCheckpoint.__qualname__, 1)

    def _monitor_candidates(self, trainer: Trainer) -> dict[str, Tensor]:
        found = super()._monitor_candidates(trainer)
        if self.monitor == LAST:
            found[LAST] = torch.tensor(float(trainer.global_step), dtype=torch.float64)
        if self.monitor in found and not found[LOSS].isfinite():
            found[self.monitor] = torch.full_like(found[self.monitor], torch.nan)
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        there, here = Path(state_dict["dirpath"]), Path(str(self.dirpath))

        def moved(path: str) -> str:
            return str(here / Path(path).relative_to(there)) if path and Path(path).is_relative_to(there) else path

        paths = {key: moved(state_dict[key]) for key in ("best_model_path", "kth_best_model_path", "last_model_path")}
        best = {moved(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict({**state_dict, **paths, "best_k_models": best, "dirpath": self.dirpath})
