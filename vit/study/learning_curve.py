"""Error against training images: a power law fitted to the means of the seeds"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import fdtrc, stdtrit

from vit.study.findings import ALPHA, Fit, Interval
from vit.study.paired import Answers
from vit.study.power_law import PowerLaws, least_squares
from vit.study.resampling import MeasuredSizes, deviations
from vit.study.variance_components import Floats

RESAMPLES = 1000
FARTHEST = 4  # times the largest size, the end of all estimates
USEFUL = 2.0  # largest useful factor between the ends of a band
ROUNDING = 1e-9  # 1 - 0.9 is below 0.1, and a mean of equal errors may be above them; a test image counts far more


@dataclass(frozen=True)
class _Fitted:
    """The best curve, and families of refits to resampled means.

    Attributes:
        errors: (m,) standard errors of the means, the weights of the fit.
        families: refits to R resamples, with a floor and perhaps without. Empty where a size has a single seed.
    """

    best: PowerLaws
    errors: Floats
    families: Sequence[PowerLaws]

    def interval(self, read: Callable[[PowerLaws], Floats]) -> Interval:
        """A number of the best curve. Its interval covers the middle 95 % of every family of refits."""
        value = float(read(self.best)[0])
        if not self.families:
            return Interval(value, None, None)
        ends = [_middle(read(family), value) for family in self.families]
        return Interval(value, min(low for low, _ in ends), max(high for _, high in ends))

    def error_at(self, num_images: float) -> Interval:
        """Estimated error with a number of images."""
        return self.interval(partial(PowerLaws.error_at, num_images=num_images))


def fit_curve(wrong: Answers, target: float | None, seed: int = 0) -> Fit | None:
    """The curve of a series, or None with fewer than 3 sizes.

    Every number has a 95 % interval from refits to resampled means. The resamples vary as other seeds and other test
    images would. Every number beyond the largest size also assumes that the power law continues.

    Args:
        wrong: wrong test images of each seed at each size.
        target: accuracy to reach.
        seed: seed of the resamples.
    """
    if len(wrong) < 3:
        return None
    measured = MeasuredSizes.of(wrong)
    fitted = _fitted(measured, seed)
    sizes = np.geomspace(measured.sizes[0], FARTHEST * measured.largest, 60).tolist()
    band = [fitted.error_at(size) for size in sizes]
    at_twice = fitted.error_at(2 * measured.largest)
    why = _objections(measured, fitted, at_twice)
    for_target, refusal = _for_target(target, measured, fitted, why)
    return Fit(
        floor=fitted.interval(lambda curves: curves.floor),
        scale=fitted.interval(PowerLaws.factor),
        exponent=fitted.interval(lambda curves: curves.exponent),
        supported=not why,
        why=why,
        sizes=sizes,
        mean=[one.value for one in band],
        low=[one.value if one.low is None else one.low for one in band],
        high=[one.value if one.high is None else one.high for one in band],
        largest=measured.largest,
        at_twice=at_twice,
        at_four_times=fitted.error_at(4 * measured.largest),
        for_target=for_target,
        refusal=refusal,
    )


def _fitted(measured: MeasuredSizes, seed: int) -> _Fitted:
    # The variance of 3 to 5 seeds is off by a factor of 2 either way, so it makes poor weights. Relative to the error,
    # scatter changes little with the size. So one relative variance is estimated from all seeds of all sizes.
    relative = measured.relative_deviation()
    per_seed = np.array([len(point.seeds) for point in measured.points]) ** -0.5
    sizes, means = measured.sizes, measured.means
    expected = means
    for _ in range(2):  # the second time with the weights of the fitted errors, which are less noisy than the means
        errors = np.maximum(np.hypot(relative * expected * per_seed, measured.by_images), 1 / measured.num_test_images)
        best = least_squares(sizes, means[None], errors)
        expected = np.array([best.error_at(size)[0] for size in sizes])
    families = []
    if measured.fewest_seeds > 1:
        noise = deviations(measured, RESAMPLES, seed)
        families = [least_squares(sizes, np.maximum(expected + noise, 0.0), errors)]
        if _middle(families[0].floor, best.floor[0])[0] == 0:
            # Where a floor of zero is as likely as a small floor, nearly every refit with a floor lies above a true
            # curve without one. So each interval also covers the refits without a floor.
            bare = least_squares(sizes, means[None], errors, floorless=True)
            expected = np.array([bare.error_at(size)[0] for size in sizes])
            families += [least_squares(sizes, np.maximum(expected + noise, 0.0), errors, floorless=True)]
    return _Fitted(best, errors, families)


def _middle(draws: Floats, value: float) -> tuple[float, float]:
    """The ends of the middle 95 % of draws (R,) around their `value`; by sorting, since a draw may be infinite."""
    ordered, tail = np.sort(draws), round(len(draws) * ALPHA / 2)
    return min(float(ordered[tail]), value), max(float(ordered[-1 - tail]), value)


def _objections(measured: MeasuredSizes, fitted: _Fitted, at_twice: Interval) -> str:
    """Why no number may be read from a fit. The text is empty for a sound fit."""
    points, best, errors, means = measured.points, fitted.best, fitted.errors, measured.means
    if len(points) < 4:
        return "a curve of three parameters needs at least 4 sizes"
    if at_twice.low is None or at_twice.high is None:
        return "a size with a single seed does not show how much the errors scatter"
    weights, logs = errors**-2, np.log([point.num_images for point in points])
    centered = logs - (weights @ logs) / weights.sum()
    slope, deviation = weights * centered @ means / (weights @ centered**2), (weights @ centered**2) ** -0.5
    if slope + float(stdtrit(measured.freedom, 1 - ALPHA / 2)) * deviation >= 0:
        return "the error does not fall significantly as images are added"
    spare = len(points) - 2 - int(best.floor[0] > 0)  # a floor held at zero was not fitted
    expected = np.array([best.error_at(point.num_images)[0] for point in points])
    if fdtrc(spare, measured.freedom, float((((means - expected) / errors) ** 2).sum()) / spare) < 0.01:
        return "the errors do not follow a power law: they lie farther from it than their scatter allows"
    if at_twice.high > USEFUL * at_twice.low:
        return "the error with twice the images is known only within a factor of more than 2"
    return ""


def _for_target(
    target: float | None, measured: MeasuredSizes, fitted: _Fitted, why: str
) -> tuple[Interval | None, str]:
    """`Fit.for_target` and `Fit.refusal`."""
    if target is None:
        return None, ""
    error = 1 - target
    for point in measured.points:
        if point.mean <= error + ROUNDING:
            return None, f"already reached with {point.num_images:,} images (mean of the seeds)"
    if why:
        return None, why
    logs = partial(PowerLaws.log_images_for, error=error)
    if np.isinf(logs(fitted.families[0])).mean() > ALPHA / 2:
        return None, "the error may never fall so far: the curve's floor may lie above the target"
    farthest = FARTHEST * measured.largest
    found = fitted.interval(logs)
    if found.low is None or found.high is None or found.value > np.log(farthest):
        return None, f"more than {farthest:,} images, {FARTHEST} times the largest measured size"
    high = float(np.exp(found.high)) if found.high <= np.log(farthest) else None
    return Interval(float(np.exp(found.value)), float(np.exp(found.low)), high), ""
