"""The order of images: a pure function of (seed, epoch), so that a training resumes at any batch.

An epoch has each image once, classes equally often, or classes by the root of their size. Images of shards come each
once, in an order that needs few shards at a time (`ShardOrder`). Balanced drawing is oversampling of rare classes and
undersampling of common ones (Buda et al. 2018, arXiv 1710.05381). Drawing by the root of the class sizes lies between
that and no change (Mahajan et al. 2018, arXiv 1805.00932).

A sampler yields lists of keys. A key names the epoch and the image. So loader workers, which fetch ahead of training,
are never in the wrong epoch, and all random draws for an image follow from its key.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from vit.data.core.draws import seed_of
from vit.data.core.samples import Labels, Samples

Sampling = Literal["natural", "balanced", "sqrt"]
Shares = npt.NDArray[np.float64]

EVALUATION = -1  # epoch of the keys of evaluation
LANES = 64
WINDOW = 4  # shards
_POWERS: dict[Sampling, float] = {"natural": 1.0, "sqrt": 0.5, "balanced": 0.0}  # of the class sizes


def drawn_shares(counts: Labels, sampling: Sampling) -> Shares:
    """The expected fraction (C,) of each class among the drawn images; 0 for a class without images.

    Args:
        counts: (C,) number of training images of each class.
        sampling: how an epoch draws.
    """
    sizes = np.where(counts > 0, np.maximum(counts, 1) ** _POWERS[sampling], 0.0)
    return sizes / sizes.sum()


@dataclass(frozen=True)
class EpochOrder:
    """The images of any epoch: as many as there are training images, as a pure function of the epoch.

    With "natural" an epoch is a permutation of all images. Otherwise each class has its share of the epoch, rounded up
    or down at random. A class with more images than its share gives a random choice of different images. A class with
    fewer images gives all of them equally often, up to one more of some.
    """

    labels: Labels = field(repr=False)  # (n,) class numbers of the training images
    seed: int  # seed of the order
    sampling: Sampling = "natural"  # how an epoch draws

    def __len__(self) -> int:
        return len(self.labels)

    def drawn(self, epoch: int) -> tuple[Labels, Labels]:
        """(indices, repeats), both (n,): the image at each position, and how often it came before in this epoch."""
        generator = np.random.Generator(np.random.Philox(seed_of(self.seed, epoch)))
        num_images = len(self)
        order = generator.permutation(num_images)
        if self.sampling == "natural":
            return order, np.zeros(num_images, dtype=np.int64)
        counts = np.bincount(self.labels)
        ends = _rounded(np.cumsum(drawn_shares(counts, self.sampling)) * num_images, generator.random())
        classes = np.repeat(np.arange(len(counts)), np.diff(ends, prepend=0))
        turns = np.arange(num_images) - np.concatenate([[0], ends[:-1]])[classes]  # 0, 1, 2, ... inside each class
        by_class = order[np.argsort(self.labels[order], kind="stable")]
        first = np.cumsum(counts) - counts
        indices, repeats = by_class[first[classes] + turns % counts[classes]], turns // counts[classes]
        shuffled = generator.permutation(num_images)
        return indices[shuffled], repeats[shuffled]


def _rounded(ends: Shares, offset: float) -> Labels:
    """Ends of consecutive parts as whole numbers. Each part keeps its expected size (systematic sampling).

    Args:
        ends: (C,) rising numbers; the last is the whole length.
        offset: random number from 0 to below 1.
    """
    whole = np.floor(ends + offset).astype(np.int64)
    whole[ends >= ends[-1]] = round(ends[-1])
    return np.minimum(whole, whole[-1])


@dataclass(frozen=True)
class ShardOrder:
    """The images of any epoch, each once, where neighboring shards are read together.

    A full permutation would read all shards at once. Here the shards of an epoch are permuted, and images are permuted
    in windows of W shards, which are those of grain's window shuffle. The sequence is cut into C lanes, and a batch
    takes equally many images of each lane. Process r takes the r-th run of lanes, and so needs few of the shards at a
    time. C does not depend on the number of processes, as with the canonical nodes of MosaicML Streaming.
    """

    shards: Labels = field(repr=False)  # (n,) number of the shard of each training image
    seed: int  # seed of the order
    batch_size: int  # images of an optimizer step. The number of lanes is its greatest common divisor with 64.
    window: int = WINDOW  # number of shards whose images are permuted together

    def __len__(self) -> int:
        return len(self.shards)

    @property
    def num_lanes(self) -> int:
        """Number of lanes: every batch has equally many images of each."""
        return math.gcd(self.batch_size, LANES)

    def drawn(self, epoch: int) -> tuple[Labels, Labels]:
        """(indices, zeros), both (n,): the image at each position. No image comes twice."""
        generator = np.random.Generator(np.random.Philox(seed_of(self.seed, epoch)))
        num_images, num_lanes = len(self), self.num_lanes
        names, numbers = np.unique(self.shards, return_inverse=True)
        places = generator.permutation(len(names))
        shuffled = generator.permutation(num_images)
        windows = places[numbers[shuffled]] // self.window
        sequence = shuffled[np.argsort(windows, kind="stable")]
        of_lane = self.batch_size // num_lanes  # images of a lane in a batch
        num_batches = num_images // self.batch_size
        starts = np.arange(num_lanes) * num_images // num_lanes
        in_lane = np.arange(num_batches * of_lane).reshape(num_batches, 1, of_lane)
        whole = (starts[:, None] + in_lane).reshape(-1)  # positions in the sequence of the images of whole batches
        left = np.ones(num_images, dtype=np.bool_)
        left[whole] = False
        return sequence[np.concatenate([whole, np.flatnonzero(left)])], np.zeros(num_images, dtype=np.int64)


def train_order(samples: Samples, seed: int, batch_size: int, sampling: Sampling) -> EpochOrder | ShardOrder:
    """The order of training images: by windows of shards if there are several, else (or by classes) over all images.

    Args:
        batch_size: images of an optimizer step, over all processes and micro-batches.
    """
    shards = None if samples.reader is None else samples.reader.shards(samples.paths)
    if shards is None or sampling != "natural" or len(np.unique(shards)) < 2:
        return EpochOrder(samples.labels, seed, sampling)
    return ShardOrder(shards, seed, batch_size)


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
