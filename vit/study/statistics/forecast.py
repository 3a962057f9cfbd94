"""Errors expected with more images than were measured: a Gaussian process over log n whose slope drifts

The logarithm of the error is a curve over the logarithm of the number of images n. A power law has a constant slope.
Real curves bend: towards a floor, or downwards after a late start. So the slope is a random walk (Wahba 1978, "Improper
priors, spline smoothing and the problem of guarding against model errors in regression": a cubic smoothing spline),
around a power law. Its drift was chosen on the development curves of `evidence/curves/README.md`; docs/measurements.md
has the coverage on the curves that were set aside.

No measured size shows a floor that begins at the largest one. So no upper end is below that of the error there, and
upper ends hold for every curve that does not rise.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from vit.console import percent
from vit.study.findings import ALPHA, Backtest, Expected, Forecast, Interval, Point
from vit.study.statistics.variance_components import Answers, Floats, Spread

FARTHEST = 4.0  # times the largest size, the end of all forecasts
TIMES = (1.5, 2.0, 3.0, FARTHEST)
_SLOPE, _SLOPE_DEVIATION = -0.33, 0.3  # prior of the slope at the smallest size
_DRIFT = 0.01  # variance of the slope's change when n grows by a factor of e
_LEVEL_DEVIATION = 5.0  # prior of the log error itself: it decides nothing
_SEED_DEVIATION, _PRIOR_FREEDOM = 0.06, 2  # of a seed's error over the mean error, and how many seeds this is worth
_SAME_REGIME = 0.35  # largest difference between the exponents of the steps' growth
_ROUNDING = 1e-9  # 1 - 0.9 is below 0.1, and a mean of equal errors may be above them; a test image counts far more


@dataclass(frozen=True)
class MeasuredCurve:
    """Mean errors of a series at m sizes, ascending, and what is known of their scatter."""

    sizes: Floats
    errors: Floats
    seeds: Floats  # (m,) numbers of seeds
    squares: float  # sum over all seeds of the squared relative deviation from the mean of their size
    by_images: Floats  # (m, m) covariance of the log errors that other test images cause

    @classmethod
    def of(cls, wrong: Answers) -> "MeasuredCurve":
        """From the wrong test images of each seed at each size."""
        tables = [np.stack(list(by_seed.values())).astype(np.float64) for _, by_seed in sorted(wrong.items())]
        count = tables[0].shape[1]
        errors = np.array([max(float(table.mean()), 0.5 / count) for table in tables])
        hard = np.stack([table.mean(axis=0) - table.mean() for table in tables])
        lengths = np.maximum(np.linalg.norm(hard, axis=1), 1e-12)
        correlation = hard @ hard.T / np.outer(lengths, lengths)
        np.fill_diagonal(correlation, 1.0)
        deviations = np.array([max(_by_images(table), 1 / count) for table in tables]) / np.maximum(errors, 1 / count)
        squares = sum(
            float(np.sum((table.mean(axis=1) - table.mean()) ** 2)) / error**2
            for table, error in zip(tables, errors, strict=True)
        )
        seeds = np.array([len(table) for table in tables], dtype=np.float64)
        sizes = np.array(sorted(wrong), dtype=np.float64)
        return cls(sizes, errors, seeds, squares, correlation * np.outer(deviations, deviations))

    def expected(self, num_images: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Expected errors at any sizes (n,), with both ends of their 95 % intervals."""
        freedom = float((self.seeds - 1).sum()) + _PRIOR_FREEDOM
        of_seeds = (self.squares + _PRIOR_FREEDOM * _SEED_DEVIATION**2) / freedom / self.seeds
        largest_first = np.append(self.sizes[-1], num_images)
        known, wanted = (np.log(sizes / self.sizes[0]) for sizes in (self.sizes, largest_first))
        cross, away = _covariance(wanted, known), np.log(self.errors / self.errors[0]) - _SLOPE * known
        noise = np.diag(of_seeds) + self.by_images
        weights = np.linalg.solve(_covariance(known, known) + noise, cross.T)
        center = _SLOPE * wanted + away @ weights + np.log(self.errors[0])
        variance = np.diag(_covariance(wanted, wanted)) - np.einsum("nm,mn->n", cross, weights)
        quantile = float(stdtrit(freedom, 1 - ALPHA / 2))
        reach = quantile * np.sqrt(np.maximum(variance, 0.0))
        # the upper end of the largest size alone, as Wilson's of a count with this relative variance
        stopped = np.log(self.errors[-1]) + np.arccosh(1 + quantile**2 * noise[-1, -1] / 2)
        if center[0] - reach[0] > stopped:  # no smooth curve falls so suddenly: it begins where the last one ends
            center -= center[0] - np.log(self.errors[-1])
        shown, high = np.minimum(center, stopped), np.maximum(center + reach, stopped)
        error, low, high = (np.exp(np.minimum(each[1:], 0.0)) for each in (shown, shown - reach, high))
        return error, low, high


def _by_images(table: Floats) -> float:
    """Standard error of the mean of a table (k, T) that other test images cause; all of their scatter with one seed."""
    if len(table) < 2:
        return float((table.var() / table.shape[1]) ** 0.5)
    return Spread.of(table).by_images ** 0.5


def _covariance(one: Floats, other: Floats) -> Floats:
    """Prior covariances (n, m) of log errors at logarithms of sizes: level, slope, and the slope's random walk."""
    near, far = np.minimum.outer(one, other), np.maximum.outer(one, other)
    walk = near**2 * far / 2 - near**3 / 6
    return np.asarray(_LEVEL_DEVIATION**2 + _SLOPE_DEVIATION**2 * np.outer(one, other) + _DRIFT * walk)


def forecast(
    series: str, wrong: Answers, points: Sequence[Point], steps: Mapping[int, int], target: float | None
) -> Forecast:
    """What a series would reach with more images, and what the same method would have said before the last sizes.

    No number is given with one size, or where the last two sizes trained for lengths of another kind.

    Args:
        steps: optimizer steps at each size; empty where heads are fitted until they no longer change.
    """
    used = last_regime(sorted(wrong), steps)
    largest, why = used[-1], ""
    if len(wrong) < 2:
        why = "only one size was measured"
    elif len(used) == 2 < len(wrong):  # two sizes do not show that the second has the length of its own kind
        why = f"with fewer than {largest:,} images the lengths of the trainings grew in another way"
    if why:
        return Forecast(largest, why, [], [], [], [], [], [], *_for_target(target, points, None, why))
    curve = MeasuredCurve.of({size: wrong[size] for size in used})
    grid = np.geomspace(largest, FARTHEST * largest, 30)
    mean, low, high = (values.tolist() for values in curve.expected(grid))
    rows = zip(TIMES, *curve.expected([times * largest for times in TIMES]), strict=True)
    expected = [
        Expected(series, round(times * largest), float(error), float(low), float(high))
        for times, error, low, high in rows
    ]
    backtest = _backtest(series, {size: wrong[size] for size in used})
    for_target = _for_target(target, points, curve, "")
    return Forecast(largest, "", grid.tolist(), mean, low, high, expected, backtest, *for_target)


def last_regime(sizes: Sequence[int], steps: Mapping[int, int]) -> list[int]:
    """The largest sizes whose steps grow with the images in one way, such as not at all or in proportion.

    "300 steps or 20 epochs, the longer" has two regimes, and its curve has a kink between them.
    """
    if not steps:
        return list(sizes)
    pairs = itertools.pairwise(sizes)
    growth = [float(np.log(steps[b] / steps[a]) / np.log(b / a)) for a, b in pairs]
    start = len(growth)
    while start and np.ptp(growth[start - 1 :]) <= _SAME_REGIME:
        start -= 1
    return list(sizes[start:])


def _backtest(series: str, wrong: Answers) -> list[Backtest]:
    """What each beginning says of sizes up to 4 times its last; a lower end below one test image is 0."""
    sizes, backtests = sorted(wrong), []
    for count in range(2, len(sizes)):
        known = sizes[:count]
        later = [size for size in sizes[count:] if size <= FARTHEST * known[-1]]
        curve = MeasuredCurve.of({size: wrong[size] for size in known})
        for size, error, low, high in zip(later, *curve.expected(later), strict=True):
            table = np.stack(list(wrong[size].values()))
            ends = float(low) if low * table.shape[1] >= 1 else 0.0, float(high)
            backtests.append(Backtest(series, size, float(error), *ends, known[-1], float(table.mean())))
    return backtests


def _for_target(
    target: float | None, points: Sequence[Point], curve: MeasuredCurve | None, why: str
) -> tuple[tuple[int, int | None] | None, str]:
    """`Forecast.for_target` and `Forecast.refusal`."""
    if target is None:
        return None, ""
    error = 1 - target + _ROUNDING
    for point in points:
        if point.mean.value <= error:
            doubt = point.mean.ends is None or point.mean.ends[1] > error
            return None, f"{'perhaps ' * doubt}reached with {point.num_images:,} images: {_error_text(point.mean)}"
    if curve is None:
        return None, f"no forecast, because {why}"
    largest = float(curve.sizes[-1])
    grid = np.geomspace(largest, FARTHEST * largest, 400)
    center, low, high = curve.expected(grid)
    if low[-1] > error:
        last = Interval(float(center[-1]), float(low[-1]), float(high[-1]))
        return None, f"not with {grid[-1]:,.0f} images, {FARTHEST:g} times the largest size: {_error_text(last)}"
    likely = round(grid[np.argmax(center <= error)]) if center[-1] <= error else None
    return (round(grid[np.argmax(low <= error)]), likely), ""


def _error_text(error: Interval) -> str:
    around = " to ".join(f"{100 * end:.1f}" for end in error.ends or ())
    return f"error {percent(error.value, 1)}{f' ({around})' * bool(around)}"
