"""Who observes a training: listeners (a progress bar, a log, a tracker), callbacks, and the signals that end it

A signal is received at any moment and obeyed at the next optimizer step. Lightning's own handlers are not used. Its
SIGTERM handler communicates with the other processes inside the handler, which hangs. Its SLURM handler saves inside
the handler, in the middle of a step, and requeues the job.
"""

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from vit.training.recipes.recipe import Recipe

if TYPE_CHECKING:
    from lightning.pytorch import Callback

_WORDS = {
    "SIGINT": "interrupted",
    "SIGTERM": "terminated",
    "SIGUSR1": "asked to end by SIGUSR1",  # which SLURM sends before the end of a job: sbatch --signal=USR1@120
    "SIGHUP": "left by its terminal (SIGHUP)",
    "SIGXCPU": "out of CPU time (SIGXCPU)",
}
NAMES = {signal.Signals[name]: words for name, words in _WORDS.items() if hasattr(signal, name)}
_HUP = getattr(signal, "SIGHUP", None)
REPEAT_SECONDS = 1.0


class Stop(SystemExit):
    """Ends a training because of a signal, at the optimizer step of the saved checkpoint (None: there is none)."""

    def __init__(self, number: int, step: int | None = None) -> None:
        super().__init__(128 + number)
        self.number, self.step = number, step

    @property
    def words(self) -> str:
        name = NAMES[signal.Signals(self.number)]
        return name if self.step is None else f"{name} after step {self.step:,}, which is saved"


class Signals:
    """While entered: handles SIGINT, SIGTERM, SIGUSR1, SIGXCPU, and SIGHUP unless it is ignored (nohup).

    Outside the training loop a signal ends the training at once, by raising `Stop`. In the loop the signal is kept in
    `received`. The loop then saves and ends at its next step. A second Ctrl-C ends the process at once, with `advice`.
    """

    def __init__(self, advice: str) -> None:
        self.advice = advice
        self.received = 0  # number of the first signal; 0 before a signal
        self.in_loop = False  # whether a training loop checks `received`
        self.together = False  # whether this is one of several processes, whose launcher may send a signal once more
        self._first = 0.0
        self._before: dict[int, Any] = {}
        self._terminals: list[int] = []

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():  # Python allows handlers only there
            ignored = {_HUP} if _HUP and signal.getsignal(_HUP) == signal.SIG_IGN else set()
            self._before = {number: signal.signal(number, self._receive) for number in NAMES.keys() - ignored}
            self._terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.received and self.together:
            return  # torchrun sends the signal of the group again, which must not cut the last message off
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if number == _HUP:  # what is printed to a terminal that is gone would be an error
            for descriptor in self._terminals:
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        if not self.received:
            self.received, self._first = number, now
            if not self.in_loop:
                raise Stop(number)
            if number == signal.SIGINT:
                _print("\nsaving at the next step, then ending; Ctrl-C again ends at once\n")
        elif number == signal.SIGINT and now - self._first > REPEAT_SECONDS:  # a sooner one is the same Ctrl-C again
            _print(f"\nvit: error[130]: interrupted twice; {self.advice}\n")
            os._exit(130)


def _print(text: str) -> None:
    """Write to standard error without Python's buffers, which the signal may have interrupted."""
    os.write(2, text.encode("utf-8", "replace"))


class Listener:
    """Receives the steps, rows and notices of a training, on the first process. By default nothing follows."""

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        """The step number `done` of `total` ended. `loss`: mean of about 20 steps, on a GPU up to a second old."""

    def row(self, row: dict[str, float], step: int) -> None:
        """A row was added to metrics.csv."""

    def notice(self, text: str) -> None:
        """A message for the user."""

    def replanned(self, recipe: Recipe) -> None:
        """The training starts again with another recipe."""


@dataclass(frozen=True)
class Observers:
    """The observers of a training."""

    signals: Signals  # signals that end the training at its next step
    listeners: Sequence[Listener] = ()  # receivers of steps, rows and notices
    callbacks: Sequence["Callback"] = ()  # callbacks beside those that every training has

    def notice(self, text: str) -> None:
        for listener in self.listeners:
            listener.notice(text)
