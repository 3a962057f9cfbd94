"""Decode on all cores inside one process; decoders and resizers release the interpreter's lock."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def decode_threads() -> Iterator[Callable[[Callable[[T], R], Iterable[T]], Iterator[R]]]:
    """An ordered parallel map, one thread per core, each of whose threads computes alone.

    Without the limit every thread would start OpenMP threads of its own for each resize, and they would fight for the
    cores that the others decode on.
    """
    cores = available_cores()
    own = torch.get_num_threads()
    with ThreadPoolExecutor(
        cores, thread_name_prefix="decode", initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        list(pool.map(lambda _: None, range(cores)))
        torch.set_num_threads(own)  # the threads above changed the default of the whole process as well
        yield pool.map


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
