"""Decoding of many small images on all cores, in processes of their own

Most of the time of a small image is Python's, and Python runs one thread at a time: sixteen threads decode fewer images
of 32 pixels in a second than one. Larger images take decoders that release the interpreter's lock, see threads.py.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from vit.data.loading.threads import available_cores
from vit.data.loading.workers import MOST_WORKERS, START, worker_loader

MOST_SIDE = 64  # pixels of a small image
FEWEST = 5_000  # images that are worth the start of processes
FEWEST_CORES = 4
PART_BYTES = 2**18  # that a process sends at once: at most 8 MiB of shared memory wait for the training


@dataclass(frozen=True)
class Part:
    """Some decoded images.

    Attributes:
        images: (n, C, S, S) uint8.
        origin: index of the image that each row shows.
        unreadable: {index: reason}.
    """

    images: Tensor
    origin: list[int]
    unreadable: dict[int, str]

    def share_memory(self) -> None:
        """Move the images, in place, to memory that processes share; RuntimeError where there is too little."""
        self.images.share_memory_()


def uses_processes(count: int, side: int) -> bool:
    """Whether processes decode this many images of this side sooner than threads."""
    return START is not None and count >= FEWEST and side <= MOST_SIDE and available_cores() >= FEWEST_CORES


def parts(count: int, image_bytes: int, decode: Callable[[range], Part]) -> Iterator[tuple[range, Part]]:
    """Every part of `count` images, decoded, in order.

    Args:
        image_bytes: size of a decoded image.
        decode: decodes the images of some indices, in another process.

    Raises:
        DataError: the error of `decode`.
    """
    size = max(1, PART_BYTES // image_bytes)
    ranges = [range(start, min(start + size, count)) for start in range(0, count, size)]
    workers = min(MOST_WORKERS, available_cores())
    yield from zip(ranges, worker_loader(_Parts(decode), ranges, workers), strict=True)


@dataclass
class _Parts:
    """Parts as a dataset of batches."""

    decode: Callable[[range], Part]

    def __getitems__(self, indices: range) -> Part:
        return self.decode(indices)
