"""Processes that load data: their start, their signals and their end."""

import os
import signal
import sys
import threading
from multiprocessing import connection, parent_process
from multiprocessing.reduction import ForkingPickler
from typing import Literal

import torch

START: Literal["fork"] | None = "fork" if sys.platform == "linux" else None
"""Start method of workers; None: Python's default on this platform.

A cell of a study starts from a fork server, and its workers would do the same. The server would send them every image
in memory through /dev/shm, which is small in containers. A forked worker shares the memory of the training instead.
"""

MOST_WORKERS = 16  # that are started unless the user gives a number


def begin_worker(worker: int) -> None:
    """Lower a worker's priority, ignore signals to the process group, and end the worker with the training.

    At equal priority, workers slow the training threads of a CPU up to 10 times. A signal to the whole group (Ctrl-C,
    `scancel`) also reaches workers. A training without workers could not finish its step and save a checkpoint.
    """
    if hasattr(os, "nice"):  # not on Windows
        os.nice(10)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "sigtimedwait"):  # Linux
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_with_training, daemon=True).start()
    # Tensors go through a socket in the folder for temporary files. A full disk is reported if the socket is created
    # here, and hangs the training if the thread that sends batches creates it.
    ForkingPickler.dumps(torch.zeros(1).share_memory_())


def _end_with_training() -> None:
    """End this worker after the training, or on a SIGTERM of the training: its loader ends workers this way.

    The sentinel closes when the process that made this worker ends. A fork server may stand between the two, and then
    is the worker's parent for the system; torch's workers watch that parent alone. After a fork, later workers keep the
    sentinel open while they live. So this function also watches the parent process.
    """
    training, parent = parent_process(), os.getppid()
    assert training is not None
    while os.getppid() == parent and not connection.wait([training.sentinel], timeout=0):
        if hasattr(signal, "sigtimedwait"):
            received = signal.sigtimedwait({signal.SIGTERM}, 1.0)
            if received is not None and received.si_pid == training.pid:
                break
        else:
            connection.wait([training.sentinel], timeout=1.0)
    os._exit(0)
