"""Lightning's checkpoint files: written whole, read on every process, with the previous one as a reserve"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from vit.checkpoints.io import read_checkpoint, write_checkpoint
from vit.checkpoints.run import RunDirectory
from vit.errors import CheckpointError
from vit.training.distributed.rendezvous import readable_by_all


class DurableCheckpointIO(TorchCheckpointIO):
    """Writes checkpoints by `write_checkpoint`, and keeps the one before the last.

    Lightning's own writer goes through the temporary folder without a sync. Across file systems a kill left a corrupt
    file, and a full disk destroyed the good one.

    Args:
        last: path of the checkpoint whose predecessor is kept; None to keep no predecessor.
        previous: path of the predecessor.
        notice: receiver of the warning that `previous` was read in place of `last`.
    """

    def __init__(
        self, last: Path | None = None, previous: Path | None = None, notice: Callable[[str], None] = print
    ) -> None:
        super().__init__()
        self.last, self.previous, self.notice = last, previous, notice
        self._last_is_broken = False
        run = None if last is None else RunDirectory(last.parent.parent)
        self._run = run if run is not None and run.config_path.is_file() else None

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: object = None) -> None:
        if self._run is not None and not self._run.config_path.is_file():
            raise self._run.gone()
        is_last = Path(path) == self.last
        keeps = is_last and not self._last_is_broken
        write_checkpoint(checkpoint, Path(path), self.previous if keeps else None)
        self._last_is_broken = self._last_is_broken and not is_last

    def load_checkpoint(
        self, path: str | Path, map_location: object = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """The content of a checkpoint. If `last` is damaged or missing, the content of `previous`.

        All processes get the content of the first process, even without access to its files.

        Raises:
            CheckpointError: neither file is readable.
        """
        try:
            with readable_by_all(Path(path)) as file:
                return read_checkpoint(file)
        except CheckpointError as error:
            if Path(path) != self.last or self.previous is None:
                raise
            content = self._read_previous(self.previous, error)
            step = int(content["global_step"])
            self.notice(f"{error.problem}; going on from {self.previous.name}, step {step:,}")
        self._last_is_broken = True
        return content

    @staticmethod
    def _read_previous(previous: Path, error: CheckpointError) -> dict[str, Any]:
        try:
            with readable_by_all(previous) as file:
                if not file.is_file():
                    raise error
                return read_checkpoint(file)
        except CheckpointError as older:
            if older is error:
                raise
            raise CheckpointError(f"{error.problem}, and {older.problem}", "start a new run") from older
