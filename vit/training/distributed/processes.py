"""Several processes that train one network: they exchange values, and none waits long for one that has ended"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist
from lightning.fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from lightning.pytorch import Trainer
from lightning.pytorch.strategies.launchers import subprocess_script

from vit.errors import ProcessesError
from vit.launch import rank_and_world_size
from vit.training.signals import Stop

T = TypeVar("T")
PATIENCE = timedelta(minutes=10)  # longest wait for a process that does not answer
LAST_WORDS = 20.0  # seconds that the first process gets after another one has failed
_GONE = ("gloo", "Connection reset by peer", "Connection closed by peer")


def gathered(own: T) -> list[T]:
    """The values of all processes, in the order of their ranks. Every process must call this."""
    _, processes = rank_and_world_size()
    if processes == 1:
        return [own]
    found = [own] * processes
    dist.all_gather_object(found, own)
    return found


class PatientObserver(_ChildProcessObserver):
    """Lightning's observer of the processes that it started, which kills this process when another one has failed.

    This process may learn of the failure at the same moment. It gets time to report the failure and to end.
    """

    def _terminate_all(self) -> None:
        time.sleep(LAST_WORDS)
        super()._terminate_all()


def observe_patiently() -> None:
    """Let Lightning start our observer in place of its own."""

    def launch(child_processes: list[subprocess.Popen[Any]]) -> None:
        PatientObserver(os.getpid(), child_processes).start()

    subprocess_script._launch_process_observer = launch


@contextmanager
def lost_process_explained(trainer: Trainer) -> Iterator[None]:
    """While entered: the end of another process is one clear error.

    Raises:
        ProcessesError: another process has ended, or did not answer in time.
    """
    try:
        yield
    except (RuntimeError, Stop) as error:
        if trainer.world_size == 1 or not (_says_gone(error) or _has_failed_child(trainer, error)):
            raise
        raise ProcessesError(
            "another process of this training has ended, or cannot be reached",
            "see the message of that process",
        ) from error


def _says_gone(error: BaseException) -> bool:
    return isinstance(error, dist.DistError) or any(word in str(error) for word in _GONE)


def _has_failed_child(trainer: Trainer, error: BaseException) -> bool:
    """Whether a process that Lightning started from this one has failed. Lightning then sends SIGTERM to this one.

    A process that the same signal ended has not failed. Where all agreed to end (`step`), its end came after that.
    """
    if isinstance(error, Stop) and error.step is not None:
        return False
    asked = {error.code, -error.number} if isinstance(error, Stop) else set()
    ends = (child.poll() for child in getattr(trainer.strategy.launcher, "procs", ()))
    return any(end and end not in asked for end in ends)
