"""A run: one training, its folder and its result"""

import base64
import json
import os
import platform
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vit.atomic_files import remove_partial, write_json
from vit.checkpoints.locking import hold, is_held
from vit.errors import CheckpointError, DataError, ResourceError, UsageError
from vit.layout import RunLayout


class RunDirectory(RunLayout):
    """A run folder. Every command that takes a checkpoint takes a run folder, too."""

    @property
    def can_resume(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.last_path.is_file() or self.previous_path.is_file()

    def unfinished(self) -> UsageError:
        """The error of whoever needs the result of this run before it has one: what to do about it."""
        if self.is_held():
            fix = "wait for it: it is being trained"
        elif self.can_resume:
            fix = f"finish it with 'vit train --resume {shlex.quote(str(self.path))}'"
        else:
            fix = "start it again as a new run: it has no checkpoint"
        return UsageError(f"{self.path} has no {self.result_path.name}: its training has not finished", fix)

    @contextmanager
    def held(self, wait: bool = False) -> Iterator[None]:
        """Keep other processes from training into this folder, and remove what a killed one had not finished writing.

        A process that is killed does not hold it any more.

        Args:
            wait: for the process that does, instead of an error.

        Raises:
            ResourceError: another one does.
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

    def read_result(self) -> "RunResult | None":
        """The content of result.json; None while the run is not finished.

        Raises:
            DataError: the file is damaged.
        """
        return RunResult.read(self.result_path) if self.result_path.is_file() else None

    @classmethod
    def below(cls, out: str, data: str, network: str) -> "list[RunDirectory]":
        """The runs that `create` has made in such a place, in no order."""
        parent = Path(out).expanduser() / slug(data) / slug(network)
        return [run for run in map(cls, parent.glob("*")) if run.config_path.is_file()]

    @classmethod
    def create(cls, out: str, data: str, network: str, name: str | None) -> "RunDirectory":
        """A new folder OUT/DATA/NETWORK/TIME[-NAME]; an existing one is never used again.

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
        """An existing run; UsageError when the folder is none."""
        run = cls(path.expanduser())
        if not run.config_path.is_file():
            raise UsageError(
                f"{path} is not a run folder: it has no {run.config_path.name}", "give a folder that 'vit train' made"
            )
        return run


def checkpoint_of(path: Path) -> Path:
    """The checkpoint that RUN|CKPT means: the file itself, or the run's best."""
    path = path.expanduser()
    if not path.is_dir():
        return path
    run = RunDirectory(path)
    for candidate in (run.best_path, run.last_path):
        if candidate.is_file():
            return candidate
    raise CheckpointError(
        f"{path} has no {run.best_path.relative_to(path)}", "give a run folder or a checkpoint that 'vit train' wrote"
    )


def slug(name: str) -> str:
    """A name as part of a path: letters, digits, dot, dash and underscore; never empty, hidden or longer than 80."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "data"


def _prove_writable(folder: Path) -> None:
    """Write and sync a file: a full or read-only disk must show before the first step, not at the first checkpoint."""
    probe = folder / ".probe"
    with open(probe, "wb") as file:
        file.write(b"\0" * 4096)
        file.flush()
        os.fsync(file.fileno())
    probe.unlink()


def versions() -> dict[str, str]:
    """Versions of everything that decides a number."""
    packages = ("vit-lightning", "torch", "torchvision", "lightning", "timm", "torchmetrics", "numpy", "pillow")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


@dataclass(frozen=True)
class RunResult:
    """What a finished run found; result.json. A study's result is many of these and nothing else.

    Attributes:
        metrics: of the best checkpoint on the test images, with 95 % intervals: {name: {value, low, high}}.
        validation: the same checkpoint's metrics on the validation images, as training saw them: without temperature.
        temperature: that the validation images asked for; `metrics` are with it.
        uncalibrated: nll and ece on the test images without it.
        epochs: passes over the training images; a broken number where the length was given in steps.
        images_per_second: training images per second of training, validation and saving left out.
        correct: whether each image of a split is right, in order: the bits that `unpack` reads.
        seconds: of the whole fit, the parts of an interrupted one together.
        skipped_steps: optimizer steps that were left out because a loss or gradient was no number.
        unreadable_images: training images that could not be read; others stood in for them.
        images: of each split; of validation and test those that were measured.
        left_out: validation and test images that could not be read and were not measured: {split: {path: reason}}.
    """

    network: dict[str, Any]
    parameters: int
    flops: int
    data: str
    classes: int
    images: dict[str, int]
    fingerprints: dict[str, str]
    seed: int
    epochs: float
    steps: int
    batch_size: int
    seconds: float
    images_per_second: float
    device: str
    precision: str
    best_epoch: int
    validation: dict[str, float]
    metrics: dict[str, dict[str, float]]
    temperature: float = 1.0
    uncalibrated: dict[str, dict[str, float]] = field(default_factory=dict)
    correct: dict[str, str] = field(default_factory=dict)
    skipped_steps: int = 0
    unreadable_images: int = 0
    left_out: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)

    @classmethod
    def read(cls, path: Path) -> "RunResult":
        """Read result.json; DataError where the file is damaged."""
        known = {field.name for field in fields(cls)}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{name: value for name, value in content.items() if name in known})
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is damaged: {error}", "restore the file, or train again") from error

    def write(self, path: Path) -> None:
        """Write result.json whole or not at all."""
        write_json(path, asdict(self))


def pack(correct: npt.NDArray[np.bool_]) -> str:
    """(n,) truth values as text, eight to a byte."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode("ascii")


def unpack(text: str, count: int) -> npt.NDArray[np.bool_]:
    """What `pack` made text of; ValueError when it holds fewer."""
    bits = np.unpackbits(np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8))
    if len(bits) < count:
        raise ValueError(f"{len(bits)} bits for {count} images")
    return bits[:count].astype(np.bool_)
