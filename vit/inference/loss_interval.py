"""The mean loss of a network on new images, with an interval that holds where few answers are wrong

A wrong answer costs many times as much as a right one. Test images without one say nothing of this part of the loss,
and percentiles of their bootstrap are far too low. A mean loss is a weighted sum of errors, as a rate is one of events.
So the interval is that of a sum of events with unequal weights (Fay and Feuer 1997, "Confidence intervals for directly
standardized rates: a method based on the gamma distribution"). Its upper end allows for one event more, of mean weight
(Tiwari, Clegg and Zou 2006, "Efficient interval estimation for age-adjusted cancer rates"). Here this is one wrong
answer more. docs/measurements.md, "Intervals where few answers are wrong", has simulations.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv

from vit.data.samples import Labels
from vit.inference.image_groups import variance_of_sum
from vit.inference.intervals import Metric

Floats = npt.NDArray[np.float64]


def mean_loss(
    losses: Floats, of_wrong_answer: Floats, groups: Labels | None = None, weights: Floats | None = None
) -> Metric:
    """The mean of losses, with its 95 % interval.

    Args:
        losses: (n,) loss of each image, at least 0.
        of_wrong_answer: (n,) what it would be if the network's answer were wrong.
        groups: (n,) as of `image_groups.numbered`. The one wrong answer more is then about all images of a group.
        weights: (n,) how much each image counts; None: all count alike.
    """
    shares = np.full(len(losses), 1 / len(losses)) if weights is None else weights / weights.sum()
    mean = float(shares @ losses)
    variance = variance_of_sum(shares * (losses - mean), groups)
    unseen = shares * of_wrong_answer
    if groups is not None:
        unseen = np.bincount(groups, unseen)[np.unique(groups)]
    low = _gamma_quantile(0.025, mean, variance)
    high = _gamma_quantile(0.975, mean + float(unseen.mean()), variance + float(np.square(unseen).mean()))
    return Metric(mean, min(low, mean), max(high, mean))


def _gamma_quantile(level: float, mean: float, variance: float) -> float:
    """The quantile of the gamma distribution with this mean and variance."""
    if variance <= 0 or mean <= 0:
        return mean
    return float(gammaincinv(mean**2 / variance, level)) * variance / mean
