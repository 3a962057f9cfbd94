"""Work for a server that may be slow or away, done in order in a thread that a training never waits for"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue

TRIES = 3
PAUSE_SECONDS = 10.0  # between two tries


class Background:
    """Carries actions out one after the other. What the server lacks while it is away is sent when it is back.

    Args:
        obstacle: why the server cannot be reached, or "". An action that fails while it can be reached has three tries.
    """

    def __init__(self, obstacle: Callable[[], str]) -> None:
        self._obstacle = obstacle
        self._actions: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._ending = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def add(self, action: Callable[[], object]) -> None:
        """Carry an action out later. Raises the error of an earlier action, after which nothing more is done."""
        if self._error is not None:
            raise self._error
        self._actions.put(action)

    def ask(self, action: Callable[[], object], seconds: float) -> None:
        """Carry an action out once, and wait for it. TimeoutError where it takes longer; else its own error."""
        future: Future[object] = Future()

        def act() -> None:
            try:
                future.set_result(action())
            except Exception as error:  # noqa: BLE001  it is raised where it is waited for
                future.set_exception(error)

        self.add(act)
        if wait([future], seconds).not_done:
            raise TimeoutError(f"no answer in {seconds:.0f} s")
        future.result()

    def finish(self, seconds: float) -> None:
        """Carry out what is left; a server that is away has one more try. TimeoutError, or the error of an action."""
        self._ending.set()
        self._actions.put(None)
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        if self._thread.is_alive():
            raise TimeoutError(f"no answer in {seconds:.0f} s")

    def _work(self) -> None:
        for action in iter(self._actions.get, None):
            tries = 0
            while True:
                is_last = self._ending.is_set()
                try:
                    action()
                    break
                except Exception as error:  # noqa: BLE001  a server may answer with anything
                    why = self._obstacle()
                    tries += not why
                    if tries == TRIES or (why and is_last):
                        self._error = ConnectionError(why) if why else error
                        return
                self._ending.wait(PAUSE_SECONDS)
