"""What all figures of a study share: scales, names, and intervals that have an open end"""

import numpy as np
import numpy.typing as npt

from vit.report.style import decades, plain
from vit.study.findings import Findings, Interval

NAME = 40  # letters of a series' name on a figure
PERCENTS = tuple(decades(steps, -3, 2) for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)))


def least_error(findings: Findings) -> float:
    """Half a test image, in place of an error of zero, which a logarithmic axis cannot show."""
    return 0.5 / findings.num_test_images


def ends(interval: Interval) -> list[float]:
    """Value, low and high, without those that are None or infinite."""
    values = (interval.value, interval.low, interval.high)
    return [value for value in values if value is not None and np.isfinite(value)]


def scaled(interval: Interval, factor: float, least: float = -np.inf) -> Interval:
    """The interval times a factor, each number of at least `least` before."""
    low, high = (None if end is None else factor * max(end, least) for end in (interval.low, interval.high))
    return Interval(factor * max(interval.value, least), low, high)


def bars(interval: Interval) -> npt.NDArray[np.float64]:
    """(2, 1) lengths of an error bar below and above the value, or NaN for an open end."""
    below = np.nan if interval.low is None else max(interval.value - interval.low, 0.0)
    above = np.nan if interval.high is None else max(interval.high - interval.value, 0.0)
    return np.array([[below], [above]])


def label(name: str) -> str:
    """A name for a legend. matplotlib leaves out names that start with an underscore, so these get a space."""
    return f" {plain(name, NAME)}" if name.lstrip().startswith("_") else plain(name, NAME)
