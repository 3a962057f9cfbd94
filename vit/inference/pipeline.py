"""Which core reads and which computes, from many images to finished rows in their order"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar, cast

import torch

from vit.data.loading.threads import available_cores, decode_threads
from vit.inference.engine import Engine

T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R")

AHEAD = 4  # batches that are decoded while an accelerator computes
CORE_PIXELS = 16 * 224 * 224  # of the images that one core computes at once: activations of more pixels leave its cache


class OnDevice(Protocol):
    """An engine, or an exported file."""

    device: torch.device


def rows_of(
    engine: OnDevice,
    items: Sequence[T],
    batch_size: int,
    read: Callable[[T], M] | None,
    compute: Callable[[list[M]], Iterable[R]],
) -> Iterator[R]:
    """`compute` of batches of what `read` makes of each item, flattened, in the order of the items.

    - **A network on a CPU**: each core reads and computes batches of its own. No core waits for another within a layer.
    - **Few images, or an exported file**, whose library has threads of its own: reading and computing take turns, each
      on all cores, because at the same time they slow each other down.
    - **An accelerator** computes while the CPU reads the next batches, and writes the rows of the batch before.

    Args:
        engine: what `compute` computes with.
        read: a picture of one item. It runs in threads. None: the items are pictures.
        compute: rows of a batch of pictures. On a CPU it runs in threads. On an accelerator it starts the computation,
            and waits for it where the first row is taken.
    """
    own = _images_per_core(engine, len(items), batch_size)
    if read is None and own == 0:  # no thread has anything to do
        for ready in batched(items, batch_size):
            yield from compute(cast(list[M], ready))
        return
    picture: Callable[[T], M] = read or (lambda item: cast(M, item))
    with decode_threads() as parallel:
        if own > 0:

            def read_and_compute(part: list[T]) -> list[R]:
                return list(compute([picture(item) for item in part]))

            for rows in parallel(read_and_compute, batched(items, own), torch.get_num_threads()):
                yield from rows
        elif engine.device.type == "cpu":
            for part in batched(items, batch_size):
                yield from compute(list(parallel(picture, part)))
        else:
            before: Iterable[R] = ()
            for pictures in batched(parallel(picture, items, batch_size * AHEAD), batch_size):
                asked = compute(pictures)
                yield from before
                before = asked
            yield from before


def _images_per_core(engine: OnDevice, num_images: int, batch_size: int) -> int:
    """Size of the batches that single cores read and compute, so that all cores end together; 0: they take turns."""
    cores = min(available_cores(), torch.get_num_threads())
    if cores < 2 or num_images < 2 * cores or not isinstance(engine, Engine) or engine.device.type != "cpu":
        return 0
    largest = min(batch_size, max(1, CORE_PIXELS // engine.preprocess.image_size**2))
    rounds = -(-num_images // (cores * largest))
    return -(-num_images // (cores * rounds))


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of up to `size` items (itertools.batched, which Python 3.11 lacks)."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
