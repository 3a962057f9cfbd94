"""Decoding on all cores inside one process; decoders and resizers release the interpreter's lock."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Protocol, TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 8  # results for each core that are computed before they are asked for


class ParallelMap(Protocol):
    """A map on all cores that keeps the order. `ahead` results are computed or held beforehand, default 8 a core."""

    def __call__(self, function: Callable[[T], R], items: Iterable[T], ahead: int | None = None, /) -> Iterator[R]: ...


@contextmanager
def decode_threads() -> Iterator[ParallelMap]:
    """A parallel map that keeps the order, on `decoding_pool`."""
    cores = available_cores()
    with decoding_pool() as pool:

        def parallel(function: Callable[[T], R], items: Iterable[T], ahead: int | None = None, /) -> Iterator[R]:
            begun: deque[Future[R]] = deque()
            try:
                for item in items:
                    begun.append(pool.submit(function, item))
                    if len(begun) > (AHEAD * cores if ahead is None else ahead):
                        yield begun.popleft().result()
                while begun:
                    yield begun.popleft().result()
            finally:
                for future in begun:
                    future.cancel()

        yield parallel


def decoding_pool() -> ThreadPoolExecutor:
    """One thread per core, with one OpenMP thread each.

    Without this limit every thread would start several OpenMP threads for each resize, which compete for the cores.
    """
    cores, num_threads = available_cores(), torch.get_num_threads()
    pool = ThreadPoolExecutor(cores, thread_name_prefix="decode", initializer=take_one_thread)
    all_started = Barrier(cores)  # the pool starts a thread only where no other one is free
    list(pool.map(lambda _: all_started.wait(), range(cores)))
    torch.set_num_threads(num_threads)  # the initializer also changed the default of the whole process
    return pool


def take_one_thread() -> None:
    """Let PyTorch use one OpenMP thread in this thread."""
    torch.get_num_threads()  # the first call in a thread sets the number of the whole process, and would do so later
    torch.set_num_threads(1)


class PixelBudget:
    """Bounds the pixels that all threads of this process decode at once, because each costs up to 17 bytes meanwhile.

    A single image may have more pixels than the limit. It is then decoded alone.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held, self._changed = limit, 0, threading.Condition()

    @contextmanager
    def hold(self, pixels: int) -> Iterator[None]:
        """Wait until there is room for so many pixels, and hold it for the time of a block."""
        with self._changed:
            self._changed.wait_for(lambda: self._held == 0 or self._held + pixels <= self._limit)
            self._held += pixels
        try:
            yield
        finally:
            with self._changed:
                self._held -= pixels
                self._changed.notify_all()


def available_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
