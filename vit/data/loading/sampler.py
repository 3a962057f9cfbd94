"""The order of images: a pure function of (seed, epoch), so that a training resumes at any batch.

A sampler yields lists of keys. A key names the epoch and the image. So loader workers, which fetch ahead of training,
are never in the wrong epoch, and all random draws for an image follow from its key.
"""

from collections.abc import Iterator
from typing import NamedTuple

from vit.data.loading.epoch_order import EpochOrder, ShardOrder

EVALUATION = -1  # epoch of the keys of evaluation


class Key(NamedTuple):
    """One image of one epoch."""

    epoch: int
    index: int  # type: ignore[assignment]
    valid: bool = True  # False for a key that only fills a batch
    repeat: int = 0  # how often the epoch has drawn this image before, so that each time has its own augmentation


class TrainSampler:
    """Batches of training keys for one process. The batches of all processes together are the global batch.

    The images of a global batch do not depend on the number of processes: process r takes the r-th contiguous part. A
    remainder that is too small for a step is left out, and the next epoch's order includes those images again.

    Args:
        order: the images of every epoch.
        batch_size: images of a global batch; divisible by world_size.
        rank: rank of this process.
        world_size: number of processes.
        num_batches: batches of one iteration, after which the loop validates; None: one pass over the images.
        accumulate: batches of an optimizer step; a pass has whole steps only.

    Attributes:
        consumed: number of global batches that training has finished, over all passes. Iteration starts there.
    """

    def __init__(
        self,
        order: EpochOrder | ShardOrder,
        batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        num_batches: int | None = None,
        accumulate: int = 1,
    ) -> None:
        if batch_size % world_size:
            raise ValueError(f"a global batch of {batch_size} is not divisible by {world_size} processes")
        self.order, self.batch_size = order, batch_size
        self.rank, self.world_size = rank, world_size
        self.batches_per_pass = len(order) // (batch_size * accumulate) * accumulate
        self.num_batches = num_batches or self.batches_per_pass
        self.consumed = 0

    def __len__(self) -> int:
        """Number of batches of one iteration."""
        return self.num_batches

    def __iter__(self) -> Iterator[list[Key]]:
        """The rest of the current iteration. Passes over the images follow one another without a gap."""
        local_size = self.batch_size // self.world_size
        ordered = -1
        for batch in range(self.consumed, (self.consumed // self.num_batches + 1) * self.num_batches):
            epoch, batch_of_epoch = divmod(batch, self.batches_per_pass)
            if epoch != ordered:
                (indices, repeats), ordered = self.order.drawn(epoch), epoch
            start = batch_of_epoch * self.batch_size + self.rank * local_size
            part = slice(start, start + local_size)
            drawn = zip(indices[part].tolist(), repeats[part].tolist(), strict=True)
            yield [Key(epoch, index, True, repeat) for index, repeat in drawn]


class EvaluationSampler:
    """Batches of evaluation keys for one process. All processes together see every image once.

    All processes get equally many batches, so that none waits for another. Keys that fill the last batch are not valid.
    """

    def __init__(self, num_images: int, batch_size: int, rank: int = 0, world_size: int = 1) -> None:
        self.num_images, self.batch_size = num_images, batch_size
        self.indices = range(rank, rank + -(-num_images // world_size) * world_size, world_size)

    def __len__(self) -> int:
        return -(-len(self.indices) // self.batch_size)

    def __iter__(self) -> Iterator[list[Key]]:
        for start in range(0, len(self.indices), self.batch_size):
            part = self.indices[start : start + self.batch_size]
            yield [Key(EVALUATION, min(index, self.num_images - 1), index < self.num_images) for index in part]
