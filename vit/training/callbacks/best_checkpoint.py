"""best.ckpt: the weights with the lowest validation loss"""

from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import ModelCheckpoint

MONITOR = "val/loss"  # less noisy than accuracy where validation images are few, and a proper scoring rule


class BestCheckpoint(ModelCheckpoint):
    """Lightning's ModelCheckpoint, which keeps the best score when a run folder moves before the training resumes.

    Args:
        path: path of best.ckpt.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            path.parent, path.stem, MONITOR, mode="min", auto_insert_metric_name=False, enable_version_counter=False
        )

    @property
    def state_key(self) -> str:
        """The key of the state in checkpoints. The key does not depend on the name of this class."""
        return super().state_key.replace(type(self).__qualname__, ModelCheckpoint.__qualname__, 1)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        there, here = Path(state_dict["dirpath"]), Path(str(self.dirpath))

        def moved(path: str) -> str:
            return str(here / Path(path).relative_to(there)) if path and Path(path).is_relative_to(there) else path

        paths = {key: moved(state_dict[key]) for key in ("best_model_path", "kth_best_model_path", "last_model_path")}
        best = {moved(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict({**state_dict, **paths, "best_k_models": best, "dirpath": self.dirpath})
