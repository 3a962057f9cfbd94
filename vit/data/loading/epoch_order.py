"""The images of an epoch in their order: each once, classes equally often, or classes by the root of their size.

Images of shards come each once, in an order that needs few shards at a time (`ShardOrder`).

Balanced drawing is oversampling of rare classes and undersampling of common ones (Buda et al. 2018, arXiv 1710.05381).
Drawing by the root of the class sizes lies between that and no change (Mahajan et al. 2018, arXiv 1805.00932).
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit.data.core.draws import seed_of
from vit.data.core.samples import Labels, Samples

Sampling = Literal["natural", "balanced", "sqrt"]
Shares = npt.NDArray[np.float64]

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


LANES = 64
WINDOW = 4  # shards


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
