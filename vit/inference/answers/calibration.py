"""Temperature scaling: one number, fitted on validation images, that makes probabilities match accuracies

Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2: a temperature T divides the logits before the
softmax. Predicted labels stay the same. T > 1 lowers the confidence of a network. T < 1 raises it, as after label
smoothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import chdtri, log_softmax

from vit.data.core.samples import Labels
from vit.inference.scores.image_groups import Floats, design_effect
from vit.inference.scores.scored_images import ScoredImages

PRIOR_STD = 0.5  # of log T; docs/measurements.md compares other values
LOWEST, HIGHEST = 0.05, 20.0
MIN_GAIN = float(chdtri(1, 0.05)) / 2  # nats: a likelihood-ratio test at 5 %
_STEP = 1e-3  # of log T: slopes are differences


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature."""

    fitted: float  # most probable temperature
    # nats by which the log-likelihood of all images at its best temperature exceeds the one at temperature 1; over the
    # design effect, where groups of images are alike
    gain: float
    num_images: int  # number of images in the fit
    split: str = "validation"  # split of these images

    @property
    def is_clear(self) -> bool:
        """Whether the images tell the temperature from 1. With few images a fit often makes probabilities worse."""
        return bool(self.gain > MIN_GAIN)

    @property
    def value(self) -> float:
        """The number that divides the logits: the fitted temperature if it is clear, else 1."""
        return self.fitted if self.is_clear else 1.0

    def describe(self) -> str:
        """The value and its origin, for people."""
        if self.is_clear:
            return f"{self.fitted:.3f}, fitted on {self.num_images:,} {self.split} images"
        return f"stays 1: {self.num_images:,} {self.split} images do not tell it from 1 (fitted: {self.fitted:.3f})"


def fit_temperature(scored: ScoredImages, split: str = "validation") -> Temperature:
    """The temperature that should divide the logits behind some probabilities.

    It maximizes the posterior probability under a prior: log T is normal around 0 with a standard deviation of 0.5.
    Without a prior T would be 0 when every prediction is right, which is common with few images. A hundred images
    outweigh the prior. Groups of images count as many as tell as much.

    Args:
        scored: images that the network was not trained on, scored at temperature 1.
        split: split of these images.
    """
    assert scored.temperature == 1.0
    logits, rows = scored.log_probabilities, np.arange(len(scored.labels))

    def losses(log_temperature: float) -> Floats:
        return np.asarray(-log_softmax(logits / np.exp(log_temperature), axis=1)[rows, scored.labels])

    return most_probable(losses, split, scored.groups)


def most_probable(losses: Callable[[float], Floats], split: str, groups: Labels | None) -> Temperature:
    """The temperature with the highest posterior probability.

    Args:
        losses: negative log-likelihood of each image (n,) as a function of log T, in nats.
        split: split of these images.
        groups: (n,) as of `image_groups.numbered`.
    """

    def minimum(effect: float, prior_std: float) -> tuple[float, float]:
        """(log T, loss) of the best temperature."""
        found = minimize_scalar(
            lambda log_temperature: losses(log_temperature).sum() / effect + 0.5 * (log_temperature / prior_std) ** 2,
            bounds=(np.log(LOWEST), np.log(HIGHEST)),
            method="bounded",
            options={"xatol": 1e-6},
        )
        return float(found.x), float(found.fun)

    _, least_loss = minimum(1.0, np.inf)
    likely, _ = minimum(1.0, PRIOR_STD)  # without the prior, slopes vanish where every prediction is right
    slopes = (losses(likely + _STEP) - losses(likely - _STEP)) / (2 * _STEP)
    effect = design_effect(slopes, groups)
    best, _ = minimum(effect, PRIOR_STD)
    at_one = losses(0.0)
    return Temperature(float(np.exp(best)), (float(at_one.sum()) - least_loss) / effect, len(at_one), split)
