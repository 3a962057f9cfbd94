"""The measured sizes of a series, and resampled deviations of their mean errors"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vit.study.paired import Answers
from vit.study.variance_components import Floats, MeanSquares


@dataclass(frozen=True)
class MeasuredSize:
    """A size, its seeds, and the wrong answers of each seed on the test images, as numbers (k, T)."""

    num_images: int
    seeds: list[int]
    table: Floats

    @property
    def errors(self) -> Floats:
        """(k,) errors of the seeds."""
        return np.asarray(self.table.mean(axis=1))

    @property
    def mean(self) -> float:
        """Mean of the errors."""
        return float(self.table.mean())

    @property
    def by_images(self) -> float:
        """Standard error of `mean` that other test images cause, or 0 with one seed."""
        return float(MeanSquares.of(self.table[None]).spread().by_images) ** 0.5 if len(self.seeds) > 1 else 0.0


@dataclass(frozen=True)
class MeasuredSizes:
    """All measured sizes of a series, ascending."""

    points: list[MeasuredSize]

    @classmethod
    def of(cls, wrong: Answers) -> "MeasuredSizes":
        """The sizes of one series, from the wrong test images of each seed at each size."""
        return cls(
            [
                MeasuredSize(size, sorted(by_seed), np.stack([by_seed[seed] for seed in sorted(by_seed)]).astype(float))
                for size, by_seed in sorted(wrong.items())
            ]
        )

    @cached_property
    def sizes(self) -> Floats:
        """(m,) numbers of training images."""
        return np.array([point.num_images for point in self.points], dtype=np.float64)

    @cached_property
    def means(self) -> Floats:
        """(m,) mean errors."""
        return np.array([point.mean for point in self.points])

    @cached_property
    def by_images(self) -> Floats:
        """(m,) standard errors that other test images cause."""
        return np.array([point.by_images for point in self.points])

    @property
    def num_test_images(self) -> int:
        """Number of test images, the same at every size."""
        return int(self.points[0].table.shape[1])

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the scatter of all seeds."""
        return sum(len(point.seeds) - 1 for point in self.points)

    @property
    def fewest_seeds(self) -> int:
        """Number of seeds at the size with the fewest."""
        return min(len(point.seeds) for point in self.points)

    @property
    def largest(self) -> int:
        """Largest number of training images."""
        return self.points[-1].num_images

    def relative_deviation(self) -> float:
        """Standard deviation of a seed's error over the mean error, from all sizes, or 0 when no size has two seeds."""
        squares = sum(
            float(np.sum((point.errors - point.mean) ** 2)) / max(point.mean, 1 / self.num_test_images) ** 2
            for point in self.points
        )
        return float((squares / self.freedom) ** 0.5) if self.freedom else 0.0


def deviations(measured: MeasuredSizes, count: int, seed: int) -> Floats:
    """Deviations (count, m) of the means, as other seeds and other test images would make them.

    The subsets of a seed are nested, so an unusual subset makes the next larger one unusual as well. So whole seeds are
    weighted, with their deviations at all sizes. Sizes drawn independently would make the curve look far better known.
    These draws are t with (fewest seeds - 1) degrees of freedom: for anything linear in the means, they give the t
    interval of the seeds' own values. An image that is hard at one size is hard at the next, so the images' draws are
    correlated.
    """
    points = measured.points
    generator = np.random.default_rng(seed)
    seeds = sorted({one for point in points for one in point.seeds})
    of_seeds = np.zeros((len(seeds), len(points)))
    for column, point in enumerate(points):
        k = len(point.seeds)
        rows = [seeds.index(one) for one in point.seeds]
        of_seeds[rows, column] = (point.errors - point.mean) / (k * (k - 1)) ** 0.5
    freedom = measured.fewest_seeds - 1
    inflation = (freedom / generator.chisquare(freedom, (count, 1))) ** 0.5
    least = 1 / measured.num_test_images  # also where seeds agree on every image, as in `paired.difference`
    missing = np.maximum(least**2 - (of_seeds**2).sum(axis=0), 0) ** 0.5
    drawn = generator.standard_normal((count, len(seeds))) @ of_seeds
    by_seeds = inflation * (drawn + missing * generator.standard_normal((count, len(points))))
    correlated = generator.multivariate_normal(np.zeros(len(points)), _correlation(points), count, method="svd")
    return np.asarray(by_seeds + measured.by_images * correlated)


def _correlation(points: Sequence[MeasuredSize]) -> Floats:
    """(m, m) correlations of the images' mean errors at any two sizes, with 1 on the diagonal."""
    hard = np.stack([point.table.mean(axis=0) for point in points])
    hard -= hard.mean(axis=1, keepdims=True)
    lengths = np.maximum(np.linalg.norm(hard, axis=1), 1e-12)
    found = hard @ hard.T / np.outer(lengths, lengths)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)
