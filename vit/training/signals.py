"""Signals that ask a training to end: heard at any moment, heeded at the next optimizer step.

Lightning's own handlers are not used: the one for SIGTERM communicates with the other processes from inside the
handler, which hangs, and the one for SLURM saves from inside it, in the middle of a step, and requeues the job.
"""

import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

NAMES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
if hasattr(signal, "SIGUSR1"):  # what SLURM sends ahead of the end of a job: sbatch --signal=USR1@120
    NAMES[signal.SIGUSR1] = "asked to end by SIGUSR1"
REPEAT_SECONDS = 1.0


class Stop(SystemExit):
    """Leaves a training because of a signal.

    Attributes:
        number: of the signal.
        step: the optimizer step that was saved; None where nothing could be.
    """

    def __init__(self, number: int, step: int | None = None) -> None:
        super().__init__(128 + number)
        self.number = number
        self.step = step

    @property
    def words(self) -> str:
        """What happened, for the error's first half."""
        name = NAMES[signal.Signals(self.number)]
        return name if self.step is None else f"{name} after step {self.step:,}, which is saved"


class Signals:
    """While entered: hears SIGINT, SIGTERM and SIGUSR1.

    Before and after the training loop (`heeded` is False) a signal leaves at once, by raising `Stop`. In the loop it is
    kept in `heard`, for the loop to save and leave at its next step. A second Ctrl-C ends the process at once.

    Attributes:
        heard: the first signal; 0 while there was none.
        heeded: whether a loop looks at `heard`.
        together: whether this is one of several processes; whoever started them may send a signal once more.
    """

    def __init__(self, leave: str) -> None:
        """`leave` is what a second Ctrl-C says last."""
        self.leave = leave
        self.heard = 0
        self.heeded = False
        self.together = False
        self._first = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():  # no other thread may
            self._before = {number: signal.signal(number, self._hear) for number in NAMES}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.heard and self.together:
            return  # torchrun passes on what the group has got already: it must not cut the last words off
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.heard:
            self.heard, self._first = number, now
            if not self.heeded:
                raise Stop(number)
            if number == signal.SIGINT:
                _say("\nsaving at the next step, then ending; Ctrl-C again ends at once\n")
        elif number == signal.SIGINT and now - self._first > REPEAT_SECONDS:  # sooner, it is the same Ctrl-C passed on
            _say(f"\nvit: error[130]: interrupted twice; {self.leave}\n")
            os._exit(130)


def _say(text: str) -> None:
    """Write past Python's buffers, which a handler may have interrupted."""
    os.write(2, text.encode("utf-8", "replace"))
