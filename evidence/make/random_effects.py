"""One mean over several studies whose true values differ: a random-effects model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import t


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
    concerns?"). The prediction interval has k - 2 degrees of freedom (Higgins, Thompson and Spiegelhalter 2009, "A
    re-evaluation of random-effects meta-analysis").

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
        next_reach = float(t.ppf(0.975, count - 2)) * (tau2 + error**2) ** 0.5
        next_low, next_high = mean - next_reach, mean + next_reach
    p = float(2 * t.sf(abs(mean) / error, count - 1))
    return RandomEffects(count, mean, mean - reach, mean + reach, next_low, next_high, tau2**0.5, p)
