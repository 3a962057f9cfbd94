"""Writes and reads checkpoints: a file is complete or absent, and the previous one is kept"""

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
    """Writes a temporary file beside the target, syncs, then renames. A crash or a full disk keeps the previous file.

    Lightning's own writer uses the temporary folder without a sync. Across file systems a kill left a corrupt file, and
    a full disk destroyed the good file.

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

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: object = None) -> None:
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
            with suppress(OSError):  # the folder itself may be missing
                partial.unlink(missing_ok=True)
            raise ResourceError(
                f"could not write {target}: {error}",
                "free space or choose another --out; the previous file is intact",
            ) from error

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
        """Keep the checkpoint that will be replaced under a second name, so that one of the two always exists."""
        if self.previous is None or self._last_is_broken or not last.is_file():
            self._last_is_broken = False
            return
        beside = partial_name(self.previous)
        try:
            os.link(last, beside)
            os.replace(beside, self.previous)
            beside.unlink(missing_ok=True)  # a rename between two names of one file has no effect
        except OSError:  # a file system without links
            os.replace(last, self.previous)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut. Windows cannot open a folder, so nothing happens there."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def store_temperature(path: Path, temperature: float) -> None:
    """Write a fitted temperature into the description of a checkpoint. Errors as in `DurableCheckpointIO`."""
    content = read(path)
    content[KEY]["temperature"] = temperature
    DurableCheckpointIO().save_checkpoint(content, path)
