"""One mean over several studies whose true values differ: a random-effects model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import chi2, norm, t

Floats = npt.NDArray[np.float64]
_DRAWS = 400  # values of tau, evenly spaced in their probability


@dataclass(frozen=True)
class RandomEffects:
    """The mean of the true values of k studies, and how these values scatter.

    Attributes:
        low, high: 95 % confidence interval of the mean.
        next_low, next_high: 95 % prediction interval of the true value in one more study; None with two studies.
        deviation: standard deviation of the true values, tau.
        p: two-sided p value of the test that the mean is 0.
    """

    count: int
    mean: float
    low: float
    high: float
    next_low: float | None
    next_high: float | None
    deviation: float
    p: float


def random_effects(values: Sequence[float], standard_errors: Sequence[float]) -> RandomEffects:
    """Fit the model: restricted maximum likelihood, with the test and the interval of Hartung and Knapp.

    The interval is never narrower than Student's t would make it without their factor (Jackson et al. 2017, "The
    Hartung-Knapp modification for random-effects meta-analysis: A useful refinement but are there any residual
    concerns?"). The prediction interval takes tau at every value that the data allow, each as often as the chi-square
    distribution of the weighted squares around the mean says (Nagashima, Noma and Furukawa 2019, "Prediction intervals
    for random-effects meta-analysis: A confidence distribution approach"). With the most probable tau alone, as of
    Higgins, Thompson and Spiegelhalter (2009), 86 to 92 % of simulated intervals of 8 studies held the next one.

    Args:
        values: (k,) values of two studies or more.
        standard_errors: (k,) their standard errors, above 0.
    """
    y, v = np.asarray(values, dtype=np.float64), np.square(np.asarray(standard_errors, dtype=np.float64))
    count = len(y)
    if count < 2 or v.min() <= 0:
        raise ValueError("random effects need two studies or more, with standard errors above 0")

    def fitted(tau2: float) -> tuple[float, float, float]:
        """(mean, sum of the weights, weighted squares around the mean)."""
        w = 1 / (v + tau2)
        mean = float(w @ y / w.sum())
        return mean, float(w.sum()), float(w @ np.square(y - mean))

    def loss(tau2: float) -> float:
        """Minus twice the restricted log likelihood."""
        _, total, squares = fitted(tau2)
        return float(np.log(v + tau2).sum()) + float(np.log(total)) + squares

    most = 10 * float(y.var(ddof=1) + v.max())
    tau2 = float(minimize_scalar(loss, bounds=(0, most), method="bounded", options={"xatol": 1e-9 * most}).x)
    tau2 = tau2 if loss(tau2) < loss(0.0) else 0.0
    mean, total, squares = fitted(tau2)
    error = (max(squares / (count - 1), 1.0) / total) ** 0.5
    reach = float(t.ppf(0.975, count - 1)) * error
    next_low = next_high = None
    if count > 2:
        low, high = _of_next(y, v)
        next_low, next_high = min(low, mean - reach), max(high, mean + reach)  # the mean is not known better
    p = float(2 * t.sf(abs(mean) / error, count - 1))
    return RandomEffects(count, mean, mean - reach, mean + reach, next_low, next_high, tau2**0.5, p)


def _of_next(y: Floats, v: Floats) -> tuple[float, float]:
    """Both ends of the prediction interval of (k,) values with variances v."""
    squares = chi2.isf((np.arange(_DRAWS) + 0.5) / _DRAWS, len(y) - 1)  # of the values around their mean

    def weighted(tau2: Floats) -> tuple[Floats, Floats, Floats]:
        """(mean, sum of the weights, weighted squares) of each of many tau2."""
        w = 1 / (v + tau2[:, None])
        mean = w @ y / w.sum(axis=1)
        return mean, w.sum(axis=1), (w * np.square(y - mean[:, None])).sum(axis=1)

    low, high = np.zeros(_DRAWS), np.full(_DRAWS, 1.0)
    while (is_low := weighted(high)[2] > squares).any():  # squares fall with tau2
        high[is_low] *= 2
    for _ in range(60):
        middle = (low + high) / 2
        is_low = weighted(middle)[2] > squares
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    tau2 = np.where(weighted(np.zeros(_DRAWS))[2] > squares, low, 0.0)
    mean, total, _ = weighted(tau2)
    deviation = np.sqrt(tau2 + 1 / total)

    def end(level: float) -> float:
        far = 40 * float(deviation.max())
        return float(brentq(lambda x: norm.cdf((x - mean) / deviation).mean() - level, y.min() - far, y.max() + far))

    return end(0.025), end(0.975)
