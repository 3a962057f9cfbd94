"""Temperature scaling: one number that makes probabilities mean what they say, fitted on validation images.

Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2: logits are divided by a temperature T before
the softmax. No label changes; T > 1 makes a network less sure, T < 1 (after label smoothing) surer.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from scipy.stats import chi2

from vit.inference.metrics import ScoredImages

SPREAD = 0.5  # of log T before any image is seen; docs/results.md has the others that were tried
LOWEST, HIGHEST = 0.05, 20.0
CLEAR = chi2.ppf(0.95, df=1) / 2  # nats: a likelihood-ratio test at 5 %


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature.

    Attributes:
        fitted: the most probable one.
        gain: nats by which the log-likelihood of all images at its best temperature exceeds that at 1.
        images: that it was fitted on.
    """

    fitted: float
    gain: float
    images: int

    @property
    def value(self) -> float:
        """By what logits are divided: 1 unless the images speak clearly against it, for few often make it worse."""
        return self.fitted if self.gain > CLEAR else 1.0

    def words(self) -> str:
        """What was fitted, and what was made of it."""
        if self.gain > CLEAR:
            return f"{self.fitted:.3f}, fitted on {self.images:,} validation images"
        return f"stays 1: {self.images:,} validation images do not tell it from 1 (they would give {self.fitted:.3f})"


def fit_temperature(scored: ScoredImages) -> Temperature:
    """The temperature by which the logits behind these probabilities should be divided.

    It has the largest posterior probability where log T is normal around 0 with a standard deviation of 0.5: the
    log-loss alone sends T to zero when every image is right, which is common where there are few. A hundred images
    outweigh the prior.

    Args:
        scored: validation images, scored at temperature 1; without any the answer is 1.
    """
    assert scored.temperature == 1.0
    logits, rows = scored.log_probabilities, np.arange(len(scored.labels))

    def loss(log_temperature: float) -> float:
        return -float(log_softmax(logits / np.exp(log_temperature), axis=1)[rows, scored.labels].sum())

    def lowest(spread: float) -> Any:
        return minimize_scalar(
            lambda place: loss(place) + 0.5 * (place / spread) ** 2,
            bounds=(np.log(LOWEST), np.log(HIGHEST)),
            method="bounded",
            options={"xatol": 1e-6},
        )

    return Temperature(float(np.exp(lowest(SPREAD).x)), loss(0.0) - float(lowest(np.inf).fun), len(rows))
