"""Means over seeds and test images, which are crossed: variances, tests and intervals

Seeds and test images are crossed because every seed is measured on the same images.

The value of seed s on test image i is taken as mean + seed effect + image effect + interaction. A repeated study has
other seeds and other test images, so that the variance of the mean over k seeds and T images is

    S / k + I / T + R / (k T)                                   (S, I, R: variances of the three effects)

(Searle, Casella and McCulloch 1992, "Variance Components", chapter 4; Owen 2007, "The pigeonhole bootstrap"). A test
over the seeds alone ignores I / T: the seeds share their test images, so the scatter of the seeds cannot show I / T.

The estimate has two independent parts. The part of the seeds has k - 1 degrees of freedom, so its quotient is
Student's t. The part of the images has about T degrees of freedom, so its quotient is normal. Tests and intervals use
the distribution of the sum of both (Behrens and Fisher). Satterthwaite's single t distribution claims too much with
two or three seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtr, stdtrit

from vit.inference.scores.image_groups import NORMAL_QUANTILE
from vit.inference.scores.intervals import wilson
from vit.study.findings import ALPHA, Interval

LEAST_SHARED = 4  # sizes, or steps between sizes, that share the scatter of their seeds
_PRIOR_OF_SIZES = 1.0  # degrees of freedom; 2 tell 7 to 8 % of equal networks apart
_PRIOR_OF_ERRORS = 0.5  # degrees of freedom; 1 covers the error of a network with much more scatter in 89 %
_PRIOR_OF_IMAGES = 3.0  # degrees of freedom of the test images' own scatter (benchmarks/study_folds.py)
_BEYOND_IMAGES = 1.3  # variance of a fold's mean over that of its images
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
# {training images: {seed: (T,) which test images are wrong, perhaps as `image_groups.gathered` returns them}}
Answers = Mapping[int, Mapping[int, Floats] | Mapping[int, Bools]]


@dataclass(frozen=True)
class Spread:
    """The variance of a mean over k seeds and T test images."""

    by_seeds: float  # S / k + R / (k T), the part that the scatter of the seeds shows
    by_images: float  # I / T, the part that the scatter of the seeds does not show
    by_both: float  # R / (k T), which is part of `by_seeds`. More seeds and more images both reduce it.
    num_seeds: int  # k, two or more
    prior: float = 0  # degrees of freedom that other sizes add to the k - 1 of `by_seeds`

    @classmethod
    def of(cls, values: Floats) -> "Spread":
        """By analysis of variance of values (k, T), with k and T of two or more."""
        num_seeds, num_images = values.shape
        centered = values - values.mean()
        by_seed, by_image = centered.mean(axis=1), centered.mean(axis=0)
        of_seeds, of_images = num_images * by_seed @ by_seed, num_seeds * by_image @ by_image
        rest = max(centered.ravel() @ centered.ravel() - of_seeds - of_images, 0.0)
        seeds, images = of_seeds / (num_seeds - 1), of_images / (num_images - 1)
        both = rest / ((num_seeds - 1) * (num_images - 1))
        seeds, images, both = (float(mean_square / values.size) for mean_square in (seeds, images, both))
        return cls(seeds, max(images - both, 0.0), both, num_seeds)

    @property
    def correlation(self) -> float:
        """Correlation of two seeds' values over the test images, or 0 where all images agree."""
        interaction = self.num_seeds * self.by_both
        return self.by_images / (self.by_images + interaction) if self.by_images + interaction else 0.0

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `by_seeds`."""
        return self.num_seeds - 1 + self.prior

    def moderated(self, pooled: float, prior: float) -> "Spread":
        """The same with a seeds' part in which an estimate from elsewhere has a share of `prior` degrees of freedom.

        Smyth 2004, "Linear models and empirical Bayes methods".
        """
        shared = (prior * pooled + (self.num_seeds - 1) * self.by_seeds) / (prior + self.num_seeds - 1)
        return replace(self, by_seeds=shared, prior=prior)

    @property
    def _least_error(self) -> float:
        """Standard error of the mean of seeds without an effect."""
        return (self.by_both + self.by_images) ** 0.5

    def p_value(self, value: float, groups: float | None = None) -> float:
        """Two-sided p value of a mean of `value` where the true mean is 0, at least Student's over `groups` of images.

        Errors are counts, so that few seeds agree by chance more often than Student's t allows. With two seeds of 300
        images this happened in 1 of 80 studies, whose p was as small as 1e-15. So p is at least that of seeds without
        an effect, whose variance is `by_both` and is known from all answers.
        """
        away, least = abs(value), self._least_error
        weight, deviation = self._mixture()
        by_scatter = float(2 * ndtr(-away / deviation) @ weight)
        p = min(max(by_scatter, float(2 * ndtr(-away / least)) if least > 0 else 0.0), 1.0)
        return p if groups is None else max(p, p_of_groups(away / self.reach(), groups))

    def reach(self) -> float:
        """Half the width of the 95 % interval."""
        quantile = float(stdtrit(self.freedom, 1 - ALPHA / 2))
        reach = max(quantile * self.by_seeds**0.5, NORMAL_QUANTILE * self.by_images**0.5)
        weight, deviation = self._mixture()
        for _ in range(6):  # Newton from below never goes too far, because the p value is convex
            away = reach / deviation
            slope = np.exp(-away * away / 2) / deviation @ weight * (2 / np.pi) ** 0.5
            reach += float((2 * ndtr(-away) @ weight - ALPHA) / slope)
        return max(reach, NORMAL_QUANTILE * self._least_error)

    def _mixture(self) -> tuple[Floats, Floats]:
        """Probabilities (n,) and standard deviations (n,) of the normal distributions that the mean may have."""
        scale, weight = _nodes(self.freedom)
        return weight, np.sqrt(self.by_seeds * scale + self.by_images)

    def at_least(self, error: float) -> "Spread":
        """The same spread with a standard error of the images' part of at least `error`."""
        return replace(self, by_images=max(self.by_images, error**2))

    def with_twice_the_seeds(self) -> "Spread":
        """The expected spread of a study with twice the seeds."""
        return replace(self, by_seeds=self.by_seeds / 2, by_both=self.by_both / 2, num_seeds=2 * self.num_seeds)

    def with_twice_the_images(self) -> "Spread":
        """The expected spread with twice the test images: `by_seeds` loses a half of `by_both`, or of itself."""
        less = min(self.by_seeds, self.by_both) / 2
        return replace(self, by_seeds=self.by_seeds - less, by_images=self.by_images / 2, by_both=self.by_both / 2)


def spread_of(values: Floats, has_folds: bool = False) -> Spread:
    """The spread of the mean of values (k, T) of seeds and test images; with folds, each seed has images of its own.

    Folds have no image in common, so that no effect of an image is common to the seeds. The variance of a fold's mean
    is at least that of its images, which hundreds of images tell well: a prior for the scatter of few folds.
    """
    if not has_folds:
        return Spread.of(values)
    least = float(values.var(axis=1, ddof=1).mean() / values.size)
    shared = Spread.of(values).moderated(_BEYOND_IMAGES * least, _PRIOR_OF_IMAGES)
    return replace(shared, by_seeds=max(shared.by_seeds, least), by_images=0.0, by_both=least)


def with_shared_scatter(
    spreads: Sequence[Spread], scales: Sequence[float], num_largest: int, prior: float = _PRIOR_OF_SIZES
) -> list[Spread]:
    """Spreads, each with a share of the variance that the seeds of all have in units of `scales`.

    The last `num_largest` spreads are of the largest sizes; `prior` has the degrees of freedom of the share.
    """
    units = np.square(scales)
    if units.min() == 0:
        return list(spreads)
    seeds = np.array([one.num_seeds for one in spreads])
    variances = seeds * np.array([one.by_seeds for one in spreads]) / units
    # the scatter may grow with the size, so the largest sizes decide where they scatter more than all together
    pooled = max(float(np.average(variances[-n:], weights=seeds[-n:] - 1)) for n in (num_largest, len(spreads)))
    expected = (pooled * units / seeds).tolist()
    return [one.moderated(max(more, one.by_seeds), prior) for one, more in zip(spreads, expected, strict=True)]


def p_of_groups(widths: float, num_groups: float) -> float:
    """Two-sided p of a value that is `widths` halves of its interval from 0: Student's t of equally large groups."""
    freedom = max(num_groups - 1, 1.0)
    return float(2 * stdtr(freedom, -widths * stdtrit(freedom, 1 - ALPHA / 2)))


def mean_error(
    wrong: Floats | Bools, num_units: float | None = None, has_folds: bool = False, spread: Spread | None = None
) -> Interval:
    """Mean of the seeds' errors (k, T) with its interval; without ends for one seed.

    Errors are 0 and 1, or as of `image_groups.gathered`. `num_units` is the number of independent images or equally
    large groups (None: T), and `spread` that of the mean where other sizes share in it (None: that of `wrong` alone).
    """
    num_seeds, num_images = wrong.shape
    share = float(wrong.mean())
    if num_seeds < 2:
        return Interval(share, None, None)
    spread = spread or spread_of(wrong.astype(np.float64), has_folds)
    # Two seeds with equally many errors on other images would have a variance of zero. No answers are better known than
    # answers that are all independent.
    least = share * (1 - share) / wrong.size
    shown = spread.by_seeds + spread.by_images
    reach = max(spread.reach() if shown > 0 else 0.0, NORMAL_QUANTILE * least**0.5)
    variance = max(shown, least)
    if variance > 0:
        return wilson(share, share * (1 - share) / variance, reach / variance**0.5)
    # All seeds have all images right, or all wrong.
    return wilson(share, num_units or float(num_images), NORMAL_QUANTILE)


def mean_errors(
    wrong: Mapping[str, Answers], groups: float | None = None, has_folds: bool = False
) -> dict[str, dict[int, Interval]]:
    """{series: {size: mean error of the seeds}} from {series: which test images are wrong}.

    All sizes of all series share the scatter of their seeds, as steps do. Where all seeds agree on each image, nothing
    is shared: heads on frozen features do, that learn the same images. `groups` is `num_units` of `mean_error`.
    """
    tables = {
        (size, name): np.stack(list(by_seed.values())).astype(np.float64)
        for name, of_size in wrong.items()
        for size, by_seed in of_size.items()
    }
    spreads = {place: spread_of(table, has_folds) for place, table in sorted(tables.items()) if np.ptp(table, 0).any()}
    if len(spreads) >= LEAST_SHARED and not has_folds:
        scales = [float(tables[place].mean()) for place in spreads]
        together = with_shared_scatter(list(spreads.values()), scales, len(wrong), _PRIOR_OF_ERRORS)
        spreads = dict(zip(spreads, together, strict=True))
    return {
        name: {size: mean_error(tables[size, name], groups, has_folds, spreads.get((size, name))) for size in of_size}
        for name, of_size in wrong.items()
    }


@lru_cache(maxsize=64)
def _nodes(freedom: float) -> tuple[Floats, Floats]:
    """Nodes (n,) of freedom / chi-square, and their probabilities.

    This is the trapezoidal rule in the logarithm of chi, where the density falls doubly exponentially above and
    smoothly below. The relative error of p values is below 1e-8.
    """
    logs = np.linspace(-25.0, np.log(freedom**0.5 + 9.0), 400)
    chi = np.exp(logs)
    density = freedom * logs - chi**2 / 2
    weights = np.exp(density - density.max())
    return np.asarray(freedom / chi**2), np.asarray(weights / weights.sum())
