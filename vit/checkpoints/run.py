"""The run folder of one training: every file name in it, who may train into it, its result"""

import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vit.atomic_files import remove_partial
from vit.checkpoints.locking import hold, is_held
from vit.checkpoints.result import RunResult
from vit.errors import CheckpointError, ResourceError, UsageError
from vit.layout import RunLayout, is_of_pretraining
from vit.plain_files import read_text


class RunDirectory(RunLayout):
    """A run folder. Every command that takes a checkpoint takes a run folder, too."""

    @property
    def can_resume(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.last_path.is_file() or self.previous_path.is_file()

    @property
    def is_pretraining(self) -> bool:
        """Whether the folder is of `vit pretrain`, whose network has no classes."""
        return self.config_path.is_file() and is_of_pretraining(read_text(self.config_path))

    @property
    def how_to_resume(self) -> str:
        """The command that continues this run."""
        return f"vit {'pretrain' if self.is_pretraining else 'train'} --resume {shlex.quote(str(self.path))}"

    def read_result(self) -> RunResult | None:
        """The content of result.json; None while the run is not finished.

        Raises:
            DataError: the file is damaged.
        """
        return RunResult.read(self.result_path) if self.result_path.is_file() else None

    def finished_result(self) -> RunResult:
        """The content of result.json.

        Raises:
            UsageError: the run is not finished, or is a pretraining.
            DataError: the file is damaged.
        """
        if self.is_pretraining:
            raise has_no_classes(self.path)
        result = self.read_result()
        if result is None:
            raise self.unfinished()
        return result

    def unfinished(self) -> UsageError:
        """The error of a command that needs the result of this run before there is one."""
        if self.is_held():
            fix = "wait for it: it is being trained"
        elif self.can_resume:
            fix = f"finish it with '{self.how_to_resume}'"
        else:
            fix = "start it again as a new run: it has no checkpoint"
        return UsageError(f"{self.path} has no {self.result_path.name}: its training has not finished", fix)

    @contextmanager
    def held(self, wait: bool = False) -> Iterator[None]:
        """Keep other processes from training into this folder, and remove partial files of a killed process.

        The lock of a process that is killed is free.

        Args:
            wait: whether to wait for a process that holds the folder, instead of an error.

        Raises:
            ResourceError: another process holds the folder.
        """
        file = hold(self.lock_path, wait)
        if file is None:
            raise ResourceError(f"another process is training into {self.path}", "wait for it, or end it")
        with file:
            for folder in (self.path, self.best_path.parent, self.predictions_dir, self.figures_dir):
                remove_partial(folder)
            try:
                yield
            finally:
                self.lock_path.unlink(missing_ok=True)

    def is_held(self) -> bool:
        """Whether another process is training into this folder."""
        return is_held(self.lock_path)

    @classmethod
    def below(cls, out: str, data: str, network: str) -> "list[RunDirectory]":
        """The runs that `create` made for these names, in any order."""
        parent = Path(out).expanduser() / slug(data) / slug(network)
        return [run for run in map(cls, parent.glob("*")) if run.config_path.is_file()]

    @classmethod
    def create(cls, out: str, data: str, network: str, name: str | None) -> "RunDirectory":
        """A new folder OUT/DATA/NETWORK/TIME[-NAME]. Each training writes to a new run folder.

        Raises:
            ResourceError: the folder cannot be made or written.
        """
        stamp = time.strftime("%Y%m%d-%H%M%S") + (f"-{slug(name)}" if name else "")
        parent = Path(out).expanduser() / slug(data) / slug(network)
        for attempt in range(1, 1000):
            path = parent / (stamp if attempt == 1 else f"{stamp}-{attempt}")
            try:
                path.mkdir(parents=True)
                _prove_writable(path)
            except FileExistsError:
                continue
            except OSError as error:
                raise ResourceError(
                    f"cannot write to {path}: {error.strerror}", "choose another folder with --out"
                ) from error
            return cls(path)
        raise ResourceError(f"{parent} holds a thousand runs of this second", "choose another folder with --out")

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """An existing run; UsageError when the folder is not one."""
        run = cls(path.expanduser())
        if not run.config_path.is_file():
            raise UsageError(
                f"{path} is not a run folder: it has no {run.config_path.name}", "give a folder that 'vit train' made"
            )
        return run


def has_no_classes(path: Path) -> UsageError:
    """The error of a command that needs classes, where a path is of a pretraining."""
    return UsageError(
        f"{path} is of a pretraining: its network has no classes", f"train them: vit train DATA --init_from {path}"
    )


def start_of(path: Path) -> Path:
    """The file that RUN|FILE means as weights to start from: a pretraining's backbone, or as `checkpoint_of`."""
    path = path.expanduser()
    run = RunDirectory(path)
    if not (path.is_dir() and run.is_pretraining):
        return checkpoint_of(path)
    found = [file for file in (run.backbone_path, run.last_path) if file.is_file()]
    if not found:
        raise run.unfinished()
    return found[0]


def checkpoint_of(path: Path) -> Path:
    """The checkpoint that RUN|CKPT means: the file itself, or the run's best.

    Raises:
        CheckpointError: the run has no checkpoint.
        UsageError: the run is a pretraining.
    """
    path = path.expanduser()
    if not path.is_dir():
        return path
    run = RunDirectory(path)
    if run.is_pretraining:
        raise has_no_classes(path)
    for candidate in (run.best_path, run.last_path):
        if candidate.is_file():
            return candidate
    raise CheckpointError(
        f"{path} has no {run.best_path.relative_to(path)}", "give a run folder or a checkpoint that 'vit train' wrote"
    )


def slug(name: str) -> str:
    """A name as part of a path: letters, digits, dots, dashes, underscores; never empty, hidden or longer than 80."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "data"


def _prove_writable(folder: Path) -> None:
    """Write and sync a file: a full or read-only disk must show before the first step, not at the first checkpoint."""
    probe = folder / ".probe"
    with open(probe, "wb") as file:
        file.write(b"\0" * 4096)
        file.flush()
        os.fsync(file.fileno())
    probe.unlink()
