"""The order of images in shards: neighboring shards are read together, and each process reads its own part of them.

A full permutation would read all shards at once. Here the shards of an epoch are permuted, and images are permuted in
windows of W shards. The sequence is cut into C lanes, and a batch takes equally many images of each lane: a batch has
images of about C windows. Process r takes the r-th run of lanes, and therefore needs few of the shards at a time.

C does not depend on the number of processes, as with the canonical nodes of MosaicML Streaming. Nor does the order,
which is a pure function of seed, epoch and batch size. The windows are those of grain's window shuffle.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from vit.data.core.draws import seed_of
from vit.data.core.samples import Labels

LANES = 64
WINDOW = 4  # shards


@dataclass(frozen=True)
class ShardOrder:
    """The images of any epoch, each once, as a pure function of the epoch.

    Attributes:
        shards: (n,) number of the shard of each training image.
        seed: seed of the order.
        batch_size: images of an optimizer step. The number of lanes is its greatest common divisor with 64.
        window: number of shards whose images are permuted together.
    """

    shards: Labels = field(repr=False)
    seed: int
    batch_size: int
    window: int = WINDOW

    def __len__(self) -> int:
        return len(self.shards)

    @property
    def num_lanes(self) -> int:
        """Number of lanes: every batch has equally many images of each."""
        return math.gcd(self.batch_size, LANES)

    def drawn(self, epoch: int) -> tuple[Labels, Labels]:
        """(indices, zeros), both (n,): the image at each position. No image comes twice."""
        generator = np.random.Generator(np.random.Philox(seed_of(self.seed, epoch)))
        names, numbers = np.unique(self.shards, return_inverse=True)
        places = generator.permutation(len(names))
        shuffled = generator.permutation(len(self))
        windows = places[numbers[shuffled]] // self.window
        sequence = shuffled[np.argsort(windows, kind="stable")]
        return sequence[self._positions()], np.zeros(len(self), dtype=np.int64)

    def _positions(self) -> Labels:
        """(n,) position in the sequence of the image at each position of the epoch."""
        num_images, num_lanes = len(self), self.num_lanes
        of_lane = self.batch_size // num_lanes  # images of a lane in a batch
        num_batches = num_images // self.batch_size
        starts = np.arange(num_lanes) * num_images // num_lanes
        in_lane = np.arange(num_batches * of_lane).reshape(num_batches, 1, of_lane)
        whole = (starts[:, None] + in_lane).reshape(-1)
        left = np.ones(num_images, dtype=np.bool_)
        left[whole] = False
        return np.concatenate([whole, np.flatnonzero(left)])
