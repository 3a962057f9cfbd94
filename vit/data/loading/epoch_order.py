"""The images of an epoch in their order: each once, classes equally often, or classes by the root of their size.

Balanced drawing is oversampling of rare classes and undersampling of common ones (Buda et al. 2018, arXiv 1710.05381).
Drawing by the root of the class sizes lies between that and no change (Mahajan et al. 2018, arXiv 1805.00932).
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from vit.data.core.draws import seed_of
from vit.data.core.samples import Labels

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


class ImageOrder(Protocol):
    """The images of any epoch, as a pure function of the epoch."""

    def __len__(self) -> int:
        """Number of images of an epoch."""

    def drawn(self, epoch: int) -> tuple[Labels, Labels]:
        """(indices, repeats), both (n,): the image at each position, and how often it came before in this epoch."""


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
