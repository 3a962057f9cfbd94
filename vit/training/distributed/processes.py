"""Several processes that train one network: they must mean the same, and none waits for long for one that is gone."""

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from lightning.fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.strategies.launchers import subprocess_script
from torch.distributed.tensor import DTensor

from vit.checkpoints.result import versions
from vit.errors import DisagreementError, ProcessesError
from vit.training.callbacks.signals import Stop
from vit.training.plan import Plan
from vit.training.recipe import UNDECIDING, plain

PATIENCE = timedelta(minutes=10)  # with a process that does not answer
LAST_WORDS = 20.0  # seconds, of the first process after another has failed
_HASHED = ("images", "options")  # of what processes compare: no person can read it
_GONE = ("gloo", "Connection reset by peer", "Connection closed by peer")


def deciding(plan: Plan) -> dict[str, str]:
    """What decides a training, in words that processes can compare; a machine may have paths of its own."""
    values = plain(plan.recipe)
    data = {key: value for key, value in values["data"].items() if key not in ("source", "root", "num_workers")}
    options = {key: value for key, value in values.items() if key not in {"data"} | UNDECIDING}
    own = {name: version for name, version in versions().items() if name != "python"}
    return {
        "classes": ", ".join(plan.source.class_names),
        "images": ", ".join(f"{split} {samples.fingerprint()}" for split, samples in plan.source.splits.items()),
        "options": hashlib.sha256(json.dumps([data, options], sort_keys=True).encode()).hexdigest(),
        **{f"versions of {name}": version for name, version in own.items()},
    }


class Agreement(Callback):
    """Compares what all processes are about to do before the first step, and their weights before every validation.

    A folder that is not the same on all machines, or another version of the program, would go unnoticed otherwise: each
    process only sees its own part of a batch. The comparison comes before DDP is built, which would end with an
    internal error of its own where other classes make weights of another shape.

    Args:
        words: what must be the same, by the name that an error calls it; see `deciding`.
    """

    def __init__(self, words: dict[str, str]) -> None:
        self.words = words

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        others = _gathered(self.words, trainer)
        for name in self.words:
            odd = [str(rank) for rank, words in enumerate(others) if words[name] != others[0][name]]
            if odd:
                told = "; ".join(dict.fromkeys(words[name] for words in others))
                told = f" ({told})" if name not in _HASHED and len(told) < 200 else ""
                raise DisagreementError(
                    f"process {', '.join(odd)} has other {name}{told} than process 0", "make the machines the same"
                )

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.world_size == 1:
            return
        # of sharded weights there is one copy, and nothing to compare
        weights = [weight for weight in pl_module.parameters() if not isinstance(weight, DTensor)]
        if not weights:
            return
        sums = torch.stack([weight.detach().double().sum() for weight in weights])
        others = _gathered(sums.tolist(), trainer)
        odd = [str(rank) for rank, other in enumerate(others) if other != others[0]]
        if odd:
            raise DisagreementError(
                f"the weights of process {', '.join(odd)} are not those of process 0 after step "
                f"{trainer.global_step:,}",
                "go on from the last checkpoint with --resume; if it happens again, suspect that machine",
            )


class PatientObserver(_ChildProcessObserver):
    """Lightning's look after the processes that it has started, which kills this one when it sees that another failed.

    That may be in the moment in which this one hears it too: it is given time to say what has happened, and to end.
    """

    def _terminate_all(self) -> None:
        time.sleep(LAST_WORDS)
        super()._terminate_all()


def observe_patiently() -> None:
    """Let Lightning start our observer in place of its own."""

    def launch(child_processes: list[subprocess.Popen[Any]]) -> None:
        PatientObserver(os.getpid(), child_processes).start()

    subprocess_script._launch_process_observer = launch


def _gathered(own: Any, trainer: Trainer) -> list[Any]:
    if trainer.world_size == 1:
        return [own]
    found = [None] * trainer.world_size
    dist.all_gather_object(found, own)
    return found


@contextmanager
def together(trainer: Trainer) -> Iterator[None]:
    """While entered: the end of another process is one clear error.

    Raises:
        ProcessesError: another process has ended, or did not answer in time.
    """
    try:
        yield
    except (RuntimeError, Stop) as error:
        if trainer.world_size == 1 or not (_says_gone(error) or _has_failed_child(trainer)):
            raise
        raise ProcessesError(
            "another process of this training has ended, or cannot be reached any more",
            "see what it said before",
        ) from error


def _says_gone(error: BaseException) -> bool:
    return isinstance(error, dist.DistError) or any(word in str(error) for word in _GONE)


def _has_failed_child(trainer: Trainer) -> bool:
    """Whether a process that Lightning started from this one has failed; Lightning then sends us SIGTERM."""
    return any(child.poll() for child in getattr(trainer.strategy.launcher, "procs", ()))
