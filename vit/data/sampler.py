"""Which image comes when: the order of training as a pure function of (seed, epoch), resumable at any batch.

A sampler yields lists of keys. A key says the epoch and the image, so that loader workers, which fetch ahead of the
training loop, can never be in the wrong epoch, and so that everything drawn for an image follows from its key.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vit.data.draws import seed_of
from vit.data.samples import Labels

EVALUATION = -1


class Key(NamedTuple):
    """One image of one epoch; `valid` is False where it only fills a batch up."""

    epoch: int
    index: int  # type: ignore[assignment]
    valid: bool = True


def epoch_order(length: int, seed: int, epoch: int) -> Labels:
    """The order of an epoch: a permutation of range(length)."""
    return np.random.Generator(np.random.Philox(seed_of(seed, epoch))).permutation(length)


class TrainSampler:
    """Batches of training keys for one process; the processes' batches together are the global batch.

    The images of a global batch do not depend on the number of processes: process r takes the r-th contiguous part of
    it. A remainder too small for a step is left out; the next epoch's order brings those images back.

    Args:
        length: number of training images.
        batch_size: images of a global batch; divisible by world_size.
        batches: batches of one iteration, after which the loop validates; by default a pass over the images.
        accumulate: batches of an optimizer step; a pass has whole steps only.

    Attributes:
        consumed: global batches that training has finished, over all passes; iteration starts there.
    """

    def __init__(
        self,
        length: int,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        batches: int | None = None,
        accumulate: int = 1,
    ) -> None:
        if batch_size % world_size:
            raise ValueError(f"a global batch of {batch_size} is not divisible by {world_size} processes")
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self.rank, self.world_size = rank, world_size
        self.batches_per_pass = length // (batch_size * accumulate) * accumulate
        self.batches = batches or self.batches_per_pass
        self.consumed = 0

    def __len__(self) -> int:
        """Batches of one iteration."""
        return self.batches

    def __iter__(self) -> Iterator[list[Key]]:
        """The rest of the iteration that `consumed` lies in; passes follow one another without a gap."""
        share = self.batch_size // self.world_size
        ordered = -1
        for number in range(self.consumed, (self.consumed // self.batches + 1) * self.batches):
            epoch, batch = divmod(number, self.batches_per_pass)
            if epoch != ordered:
                order, ordered = epoch_order(self.length, self.seed, epoch), epoch
            start = batch * self.batch_size + self.rank * share
            yield [Key(epoch, index) for index in order[start : start + share].tolist()]


class EvaluationSampler:
    """Batches of evaluation keys for one process: every image once, over all processes together.

    All processes get equally many batches, so that none waits for another; what fills the last one up is not valid.
    """

    def __init__(self, length: int, batch_size: int, rank: int = 0, world_size: int = 1) -> None:
        self.batch_size = batch_size
        share = -(-length // world_size)
        places = range(rank, rank + share * world_size, world_size)
        self.keys = [Key(EVALUATION, min(place, length - 1), place < length) for place in places]

    def __len__(self) -> int:
        return -(-len(self.keys) // self.batch_size)

    def __iter__(self) -> Iterator[list[Key]]:
        for start in range(0, len(self.keys), self.batch_size):
            yield self.keys[start : start + self.batch_size]
