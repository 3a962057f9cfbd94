"""Loader workers: how these processes start, what they hear, and when they end."""

import os
import signal
import sys
import threading
from multiprocessing import connection, parent_process
from multiprocessing.reduction import ForkingPickler
from typing import Literal

import torch

START: Literal["fork"] | None = "fork" if sys.platform == "linux" else None
"""How workers start; None: as Python starts processes on this platform.

A cell of a study starts from a fork server, and its workers would too. That server would send them every image in
memory through /dev/shm, which is small in containers. A fork shares the memory of the training.
"""


def begin_worker(worker: int) -> None:
    """Lower a worker's priority, leave signals of the group to the training, and end the worker with the training.

    At equal priority a worker slows the training threads of a CPU up to 10 times. A signal to the whole group (Ctrl-C,
    `scancel`) reaches workers too, and a training whose workers have gone cannot reach its next step to save there.
    """
    os.nice(10)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "sigtimedwait"):  # Linux
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_with_training, daemon=True).start()
    # Tensors go through a socket in the folder for temporary files. It is made here, where a full disk is heard: in the
    # thread that sends batches it would be waited for.
    ForkingPickler.dumps(torch.zeros(1).share_memory_())


def _end_with_training() -> None:
    """Wait for the end of the training, or for a SIGTERM that the training itself sends (its loader ends workers so).

    The sentinel closes when the process that made this worker is gone, whatever started the worker: a fork server
    stands between the two, and is this worker's parent for the system. Torch's workers watch that parent alone. After a
    fork, workers that began later hold the sentinel open for as long as they live; the parent tells without a chain.
    """
    training, parent = parent_process(), os.getppid()
    assert training is not None
    while os.getppid() == parent and not connection.wait([training.sentinel], timeout=0):
        if hasattr(signal, "sigtimedwait"):
            asked = signal.sigtimedwait({signal.SIGTERM}, 1.0)
            if asked is not None and asked.si_pid == training.pid:
                break
        else:
            connection.wait([training.sentinel], timeout=1.0)
    os._exit(0)
