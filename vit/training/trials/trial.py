"""The first steps of a training on copies of everything. Nothing of them remains but what a callback has seen"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lightning.pytorch import Callback, seed_everything

from vit.checkpoints.run import RunDirectory
from vit.data.loading.module import ImageDataModule
from vit.errors import ResourceError, StoppedError
from vit.training.callbacks.listener import Listener, Observers
from vit.training.fit import train_network
from vit.training.network.initial_network import initial_network
from vit.training.planning.plan import Plan
from vit.training.running.oom_retry import free_memory
from vit.training.signals import Signals, Stop

_PREFIX = ".trial-"
_STALE_SECONDS = 86_400.0


class StopTrial(Exception):  # noqa: N818  not an error
    """Ends a trial before its validation."""


@dataclass(frozen=True)
class Trial:
    """The beginning of a training, which can be carried out as often as is needed.

    A trial has its own weights, optimizer, loaders and folder. The training itself starts from its seed afterwards, so
    that it does not depend on trials. Only the images that memory holds are shared, because they never change.
    """

    plan: Plan  # the training, which one process carries out
    data: ImageDataModule  # its loaders
    signals: Signals  # signals that end the trial

    def of(self, plan: Plan) -> "Trial":
        """The same with another plan."""
        return replace(self, plan=plan)

    def run(self, callback: Callback, *listeners: Listener) -> None:
        """Train until the callback raises `StopTrial`, or else through the validation and the scores at the end."""
        plan = self.plan
        with _throw_away_folder(Path(plan.recipe.out).expanduser()) as folder, suppress(StopTrial):
            seed_everything(plan.recipe.seed, verbose=False)
            start = initial_network(plan, resume=False, notice=lambda _: None)
            observers, data = Observers(self.signals, listeners, (callback,)), self.data.renewed(plan.loader_options)
            train_network(start, data, plan, RunDirectory(folder), observers, resume=False)
        self.clear()

    def clear(self) -> None:
        """Free the memory of a trial that has ended or failed."""
        self.signals.in_loop = False
        free_memory(self.plan.device)


@contextmanager
def trials(plan: Plan) -> Iterator[Trial]:
    """While entered: trials of a plan, with all images in memory that the training keeps there.

    Raises:
        StoppedError: a signal ended a trial.
    """
    with Signals("start it again") as signals:
        try:
            data = plan.data_module()
            for split in plan.source.splits:
                data.dataset(split)  # so that no trial measures it
            yield Trial(plan, data, signals)
        except Stop as stop:
            raise StoppedError(
                128 + stop.number, f"{Stop(stop.number).words} during trial steps", "start it again"
            ) from stop


@contextmanager
def _throw_away_folder(out: Path) -> Iterator[Path]:
    """A folder on the disk of the runs, whose speed is part of a measurement; those of killed processes are removed."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob(f"{_PREFIX}*"):
            if time.time() - old.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=out)
    except OSError as error:
        raise ResourceError(f"cannot write to {out}: {error.strerror}", "choose another folder with --out") from error
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
