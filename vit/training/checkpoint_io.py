"""How checkpoints reach the disk and come back: a file is whole or it is not there, and the one before it is kept."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from vit.atomic_files import partial_name
from vit.checkpoints.format import KEY, read
from vit.errors import CheckpointError, ResourceError
from vit.training.distributed.meeting import readable_by_all


class DurableCheckpointIO(TorchCheckpointIO):
    """Writes beside the target, syncs, then renames: after a crash or a full disk the previous file is whole.

    Lightning's own writer goes through the temporary folder without a sync; across file systems a kill left a corrupt
    file, and a full disk destroyed the good one.

    Args:
        last: the checkpoint whose predecessor is kept; None: none is.
        previous: where.
        notice: told when `previous` had to be read in place of `last`.
    """

    def __init__(
        self, last: Path | None = None, previous: Path | None = None, notice: Callable[[str], None] = print
    ) -> None:
        super().__init__()
        self.last, self.previous, self.notice = last, previous, notice
        self._last_is_broken = False

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        target = Path(path)
        partial = partial_name(target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(partial, "wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            if target == self.last:
                self._keep(target)
            os.replace(partial, target)
            _sync_folder(target.parent)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
            with suppress(OSError):  # the folder itself may be gone
                partial.unlink(missing_ok=True)
            raise ResourceError(
                f"could not write {target}: {error}", "free space or choose another --out; the previous file is whole"
            ) from error

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """The content of a checkpoint; of the previous one where it is `last` and damaged or gone.

        Several processes get the first one's, whether or not they see its files.

        Raises:
            CheckpointError: neither can be read.
        """
        try:
            with readable_by_all(Path(path)) as file:
                return read(file)
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
                return read(file)
        except CheckpointError as older:
            if older is error:
                raise
            raise CheckpointError(f"{error.problem}, and {older.problem}", "start a new run") from older

    def _keep(self, last: Path) -> None:
        """Keep the checkpoint that is about to be replaced under a second name: there is no moment without any."""
        if self.previous is None or self._last_is_broken or not last.is_file():
            self._last_is_broken = False
            return
        beside = partial_name(self.previous)
        try:
            os.link(last, beside)
            os.replace(beside, self.previous)
            beside.unlink(missing_ok=True)  # a rename between two names of one file does nothing
        except OSError:  # a file system without links
            os.replace(last, self.previous)


def _sync_folder(folder: Path) -> None:
    """Make a rename in a folder survive a power cut, where a folder can be opened: not on Windows."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def store_temperature(path: Path, temperature: float) -> None:
    """Write the temperature that was fitted into a checkpoint's description; errors as `DurableCheckpointIO`."""
    content = read(path)
    content[KEY]["temperature"] = temperature
    DurableCheckpointIO().save_checkpoint(content, path)
