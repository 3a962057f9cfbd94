"""Loaders: the batches of one dataset for this process, made here or by worker processes, and fetched ahead"""

import os
import shutil
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import connection, current_process, parent_process
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from vit.data.core.batch import Batch
from vit.data.core.samples import Samples
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.sampler import EvaluationSampler, Key, TrainSampler
from vit.data.loading.threads import available_cores
from vit.data.pixels.preprocess import Preprocess
from vit.errors import TOO_MANY_FILES, ResourceError, VitError
from vit.launch import rank_and_world_size, shorten_socket_paths

AUTO_CACHE_BYTES = 2 * 2**30  # up to this size decoded images stay in memory
EVALUATION_BATCH_SIZE = 128
BATCHES_AHEAD = 16  # that are fetched from other machines
MOST_WORKERS = 16  # that are started unless the user gives a number
_LOST_WORKER = "DataLoader worker exited unexpectedly"  # PyTorch's words, which `vit.__main__` knows
_DESCRIPTORS = 12  # of a worker: pipes, and tensors of two batches on their way
_ENDING = 5.0  # seconds in which a worker that closed its connection ends
# How workers start; None: Python's default on this platform. A forked worker shares the memory of the training. A fork
# server, from which the cells of a study start, would send it every image in memory through /dev/shm, which is small in
# containers.
_START: Literal["fork"] | None = "fork" if sys.platform == "linux" else None


def batch_loader(
    dataset: ImageDataset, sampler: TrainSampler | EvaluationSampler, num_workers: int | None, keep_workers: bool
) -> "Loader":
    """The batches of a sampler, from worker processes that may stay for the next epoch.

    By default there is a worker per core, at most `MOST_WORKERS`; and none for images in memory that need no work
    before a GPU has them. RandAugment takes about 50 microseconds for a small image, as long as a GPU trains on two of
    them. A training on the same cores gains nothing.
    """
    augment = None if dataset.augment is None else dataset.augment.augment
    is_recolored = augment is not None and (augment.randaugment > 0 or augment.own is not None)
    if num_workers is None:
        needs_none = dataset.is_stacked and not (is_recolored and torch.cuda.is_available())
        num_workers = 0 if needs_none else min(MOST_WORKERS, max(1, available_cores() // rank_and_world_size()[1]))
    keys = _KeyBatches(sampler, dataset.samples if dataset.memory is None else None)
    return worker_loader(dataset, keys, num_workers, keep_workers)


def worker_loader(dataset: Dataset[Batch], keys: Sampler[list[Key]], workers: int, keep_workers: bool) -> "Loader":
    """The batches of lists of keys, in order, from some worker processes; 0: from this one."""
    return Loader(
        _ErrorsAsValues(dataset),  # type: ignore[arg-type]
        batch_sampler=keys,
        collate_fn=_as_is,
        num_workers=workers,
        persistent_workers=workers > 0 and keep_workers,
        worker_init_fn=begin_worker if workers else None,
        pin_memory=torch.cuda.is_available(),  # copies to a GPU then run beside its computation
        multiprocessing_context=_START if workers else None,
    )


def evaluation_loader(dataset: ImageDataset, batch_size: int, num_workers: int | None) -> "Loader":
    """Every image of a dataset once, in order, divided over all processes."""
    sampler = EvaluationSampler(len(dataset), batch_size, *rank_and_world_size())
    return batch_loader(dataset, sampler, num_workers, keep_workers=False)


def labeled_images(samples: Samples, preprocess: Preprocess) -> "Loader":
    """The batches of images that are only measured, kept in memory if they are few."""
    in_memory = len(samples) * preprocess.channels * preprocess.image_size**2 <= AUTO_CACHE_BYTES
    dataset = ImageDataset(samples, preprocess, None, seed=0, in_memory=in_memory)
    return evaluation_loader(dataset, EVALUATION_BATCH_SIZE, num_workers=None)


class Loader(DataLoader[Batch]):
    """A loader that raises the errors of `_ErrorsAsValues`."""

    waited = 0.0  # seconds that whoever takes the batches has waited for them; without workers, that they were made in

    def check_worker_number_rationality(self) -> None:
        """Give no warning of PyTorch where more workers than cores are asked for."""

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
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
                raise RuntimeError(f"{_LOST_WORKER} with exit code {codes[0] if codes else 1}") from error
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
class _ErrorsAsValues(Dataset[Batch | VitError]):
    """A dataset that returns its errors. An error that a worker process raises would lose its type and its fix."""

    batches: Dataset[Batch]

    def __getitems__(self, keys: list[Key]) -> Batch | VitError:
        try:
            batch: Batch = self.batches.__getitems__(keys)  # type: ignore[attr-defined]
        except VitError as error:
            return error
        if get_worker_info() is not None:
            batch.share_memory()  # fails here if memory is short; in the sending thread it would hang the training
        return batch


@dataclass
class _KeyBatches(Sampler[list[Key]]):
    """One of our samplers, as the type that DataLoader takes for a batch sampler.

    Workers learn of a batch shortly before they decode it, and a sampler knows the whole epoch. So a thread of this
    process fetches images of other machines ahead, into the cache that all processes of the machine share.
    """

    batches: TrainSampler | EvaluationSampler = field(repr=False)
    samples: Samples | None = field(repr=False)  # to be read; None: they are in memory

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[Key]]:
        if self.samples is None or self.samples.reader is None or not self.samples.reader.shares_prepared:
            yield from self.batches
            return
        wanted: SimpleQueue[list[Key] | None] = SimpleQueue()
        ended = threading.Event()
        # a daemon: a server that does not answer must not keep a process from ending
        threading.Thread(target=_fetch, args=(wanted, ended, self.samples), name="read ahead", daemon=True).start()
        waiting: deque[list[Key]] = deque()
        try:
            for keys in self.batches:
                wanted.put(keys)
                waiting.append(keys)
                if len(waiting) > BATCHES_AHEAD:
                    yield waiting.popleft()
            yield from waiting
        finally:
            ended.set()
            wanted.put(None)


def _fetch(wanted: "SimpleQueue[list[Key] | None]", ended: threading.Event, samples: Samples) -> None:
    """Fetch batches until there are no more."""
    while (keys := wanted.get()) is not None and not ended.is_set():
        try:
            samples.prepare([key.index for key in keys])
        except Exception:  # noqa: BLE001  met again by the worker that reads the image, which has the words for it
            return


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
