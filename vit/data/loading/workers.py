"""Processes that load data: their start, their signals and their end."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, current_process, parent_process
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from vit.errors import TOO_MANY_FILES, ResourceError, VitError
from vit.launch import shorten_socket_paths

START: Literal["fork"] | None = "fork" if sys.platform == "linux" else None
"""Start method of workers; None: Python's default on this platform.

A forked worker shares the memory of the training. A fork server, from which the cells of a study start, would send it
every image in memory through /dev/shm, which is small in containers.
"""

MOST_WORKERS = 16  # that are started unless the user gives a number
LOST_WORKER = "DataLoader worker exited unexpectedly"  # PyTorch's words, which `vit.__main__` knows
_DESCRIPTORS = 12  # of a worker: pipes, and tensors of two batches on their way
_ENDING = 5.0  # seconds in which a worker that closed its connection ends


def begin_worker(worker: int) -> None:
    """Lower a worker's priority, ignore signals to the process group, and end the worker with the training.

    At equal priority, workers slow the training threads of a CPU up to 10 times. A signal to the whole group (Ctrl-C,
    `scancel`) also reaches workers. A training without workers could not finish its step and save a checkpoint.
    """
    if hasattr(os, "nice"):  # not on Windows
        os.nice(10)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "sigtimedwait"):  # Linux
        for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGXCPU):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    # threads send batches: where one fails, it prints a traceback, and the training waits for its batch for ever
    Queue._on_queue_feeder_error = staticmethod(lambda error, _: _end_for(error))  # type: ignore[attr-defined]
    sys.excepthook = lambda _, error, __: _end_for(error)  # resource_sharer calls it
    threading.excepthook = lambda failed: _end_for(failed.exc_value)
    # a folder of its own for sockets: the one of the study that started this training has those of other cells
    _settings().pop("tempdir", None)
    shorten_socket_paths()
    threading.Thread(target=_end_with_training, daemon=True).start()
    # Tensors go through a socket in the folder for temporary files. A full disk is reported if the socket is created
    # here, and hangs the training if the thread that sends batches creates it.
    ForkingPickler.dumps(torch.zeros(1).share_memory_())


def _end_for(error: BaseException | None) -> None:
    """End this worker, with the error's number as exit code. A training that closed a connection has its own error."""
    if not isinstance(error, EOFError | ConnectionError):
        _end(getattr(error, "errno", None) or 1)


def _end(code: int) -> None:
    """End this worker at once, and remove the folder of its sockets."""
    shutil.rmtree(_settings().get("tempdir") or "", ignore_errors=True)
    os._exit(code)


def _settings() -> dict[str, Any]:
    """What multiprocessing keeps of this process."""
    return current_process()._config  # type: ignore[attr-defined]


def _end_with_training() -> None:
    """End this worker after the training, or on a SIGTERM of the training: its loader ends workers this way.

    The sentinel closes when the process that made this worker ends. A fork server may stand between the two, and is
    then the worker's parent. After a fork, later workers keep the sentinel open. So both are watched.
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
    _end(0)


class Shareable(Protocol):
    """What a worker sends."""

    def share_memory(self) -> None:
        """Move the content, in place, to memory that processes share; RuntimeError where there is too little."""


T = TypeVar("T", bound=Shareable)
T_co = TypeVar("T_co", bound=Shareable, covariant=True)


class Batches(Protocol[T_co]):
    """A dataset of whole batches."""

    def __getitems__(self, keys: Any, /) -> T_co:
        """The batch of some keys."""


def worker_loader(
    batches: Batches[T], keys: Iterable[Sequence[Any]], workers: int, keep_workers: bool = False, pinned: bool = False
) -> "Loader[T]":
    """The batches of some keys, in order. A VitError of a worker is raised here, with its fix.

    Args:
        keys: the keys of each batch, which has a length.
        workers: number of processes; 0: this one.
        keep_workers: whether the processes stay for another iteration.
        pinned: whether batches come in page-locked memory.
    """
    return Loader(
        _ErrorsAsValues(batches),  # type: ignore[arg-type]
        batch_sampler=keys,  # type: ignore[arg-type]
        collate_fn=_as_is,
        num_workers=workers,
        persistent_workers=workers > 0 and keep_workers,
        worker_init_fn=begin_worker if workers else None,
        pin_memory=pinned,
        multiprocessing_context=START if workers else None,
    )


class Loader(DataLoader[T]):
    """A loader that raises the errors of `_ErrorsAsValues`."""

    waited = 0.0  # seconds that whoever takes the batches has waited for them; without workers, that they were made in

    def __iter__(self) -> Iterator[T]:  # type: ignore[override]
        began = time.perf_counter()
        if self.num_workers and self._iterator is None:
            _check_descriptors(_DESCRIPTORS * (self.num_workers + 1))
        batches = super().__iter__()
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except (EOFError, ConnectionError, RuntimeError) as error:
                if isinstance(error, RuntimeError) and "exited unexpectedly" not in str(error):
                    raise
                workers = getattr(batches, "_workers", ())  # one of them has ended in the middle of a batch
                connection.wait([worker.sentinel for worker in workers], timeout=_ENDING)
                codes = [worker.exitcode for worker in workers if worker.exitcode]
                raise RuntimeError(f"{LOST_WORKER} with exit code {codes[0] if codes else 1}") from error
            self.waited += time.perf_counter() - began
            if isinstance(batch, VitError):
                raise batch
            yield batch
            began = time.perf_counter()


def _check_descriptors(number: int) -> None:
    """Raise ResourceError if this process cannot open so many files: later, a worker or a thread would fail."""
    opened: list[int] = []
    try:
        while len(opened) < number:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise ResourceError(*TOO_MANY_FILES) from error
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _as_is(batch: Any) -> Any:  # workers import it
    """Collate nothing: the dataset yields whole batches."""
    return batch


@dataclass
class _ErrorsAsValues(Dataset[T | VitError], Generic[T]):
    """A dataset that returns its errors. An error that a worker process raises would lose its type and its fix."""

    batches: Batches[T]

    def __getitems__(self, keys: Any) -> T | VitError:
        try:
            batch = self.batches.__getitems__(keys)
        except VitError as error:
            return error
        if get_worker_info() is not None:
            batch.share_memory()  # fails here if memory is short; in the sending thread it would hang the training
        return batch
