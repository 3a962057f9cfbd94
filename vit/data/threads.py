"""Decoding on all cores inside one process; decoders and resizers release the interpreter's lock."""

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
    """A parallel map that keeps the order, with one thread per core and one OpenMP thread each.

    Without this limit every thread would start several OpenMP threads for each resize. They would compete for the cores
    on which other threads decode.
    """
    cores = available_cores()
    num_threads = torch.get_num_threads()
    with ThreadPoolExecutor(
        cores, thread_name_prefix="decode", initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        list(pool.map(lambda _: None, range(cores)))
        torch.set_num_threads(num_threads)  # the initializer also changed the default of the whole process
        yield pool.map


def available_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
