"""Loaders: the batches of one dataset for this process, read here or in worker processes, and fetched ahead"""

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue

import torch
from torch.utils.data import Sampler

from vit.data.core.batch import Batch
from vit.data.core.samples import Samples
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.sampler import EvaluationSampler, Key, TrainSampler
from vit.data.loading.threads import available_cores
from vit.data.loading.workers import MOST_WORKERS, Loader, worker_loader
from vit.data.pixels.preprocess import Preprocess
from vit.launch import rank_and_world_size

AUTO_CACHE_BYTES = 2 * 2**30  # up to this size decoded images stay in memory
EVALUATION_BATCH_SIZE = 128
BATCHES_AHEAD = 16  # that are fetched from other machines


@dataclass
class _KeyBatches(Sampler[list[Key]]):
    """One of our samplers, as the type that DataLoader takes for a batch sampler.

    Loader workers learn of a batch shortly before they decode it, and a sampler knows the whole epoch. So a thread of
    the process that owns the sampler fetches images of other machines ahead, into the cache that all processes of the
    machine share. An image that cannot be fetched is not an error here. Whoever decodes it meets the error again.
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


def batch_loader(
    dataset: ImageDataset, sampler: TrainSampler | EvaluationSampler, num_workers: int | None, keep_workers: bool
) -> Loader[Batch]:
    """The batches of a sampler, from workers that may stay for the next epoch.

    Args:
        num_workers: number of processes that decode and recolor. None: one per core and at most `MOST_WORKERS`; 0 for
            images in memory that need no work before a GPU has them. RandAugment takes about 50 microseconds for a
            small image, as long as a GPU trains on two of them. A training on the same cores gains nothing.
    """
    workers = num_workers
    augment = None if dataset.augment is None else dataset.augment.augment
    is_recolored = augment is not None and (augment.randaugment > 0 or augment.own is not None)
    if workers is None and dataset.is_stacked and not (is_recolored and torch.cuda.is_available()):
        workers = 0
    elif workers is None:
        workers = min(MOST_WORKERS, max(1, available_cores() // rank_and_world_size()[1]))
    batches = _KeyBatches(sampler, dataset.samples if dataset.memory is None else None)
    pinned = torch.cuda.is_available()  # copies to a GPU then run beside its computation
    return worker_loader(dataset, batches, workers, keep_workers, pinned)


def evaluation_loader(dataset: ImageDataset, batch_size: int, num_workers: int | None) -> Loader[Batch]:
    """Every image of a dataset once, in order, divided over all processes."""
    sampler = EvaluationSampler(len(dataset), batch_size, *rank_and_world_size())
    return batch_loader(dataset, sampler, num_workers, keep_workers=False)


def labeled_images(samples: Samples, preprocess: Preprocess) -> Loader[Batch]:
    """The batches of images that are only measured, kept in memory if they are few."""
    in_memory = len(samples) * preprocess.channels * preprocess.image_size**2 <= AUTO_CACHE_BYTES
    dataset = ImageDataset(samples, preprocess, None, seed=0, in_memory=in_memory)
    return evaluation_loader(dataset, EVALUATION_BATCH_SIZE, num_workers=None)
