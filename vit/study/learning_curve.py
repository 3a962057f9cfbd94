"""Error against training images: a power law with a floor, fitted to the means of the seeds, and how far it carries.

e(n) = a + b n^c with a >= 0, b > 0 and -2 <= c < 0 (Hestness et al. 2017, "Deep Learning Scaling is Predictable,
Empirically"; Hoiem et al. 2021, "Learning Curves for Analysis of Deep Networks"). For a given c the curve is linear in
(a, b), so c alone is searched, on a grid (variable projection), for all resamples at once.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc, stdtrit

from vit.study.findings import Fit, Interval, Point
from vit.study.paired import ALPHA, middle

Floats = npt.NDArray[np.float64]

RESAMPLES = 1000
FARTHEST = 4  # times the largest size; beyond it nothing is said
USEFUL = 2.0  # a band whose ends differ by more than this factor tells nobody how much to collect
_EXPONENTS = np.linspace(-2.0, -0.01, 200)


@dataclass(frozen=True)
class _Curves:
    """R curves floor + scale * (n / centre)^exponent; each parameter is (R,)."""

    floor: Floats
    scale: Floats
    exponent: Floats
    centre: float

    def at(self, images: Floats) -> Floats:
        """Errors (R, len(images))."""
        powers = (images / self.centre) ** self.exponent[:, None]
        return self.floor[:, None] + self.scale[:, None] * powers

    def log_images_for(self, error: float) -> Floats:
        """(R,) log of the images at which the error is `error`; inf for a curve that never falls so far."""
        reached = (self.floor < error) & (self.scale > 0)
        above = np.where(reached, error - self.floor, 1.0) / np.where(reached, self.scale, 1.0)
        return np.where(reached, np.log(self.centre) + np.log(above) / self.exponent, np.inf)


def fit_curve(points: list[Point], target: float | None, test_images: int, seed: int = 0) -> Fit | None:
    """The curve of a series, or None with fewer than 3 sizes.

    Every number carries a 95 % interval from refits to resampled means; what is said beyond the largest size also
    supposes that the power law goes on. Test images are the same throughout: their choice is in no interval.

    Args:
        points: sizes ascending.
        target: accuracy that somebody wants to reach.
        test_images: T, on which the errors were measured.
        seed: of the resamples.
    """
    if len(points) < 3:
        return None
    images = np.array([point.images for point in points], dtype=np.float64)
    means = np.array([point.mean.value for point in points])
    freedom = sum(len(point.errors) - 1 for point in points)
    # The variance of 3 to 5 seeds is off by a factor of 2 either way and would make poor weights. Relative to the
    # error, scatter changes little with the size, so one relative variance is estimated from all seeds of all sizes.
    relative = _pooled_relative_deviation(points, test_images)
    per_seed = np.array([len(point.errors) for point in points]) ** -0.5
    expected = means
    for _ in range(2):  # the second time with the weights of the fitted errors, which are less noisy than the means
        errors = np.maximum(relative * expected * per_seed, 1 / test_images)
        curve = _least_squares(images, means[None], errors)
        expected = curve.at(images)[0]
    drawn = _resampled(images, expected, errors, freedom, seed) if freedom else None

    def interval(value: float, draws: Floats | None) -> Interval:
        return Interval(value, *((None, None) if draws is None else middle(draws, value)))

    largest = points[-1].images
    sizes = np.geomspace(images[0], FARTHEST * largest, 60)
    mean = curve.at(sizes)[0]
    band = np.sort(drawn.at(sizes), axis=0) if drawn else np.stack([mean])
    tail = round(len(band) * ALPHA / 2)
    ahead = [
        interval(float(curve.at(np.array([n]))[0, 0]), drawn.at(np.array([n]))[:, 0] if drawn else None)
        for n in (2.0 * largest, 4.0 * largest)
    ]
    why = _objections(images, means, errors, curve, freedom, ahead[0])
    for_target, refusal = _for_target(target, points, curve, drawn, why)
    return Fit(
        floor=interval(float(curve.floor[0]), drawn.floor if drawn else None),
        scale=interval(_scale(curve)[0], _scale(drawn) if drawn else None),
        exponent=interval(float(curve.exponent[0]), drawn.exponent if drawn else None),
        supported=not why,
        why=why,
        sizes=sizes.tolist(),
        mean=mean.tolist(),
        low=np.minimum(band[tail], mean).tolist(),
        high=np.maximum(band[-1 - tail], mean).tolist(),
        largest=largest,
        at_twice=ahead[0],
        at_four_times=ahead[1],
        for_target=for_target,
        refusal=refusal,
    )


def _pooled_relative_deviation(points: list[Point], test_images: int) -> float:
    """Standard deviation of a seed's error over the mean error, from all sizes; 0 when no size has two seeds."""
    squares = sum(
        float(np.sum((np.array(point.errors) - point.mean.value) ** 2)) / max(point.mean.value, 1 / test_images) ** 2
        for point in points
    )
    freedom = sum(len(point.errors) - 1 for point in points)
    return float((squares / freedom) ** 0.5) if freedom else 0.0


def _resampled(images: Floats, expected: Floats, errors: Floats, freedom: int, seed: int) -> _Curves:
    """Curves refitted to means as another study might have found them.

    The standard errors come from one pooled variance, so what that variance may be wrong by is common to all sizes: a
    draw is multivariate t with the pooled degrees of freedom (one chi-square a draw), not a t for each size.
    """
    generator = np.random.default_rng(seed)
    inflation = (freedom / generator.chisquare(freedom, (RESAMPLES, 1))) ** 0.5
    noise = generator.standard_normal((RESAMPLES, len(images))) * inflation
    return _least_squares(images, np.maximum(expected + errors * noise, 0.0), errors)


def _least_squares(images: Floats, means: Floats, errors: Floats) -> _Curves:
    """The best curve for each row of `means` (R, m), given standard errors (m,); O(R * grid) memory."""
    centre = float(np.exp(np.log(images).mean()))  # keeps n^c near 1, and the sums below well conditioned
    step = float(_EXPONENTS[1] - _EXPONENTS[0])
    floor, scale, exponent = _best(_EXPONENTS, images / centre, means, errors)
    for _ in range(4):
        near = exponent[:, None] + step * np.linspace(-1.0, 1.0, 11)
        floor, scale, exponent = _best(np.clip(near, -2.0, _EXPONENTS[-1]), images / centre, means, errors)
        step /= 5
    return _Curves(floor, scale, exponent, centre)


def _best(exponents: Floats, images: Floats, means: Floats, errors: Floats) -> tuple[Floats, Floats, Floats]:
    """Floor, scale and exponent (R,) of the least weighted squares among the exponents (G,) or (R, G)."""
    weights = errors**-2
    powers = images ** exponents[..., None]
    s_1, s_y = weights.sum(), (means @ weights)[:, None]
    s_x, s_xx = powers @ weights, powers**2 @ weights
    s_xy = (powers @ (means * weights)[..., None])[..., 0]
    floor = (s_xx * s_y - s_x * s_xy) / (s_1 * s_xx - s_x**2)
    scale = (s_1 * s_xy - s_x * s_y) / (s_1 * s_xx - s_x**2)
    floor, scale = np.where(floor < 0, 0.0, floor), np.where(floor < 0, s_xy / s_xx, scale)
    floor, scale = np.where(scale < 0, s_y / s_1, floor), np.where(scale < 0, 0.0, scale)
    lost = floor**2 * s_1 + scale**2 * s_xx + 2 * (floor * scale * s_x - floor * s_y - scale * s_xy)
    rows, best = np.arange(len(means)), lost.argmin(axis=1)
    return floor[rows, best], scale[rows, best], np.broadcast_to(exponents, lost.shape)[rows, best]


def _objections(images: Floats, means: Floats, errors: Floats, curve: _Curves, freedom: int, at_twice: Interval) -> str:
    """Why no number may be read from a fit; empty when it is sound."""
    if len(images) < 4:
        return "a curve of three parameters needs at least 4 sizes"
    if not freedom:
        return "with one seed for each size nobody knows how much the errors scatter"
    weights, logs = errors**-2, np.log(images)
    centred = logs - (weights @ logs) / weights.sum()
    slope, deviation = weights * centred @ means / (weights @ centred**2), (weights @ centred**2) ** -0.5
    if slope + float(stdtrit(freedom, 1 - ALPHA / 2)) * deviation >= 0:
        return "the error does not fall significantly as images are added"
    spare = len(images) - 2 - int(curve.floor[0] > 0)  # a floor held at zero was not fitted
    misfit = float((((means - curve.at(images)[0]) / errors) ** 2).sum())
    if fdtrc(spare, freedom, misfit / spare) < 0.01:
        return "the errors do not follow a power law: they lie farther from it than their scatter allows"
    if at_twice.low is None or at_twice.high is None or at_twice.high > USEFUL * at_twice.low:
        return "with twice the images the error could be anything within a factor of more than 2"
    return ""


def _for_target(
    target: float | None, points: list[Point], curve: _Curves, drawn: _Curves | None, why: str
) -> tuple[Interval | None, str]:
    """`Fit.for_target` and `Fit.refusal`."""
    if target is None:
        return None, ""
    error = 1 - target
    for point in points:
        if point.mean.value <= error:
            return None, f"already reached with {point.images:,} images (mean of the seeds)"
    if why or drawn is None:
        return None, why
    draws = drawn.log_images_for(error)
    if np.isinf(draws).mean() > ALPHA / 2:
        return None, "the error may never fall so far: the curve's floor may lie above the target"
    farthest = FARTHEST * points[-1].images
    value = float(curve.log_images_for(error)[0])
    if value > np.log(farthest):
        return None, f"it would take more than {farthest:,} images, {FARTHEST} times what was measured"
    low, high = middle(draws, value)
    return Interval(
        float(np.exp(value)), float(np.exp(low)), float(np.exp(high)) if high <= np.log(farthest) else None
    ), ""


def _scale(curves: _Curves) -> Floats:
    """(R,) b of a + b n^c, for n in images."""
    return np.asarray(curves.scale * curves.centre**-curves.exponent)
