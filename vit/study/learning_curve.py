"""Error against training images: a power law with a floor, fitted to the means of the seeds, and how far it carries.

e(n) = a + b n^c with a >= 0, b > 0 and -2 <= c < 0 (Hestness et al. 2017, "Deep Learning Scaling is Predictable,
Empirically"; Hoiem et al. 2021, "Learning Curves for Analysis of Deep Networks"). For a given c the curve is linear in
(a, b), so c alone is searched, on a grid (variable projection), for all resamples at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import fdtrc, stdtrit

from vit.study.crossed import ALPHA, Bools, Floats, MeanSquares
from vit.study.findings import Fit, Interval
from vit.study.paired import Answers

RESAMPLES = 1000
FARTHEST = 4  # times the largest size; beyond it nothing is said
USEFUL = 2.0  # a band whose ends differ by more than this factor tells nobody how much to collect
_EXPONENTS = np.linspace(-2.0, -0.01, 100)


@dataclass(frozen=True)
class _Curves:
    """R curves floor + scale * (n / center)^exponent; each parameter is (R,)."""

    floor: Floats
    scale: Floats
    exponent: Floats
    center: float

    def error_at(self, images: float) -> Floats:
        """(R,) errors."""
        return np.asarray(self.floor + self.scale * (images / self.center) ** self.exponent)

    def factor(self) -> Floats:
        """(R,) b of a + b n^c."""
        return np.asarray(self.scale * self.center**-self.exponent)

    def log_images_for(self, error: float) -> Floats:
        """(R,) log of the images at which the error is `error`; inf for a curve that never falls so far."""
        reached = (self.floor < error) & (self.scale > 0)
        above = np.where(reached, error - self.floor, 1.0) / np.where(reached, self.scale, 1.0)
        return np.where(reached, np.log(self.center) + np.log(above) / self.exponent, np.inf)


@dataclass(frozen=True)
class _Measured:
    """A size: its seeds, and which of their test images are wrong, as numbers (k, T)."""

    images: int
    seeds: list[int]
    table: Floats

    @property
    def errors(self) -> Floats:
        """(k,) of the seeds."""
        return np.asarray(self.table.mean(axis=1))

    @property
    def mean(self) -> float:
        """Of the errors."""
        return float(self.table.mean())

    @property
    def by_images(self) -> float:
        """Standard error of `mean` that other test images cause; 0 with one seed."""
        return float(MeanSquares.of(self.table[None]).spread().by_images) ** 0.5 if len(self.seeds) > 1 else 0.0


def fit_curve(wrong: Answers, target: float | None, seed: int = 0) -> Fit | None:
    """The curve of a series, or None with fewer than 3 sizes.

    Every number carries a 95 % interval from refits to resampled means, which vary as other seeds and other test images
    would make them. What is said beyond the largest size also supposes that the power law goes on.

    Args:
        wrong: which test images each seed has wrong at each size.
        target: accuracy that is to be reached.
        seed: of the resamples.
    """
    if len(wrong) < 3:
        return None
    points = [_Measured(size, sorted(wrong[size]), _table(wrong[size])) for size in sorted(wrong)]
    images = np.array([point.images for point in points], dtype=np.float64)
    means = np.array([point.mean for point in points])
    # The variance of 3 to 5 seeds is off by a factor of 2 either way and would make poor weights. Relative to the
    # error, scatter changes little with the size, so one relative variance is estimated from all seeds of all sizes.
    test_images = points[0].table.shape[1]
    by_images = np.array([point.by_images for point in points])
    relative = _pooled_relative_deviation(points, test_images)
    per_seed = np.array([len(point.errors) for point in points]) ** -0.5
    expected = means
    for _ in range(2):  # the second time with the weights of the fitted errors, which are less noisy than the means
        errors = np.maximum(np.hypot(relative * expected * per_seed, by_images), 1 / test_images)
        best = _least_squares(images, means[None], errors)
        expected = np.array([best.error_at(n)[0] for n in images])
    families = []
    if min(len(point.errors) for point in points) > 1:
        noise = _noise(points, by_images, seed)
        families = [_least_squares(images, np.maximum(expected + noise, 0.0), errors)]
        if _middle(families[0].floor, best.floor[0])[0] == 0:
            # Where no floor is as likely as a small one, refits that may have one put nearly every curve above the
            # truth without: what the simpler curve allows is added to each interval.
            bare = _least_squares(images, means[None], errors, floorless=True)
            expected = np.array([bare.error_at(n)[0] for n in images])
            families += [_least_squares(images, np.maximum(expected + noise, 0.0), errors, floorless=True)]
    largest = points[-1].images
    sizes = np.geomspace(images[0], FARTHEST * largest, 60).tolist()
    band = [_interval(best, families, partial(_Curves.error_at, images=n)) for n in sizes]
    at_twice = _interval(best, families, partial(_Curves.error_at, images=2 * largest))
    why = _objections(points, best, errors, at_twice)
    for_target, refusal = _for_target(target, points, best, families, why)
    return Fit(
        floor=_interval(best, families, lambda curves: curves.floor),
        scale=_interval(best, families, _Curves.factor),
        exponent=_interval(best, families, lambda curves: curves.exponent),
        supported=not why,
        why=why,
        sizes=sizes,
        mean=[one.value for one in band],
        low=[one.value if one.low is None else one.low for one in band],
        high=[one.value if one.high is None else one.high for one in band],
        largest=largest,
        at_twice=at_twice,
        at_four_times=_interval(best, families, partial(_Curves.error_at, images=4 * largest)),
        for_target=for_target,
        refusal=refusal,
    )


def _table(by_seed: Mapping[int, Bools]) -> Floats:
    return np.stack([by_seed[seed] for seed in sorted(by_seed)]).astype(np.float64)


def _pooled_relative_deviation(points: list[_Measured], test_images: int) -> float:
    """Standard deviation of a seed's error over the mean error, from all sizes; 0 when no size has two seeds."""
    squares = sum(
        float(np.sum((point.errors - point.mean) ** 2)) / max(point.mean, 1 / test_images) ** 2 for point in points
    )
    freedom = _freedom(points)
    return float((squares / freedom) ** 0.5) if freedom else 0.0


def _freedom(points: list[_Measured]) -> int:
    return sum(len(point.errors) - 1 for point in points)


def _noise(points: list[_Measured], by_images: Floats, seed: int) -> Floats:
    """By how much the means (R, m) may be off, as other seeds and other test images would make them.

    The subsets of a seed lie in each other, so what is unusual in one is in the next as well: whole seeds are weighed,
    with their deviations at all sizes. Sizes drawn on their own would make the curve look far better known than it is.
    These draws are t with (fewest seeds - 1) degrees of freedom: for anything linear in the means, the t interval of
    the seeds' own values. An image that is hard at one size is hard at the next, so the images' draws are correlated.
    """
    generator = np.random.default_rng(seed)
    seeds = sorted({one for point in points for one in point.seeds})
    deviations = np.zeros((len(seeds), len(points)))
    for place, point in enumerate(points):
        count = len(point.seeds)
        rows = [seeds.index(one) for one in point.seeds]
        deviations[rows, place] = (point.errors - point.mean) / (count * (count - 1)) ** 0.5
    freedom = min(len(point.seeds) for point in points) - 1
    inflation = (freedom / generator.chisquare(freedom, (RESAMPLES, 1))) ** 0.5
    least = 1 / points[0].table.shape[1]
    missing = np.maximum(least**2 - (deviations**2).sum(axis=0), 0) ** 0.5  # seeds that agree to the image: see paired
    drawn = generator.standard_normal((RESAMPLES, len(seeds))) @ deviations
    by_seeds = inflation * (drawn + missing * generator.standard_normal((RESAMPLES, len(points))))
    correlated = generator.multivariate_normal(np.zeros(len(points)), _correlation(points), RESAMPLES, method="svd")
    return np.asarray(by_seeds + by_images * correlated)


def _correlation(points: list[_Measured]) -> Floats:
    """(m, m) of the images' mean errors at any two sizes; 1 on the diagonal."""
    hard = np.stack([point.table.mean(axis=0) for point in points])
    hard -= hard.mean(axis=1, keepdims=True)
    lengths = np.maximum(np.linalg.norm(hard, axis=1), 1e-12)
    found = hard @ hard.T / np.outer(lengths, lengths)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _middle(draws: Floats, value: float) -> tuple[float, float]:
    """The ends of the middle 95 % of draws (R,) around their `value`; by sorting, since a draw may be infinite."""
    ordered, tail = np.sort(draws), round(len(draws) * ALPHA / 2)
    return min(float(ordered[tail]), value), max(float(ordered[-1 - tail]), value)


def _least_squares(images: Floats, means: Floats, errors: Floats, floorless: bool = False) -> _Curves:
    """The best curve for each row of `means` (R, m), given their standard errors (m,)."""
    center = float(np.exp(np.log(images).mean()))  # keeps n^c near 1, and the sums below well conditioned
    step = float(_EXPONENTS[1] - _EXPONENTS[0])
    floor, scale, exponent = _best(_EXPONENTS, images / center, means, errors, floorless)
    for _ in range(5):
        near = np.clip(exponent[:, None] + step * np.linspace(-1.0, 1.0, 11), _EXPONENTS[0], _EXPONENTS[-1])
        floor, scale, exponent = _best(near, images / center, means, errors, floorless)
        step /= 5
    return _Curves(floor, scale, exponent, center)


def _best(
    exponents: Floats, images: Floats, means: Floats, errors: Floats, floorless: bool
) -> tuple[Floats, Floats, Floats]:
    """Floor, scale and exponent (R,) of the least weighted squares among the exponents (G,) or (R, G)."""
    weights = errors**-2
    powers = images ** exponents[..., None]
    s_1, s_y = weights.sum(), (means @ weights)[:, None]
    s_x, s_xx = powers @ weights, powers**2 @ weights
    s_xy = (powers @ (means * weights)[..., None])[..., 0]
    floor = (s_xx * s_y - s_x * s_xy) / (s_1 * s_xx - s_x**2)
    scale = (s_1 * s_xy - s_x * s_y) / (s_1 * s_xx - s_x**2)
    below = (floor < 0) | floorless
    floor, scale = np.where(below, 0.0, floor), np.where(below, s_xy / s_xx, scale)
    floor, scale = np.where(scale < 0, s_y / s_1, floor), np.where(scale < 0, 0.0, scale)
    lost = floor**2 * s_1 + scale**2 * s_xx + 2 * (floor * scale * s_x - floor * s_y - scale * s_xy)
    rows, best = np.arange(len(means)), lost.argmin(axis=1)
    return floor[rows, best], scale[rows, best], np.broadcast_to(exponents, lost.shape)[rows, best]


def _interval(best: _Curves, families: list[_Curves], read: Callable[[_Curves], Floats]) -> Interval:
    """A number of the best curve; its interval covers the middle 95 % of every family of refits."""
    value = float(read(best)[0])
    ends = [_middle(read(curves), value) for curves in families]
    return (
        Interval(value, min(low for low, _ in ends), max(high for _, high in ends))
        if ends
        else (Interval(value, None, None))
    )


def _objections(points: list[_Measured], best: _Curves, errors: Floats, at_twice: Interval) -> str:
    """Why no number may be read from a fit; empty when it is sound."""
    if len(points) < 4:
        return "a curve of three parameters needs at least 4 sizes"
    if at_twice.low is None or at_twice.high is None:
        return "with a single seed at a size nobody knows how much the errors scatter"
    freedom, weights = _freedom(points), errors**-2
    means = np.array([point.mean for point in points])
    logs = np.log([point.images for point in points])
    centered = logs - (weights @ logs) / weights.sum()
    slope, deviation = weights * centered @ means / (weights @ centered**2), (weights @ centered**2) ** -0.5
    if slope + float(stdtrit(freedom, 1 - ALPHA / 2)) * deviation >= 0:
        return "the error does not fall significantly as images are added"
    spare = len(points) - 2 - int(best.floor[0] > 0)  # a floor held at zero was not fitted
    fitted = np.array([best.error_at(point.images)[0] for point in points])
    if fdtrc(spare, freedom, float((((means - fitted) / errors) ** 2).sum()) / spare) < 0.01:
        return "the errors do not follow a power law: they lie farther from it than their scatter allows"
    if at_twice.high > USEFUL * at_twice.low:
        return "with twice the images the error could be anything within a factor of more than 2"
    return ""


def _for_target(
    target: float | None, points: list[_Measured], best: _Curves, families: list[_Curves], why: str
) -> tuple[Interval | None, str]:
    """`Fit.for_target` and `Fit.refusal`."""
    if target is None:
        return None, ""
    error = 1 - target
    for point in points:
        if point.mean <= error:
            return None, f"already reached with {point.images:,} images (mean of the seeds)"
    if why:
        return None, why
    logs = partial(_Curves.log_images_for, error=error)
    if np.isinf(logs(families[0])).mean() > ALPHA / 2:
        return None, "the error may never fall so far: the curve's floor may lie above the target"
    farthest = FARTHEST * points[-1].images
    found = _interval(best, families, logs)
    if found.low is None or found.high is None or found.value > np.log(farthest):
        return None, f"it would take more than {farthest:,} images, {FARTHEST} times what was measured"
    high = float(np.exp(found.high)) if found.high <= np.log(farthest) else None
    return Interval(float(np.exp(found.value)), float(np.exp(found.low)), high), ""
