"""Two networks on the same seeds, or on the same test images: differences with 95 % intervals, and their tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit
from scipy.stats import binomtest

from vit.study.findings import Difference, Interval

Floats = npt.NDArray[np.float64]
Errors = Mapping[int, Mapping[int, float]]  # {images: {seed: share of the test images that are wrong}}

ALPHA = 0.05
_NORMAL_QUANTILE = 1.959963984540054


@dataclass(frozen=True)
class McNemar:
    """Test images that one network alone has right, and the exact two-sided p of McNemar's test."""

    only_first: int
    only_second: int
    p: float


def mean_interval(values: Sequence[float] | Floats, least: float = 0.0) -> Interval:
    """The mean with its t interval; without ends when there is one value only.

    Args:
        values: one or more.
        least: smallest standard error of the mean to believe in.
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, None, None)
    reach = t_quantile(len(values)) * standard_error(values, least)
    return Interval(mean, mean - reach, mean + reach)


def t_quantile(count: int) -> float:
    """Standard errors from the mean of `count` values to an end of its 95 % interval."""
    return float(stdtrit(count - 1, 1 - ALPHA / 2))


def standard_error(values: Sequence[float] | Floats, least: float = 0.0) -> float:
    """Of the mean of two or more values, and no smaller than `least`."""
    return max(float(np.std(values, ddof=1)) / len(values) ** 0.5, least)


def middle(draws: Floats, value: float) -> tuple[float, float]:
    """The ends of the middle 95 % of draws (R,) around their `value`; by sorting, since a draw may be infinite."""
    ordered, tail = np.sort(draws), round(len(draws) * ALPHA / 2)
    return min(float(ordered[tail]), value), max(float(ordered[-1 - tail]), value)


def holm(p_values: Sequence[float]) -> list[float]:
    """P values after Holm's correction, in the order given (Holm 1979, "A simple sequentially rejective ...")."""
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def log_ratios(first: Floats, second: Floats, test_images: int) -> tuple[Floats, float]:
    """log(first / second) of each seed's errors (k,), and the smallest standard error of their mean to believe in.

    Where an error is zero, all errors of the call become (wrong + 0.5) / (T + 1), so that they have a logarithm.
    """
    both = np.stack([first, second])
    if both.min() <= 0:
        both = (both * test_images + 0.5) / (test_images + 1)
    logs = np.log(both)
    return logs[0] - logs[1], 1 / (test_images * float(both.mean(axis=1).min()))


def differences(first: Errors, second: Errors, test_images: int) -> list[Difference]:
    """The two at every size where they share a seed, sizes ascending; Holm's correction is over those with a test.

    Args:
        first, second: errors of the two networks.
        test_images: T, on which every error was measured.
    """
    found = []
    for images in sorted(first.keys() & second.keys()):
        seeds = sorted(first[images].keys() & second[images].keys())
        if not seeds:
            continue
        ours = np.array([first[images][seed] for seed in seeds])
        theirs = np.array([second[images][seed] for seed in seeds])
        # Errors are counts of T images. Seeds that agree to the image show that the scatter is too small for this test
        # set to see, not that there is none: the standard error is never below one image.
        least = 1 / test_images
        gap = mean_interval(ours - theirs, least)
        logs, least_log = log_ratios(ours, theirs, test_images)
        ratio = mean_interval(logs, least_log)
        p = 1.0
        if len(seeds) > 1:
            statistic = gap.value / standard_error(ours - theirs, least)
            p = min(1.0, 2 * float(stdtr(len(seeds) - 1, -abs(statistic))))
        found.append(Difference(images, seeds, gap, _exponential(ratio), p, 1.0))
    tested = [place for place, one in enumerate(found) if len(one.seeds) > 1]
    for place, p_holm in zip(tested, holm([found[place].p for place in tested]), strict=True):
        found[place] = replace(found[place], p_holm=p_holm)
    return found


def mcnemar(first_correct: npt.NDArray[np.bool_], second_correct: npt.NDArray[np.bool_]) -> McNemar:
    """Whether one of two networks has more of the same images (T,) right: the exact binomial form of the test."""
    only_first = int((first_correct & ~second_correct).sum())
    only_second = int((second_correct & ~first_correct).sum())
    split = only_first + only_second
    return McNemar(only_first, only_second, float(binomtest(only_first, split).pvalue) if split else 1.0)


def paired_gap(first_correct: npt.NDArray[np.bool_], second_correct: npt.NDArray[np.bool_]) -> Interval:
    """Accuracy of the first minus accuracy of the second on the same images (T,), with Tango's score interval.

    Tango (1998), "Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design"; recommended by Fagerland, Lydersen & Laake (2014). Unlike Wald's it is no point when the two agree on
    every image.
    """
    table = mcnemar(first_correct, second_correct)
    count = len(first_correct)
    value = (table.only_first - table.only_second) / count
    return Interval(value, _tango_end(table, count, value, -1.0), _tango_end(table, count, value, 1.0))


def _tango_end(table: McNemar, count: int, value: float, limit: float) -> float:
    """The difference farthest from `value` towards `limit` that the score test does not reject, by bisection."""
    inside, outside = value, limit
    for _ in range(60):
        middle = (inside + outside) / 2
        # the share that the second alone has right, estimated given that the difference is `middle`
        half = -table.only_first - table.only_second + (2 * count - table.only_first + table.only_second) * middle
        product = 8 * count * table.only_second * middle * (1 - middle)
        share = (max(half * half + product, 0.0) ** 0.5 - half) / (4 * count)
        variance = count * (2 * share + middle * (1 - middle))
        surprise = table.only_first - table.only_second - count * middle
        if surprise**2 <= _NORMAL_QUANTILE**2 * variance:
            inside = middle
        else:
            outside = middle
    return inside


def _exponential(logs: Interval) -> Interval:
    """An interval of a logarithm, as one of the number itself."""
    low, high = (None if end is None else float(np.exp(end)) for end in (logs.low, logs.high))
    return Interval(float(np.exp(logs.value)), low, high)
