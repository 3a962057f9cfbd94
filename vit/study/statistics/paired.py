"""Two networks on the same seeds and test images: differences and their tests"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom

from vit.data.core.samples import Labels
from vit.inference.scores.image_groups import NORMAL_QUANTILE, effective_number, variance_of_sum
from vit.study.findings import Difference, Gain, Interval, MarginOfError, Metric
from vit.study.statistics.variance_components import (
    LEAST_SHARED,
    Answers,
    Bools,
    Floats,
    Spread,
    p_of_groups,
    spread_of,
    with_shared_scatter,
)

MOST_LOG_REACH = 50.0  # any ratio at all, and still a number


@dataclass(frozen=True)
class McNemar:
    """Test images that one network alone has right, and the two-sided p: McNemar's, or also that of groups."""

    only_first: int
    only_second: int
    p: float


@dataclass(frozen=True)
class Pair:
    """The seeds that two networks share at one size, and which test images each of them has wrong."""

    num_images: int
    seeds: list[int]
    first: Floats | Bools  # (k, T) answers of the first network, a row for each seed
    second: Floats | Bools
    groups: float | None = None  # number of equally large groups of the test images; None: all are independent
    has_folds: bool = False  # whether each seed has test images of its own

    @property
    def num_units(self) -> float:
        """The number of test images; that of groups, where groups show no scatter that could tell more."""
        if self.has_folds:
            return self.first.size
        return self.first.shape[1] if self.groups is None or np.ptp(self.gaps()) > 0 else self.groups

    @property
    def log_ratio(self) -> float:
        """log(error of the first / error of the second), over all seeds."""
        first, second = self._errors()
        return float(np.log(first / second))

    @property
    def least_log_error(self) -> float:
        """Smallest plausible standard error of `log_ratio`: the effect of one test image, or of one of `num_units`."""
        return 1 / (self.num_units * min(self._errors()))

    def gaps(self) -> Floats:
        """(k, T) contributions to the difference of the errors, which is their mean."""
        return self.first.astype(np.float64) - self.second

    def log_ratios(self) -> Floats:
        """(k, T) contributions to `log_ratio`, linearized at the errors (delta method)."""
        first, second = self._errors()
        return self.first / first - self.second / second

    def ends(self, spread: Spread, times: float = 1.0) -> tuple[float, float]:
        """Both ends of the gap's interval with so many times the images.

        Few images that differ have no normal mean. Where all seeds agree on them, the end away from 0 is Wilson's;
        else Wilson's shift counts as much as the images' effects are skewed.
        """
        gaps, reach = self.gaps(), spread.reach()
        of_images, agree = gaps.mean(axis=0), not np.ptp(gaps, axis=0).any()
        gap, variance = float(of_images.mean()), spread.by_seeds + spread.by_images
        skewness = float(np.sign(gap) * np.mean((of_images - gap) ** 3)) / (times * of_images.size * variance)
        few = max(agree, min(skewness, 1.0)) * NORMAL_QUANTILE**2 / (2 * times * self.num_units)
        far = max(reach, few + float(np.hypot(few, reach * gaps.any())))
        return gap - (reach if gap > 0 else far), gap + (reach if gap < 0 else far)

    def of(self, seeds: Sequence[int]) -> "Pair":
        rows = [self.seeds.index(seed) for seed in seeds]
        return replace(self, seeds=list(seeds), first=self.first[rows], second=self.second[rows])

    def _errors(self) -> tuple[float, float]:
        """Errors that have a logarithm: where one is zero, both become (wrong + 0.5) / (T + 1), with T units."""
        first, second, count = float(self.first.mean()), float(self.second.mean()), self.num_units
        if min(first, second) > 0:
            return first, second
        return (first * count + 0.5) / (count + 1), (second * count + 0.5) / (count + 1)


def pairs(first: Answers, second: Answers, groups: float | None = None, has_folds: bool = False) -> list[Pair]:
    """The two networks at every size at which they share a seed, sizes ascending; groups and folds as in `Pair`."""
    shared = []
    for size in sorted(first.keys() & second.keys()):
        seeds = sorted(first[size].keys() & second[size].keys())
        if seeds:
            rows = [np.stack([answers[size][seed] for seed in seeds]).astype(np.float64) for answers in (first, second)]
            shared.append(Pair(size, seeds, rows[0], rows[1], groups, has_folds))
    return shared


def differences(shared: Sequence[Pair]) -> list[Difference]:
    """The differences of two networks at every size. `p_adjusted` equals `p` until the correction.

    Few seeds know their own scatter badly, so from four sizes on it is shared, relative to the errors. Where each seed
    has test images of its own, the images tell how much their means scatter at least.
    """
    return [_difference(pair, *spread) for pair, spread in zip(shared, _spreads(shared, 2), strict=True)]


def _spreads(shared: Sequence[Pair], num_largest: int) -> list[tuple[Spread | None, Spread | None]]:
    """Spreads of gap and log ratio of each pair, None with one seed; the last `num_largest` are of largest sizes."""
    tested = [pair for pair in shared if len(pair.seeds) > 1]
    gaps = [spread_of(pair.gaps(), pair.has_folds) for pair in tested]
    logs = [spread_of(pair.log_ratios(), pair.has_folds) for pair in tested]
    if len(tested) >= LEAST_SHARED and not tested[0].has_folds:
        scales = [float(pair.first.mean() + pair.second.mean()) for pair in tested]
        gaps = with_shared_scatter(gaps, scales, num_largest)
        logs = with_shared_scatter(logs, [1.0] * len(logs), num_largest)
    of_tested = zip(gaps, logs, strict=True)
    return [next(of_tested) if len(pair.seeds) > 1 else (None, None) for pair in shared]


def difference(pair: Pair) -> Difference:
    """The difference of two networks at one size, by its own seeds."""
    return differences([pair])[0]


def _difference(pair: Pair, of_gap: Spread | None, of_log: Spread | None) -> Difference:
    gap, log_ratio = float(pair.gaps().mean()), pair.log_ratio
    if of_gap is None or of_log is None:
        ratio = Interval(float(np.exp(log_ratio)), None, None)
        return Difference(pair.num_images, pair.seeds, Interval(gap, None, None), ratio, 1.0, 1.0, None)
    # Where seeds and networks agree on every image, the scatter is too small for this test set to show, but it is not
    # zero. So the standard error is at least one image, or one group that agrees.
    spread = of_gap.at_least(1 / pair.num_units)
    low, high = pair.ends(spread)
    log_reach = min(of_log.at_least(pair.least_log_error).reach(), MOST_LOG_REACH)
    ratio = Interval(*(float(np.exp(log_ratio + side * log_reach)) for side in (0, -1, 1)))
    larger = pair.ends(spread.with_twice_the_seeds()), pair.ends(spread.with_twice_the_images(), 2.0)
    margins = MarginOfError(*(min(max(gap - a, b - gap), 1.0) for a, b in ((low, high), *larger)))
    p = spread.p_value(gap, pair.groups)
    return Difference(pair.num_images, pair.seeds, Interval(gap, max(low, -1.0), min(high, 1.0)), ratio, p, p, margins)


def counted(p: float, looks: int) -> float:
    """A p value of a study that was looked at so often, this time included.

    Seeds that are added until something is told make false claims. So p counts 2 j (j + 1) times at look j > 1, and all
    later looks together spend 1.25 %.
    """
    return p if looks < 2 else min(2 * looks * (looks + 1) * p, 1.0)


def gains(
    wrong: Mapping[str, Answers], groups: float | None = None, has_folds: bool = False, looks: int = 1
) -> dict[str, list[Gain]]:
    """{series: the steps to its largest size on the seeds that both sizes have, the widest first}.

    Few seeds know their own scatter badly, so the steps of all series share it, as sizes do in `differences`. Each p is
    at least that of the wider steps (fixed sequence, Maurer et al. 1995), so that all steps below 5 % hold together. A
    step of one seed is not tested, and not in the sequence. `wrong` is {series: which test images are wrong}, and
    `looks` as for `counted`.
    """

    def steps(of_size: Answers, sizes: Iterable[tuple[int, int]]) -> list[tuple[int, Pair]]:
        return [
            (small, replace(pair, num_images=large))
            for small, large in sizes
            for pair in pairs({0: of_size[small]}, {0: of_size[large]}, groups, has_folds)
        ]

    to_largest = {
        name: steps(of_size, [(small, max(of_size)) for small in sorted(of_size)[:-1]])
        for name, of_size in wrong.items()
    }
    before = [
        pair for of_size in wrong.values() for _, pair in steps(of_size, itertools.pairwise(sorted(of_size)[:-1]))
    ]
    last = [wide[-1][1] for wide in to_largest.values() if wide]
    gains_of: dict[str, list[Gain]] = {name: [] for name in wrong}
    for name, wide in to_largest.items():
        p = 0.0
        for small, pair in wide:
            shared = [*before, *(one for one in last if one is not pair), pair]
            step = _difference(pair, *_spreads(shared, len(shared) - len(before))[-1])
            ends = [None if end is None else 1 - 1 / end for end in (step.ratio.low, step.ratio.high)]
            if step.is_tested:
                p = max(p, counted(step.p, looks))
            fall = Interval(1 - 1 / step.ratio.value, *ends)
            gains_of[name].append(Gain(small, pair.num_images, fall, step.gap, p if step.is_tested else 1.0))
    return gains_of


def hochberg(p_values: Sequence[float | None]) -> list[float]:
    """P values after the step-up correction of Hochberg (1988), in the order given. None, for no test, becomes 1.

    All claims with a corrected p below 5 % hold together with 95 %. This is true for tests that are independent or
    positively dependent, such as tests that share seeds and test images (Sarkar 1998). If every p lies below 5 %, so
    does every corrected p: "better at every size" needs only 5 % at each size (Berger 1982, intersection-union test).
    """
    adjusted = [1.0] * len(p_values)
    smallest = 1.0
    tested = sorted(((p, index) for index, p in enumerate(p_values) if p is not None), reverse=True)
    for rank, (p, index) in enumerate(tested, start=1):
        smallest = min(smallest, rank * p)
        adjusted[index] = smallest
    return adjusted


def mcnemar(first_correct: Bools, second_correct: Bools, groups: Labels | None = None) -> McNemar:
    """Whether one of two networks has more of the same images (T,) right: the mid-p form of the binomial test.

    Its exact form rejects equal networks in 0.1 to 1.4 % instead of 5 % (Fagerland, Lydersen & Laake 2013, "The McNemar
    test for binary matched-pairs data").

    Args:
        groups: (T,) as of `image_groups.numbered`. With groups, p is the larger one of this test and of a test that
            takes groups, not images, for independent.
    """
    only_first = int((first_correct & ~second_correct).sum())
    only_second = int((second_correct & ~first_correct).sum())
    split = only_first + only_second
    fewer = min(only_first, only_second)
    point = float(binom.pmf(fewer, split, 0.5))
    p = 2 * float(binom.cdf(fewer, split, 0.5)) - point if only_first != only_second else 1 - point / 2 * (split > 0)
    if groups is not None and (error := _error_of_groups(first_correct, second_correct, groups)):
        widths = abs(only_first - only_second) / len(groups) / (NORMAL_QUANTILE * error)
        p = max(p, p_of_groups(widths, effective_number(groups) or 1.0))
    return McNemar(only_first, only_second, p)


def _error_of_groups(first: Bools, second: Bools, groups: Labels) -> float:
    """Standard error of the difference of two accuracies over independent groups of images."""
    values = first.astype(np.float64) - second
    return float(variance_of_sum(values - values.mean(), groups) ** 0.5 / len(values))


def paired_gap(first_correct: Bools, second_correct: Bools, groups: Labels | None = None) -> Metric:
    """Accuracy of the first minus accuracy of the second on the same images (T,), with Tango's score interval.

    Tango (1998), "Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design"; recommended by Fagerland, Lydersen & Laake (2014). Unlike Wald's interval it has a width where the
    two agree on every image. With groups (T,), it is at least as wide as that of independent groups. Where these show
    no scatter, each group counts as one image.
    """
    table = mcnemar(first_correct, second_correct)
    count = len(first_correct)
    value = (table.only_first - table.only_second) / count
    reach, units = 0.0, effective_number(groups) or count
    if groups is not None and (error := _error_of_groups(first_correct, second_correct, groups)):
        reach, units = NORMAL_QUANTILE * error, count
    ends = [_tango_end(table.only_first * units / count, table.only_second * units / count, units, side)
            for side in (-1.0, 1.0)]  # fmt: skip
    return Metric(value, max(min(ends[0], value - reach), -1.0), min(max(ends[1], value + reach), 1.0))


def _tango_end(only_first: float, only_second: float, count: float, limit: float) -> float:
    """The difference farthest towards `limit` that the score test does not reject; by bisection."""
    inside, outside = (only_first - only_second) / count, limit
    for _ in range(60):
        middle = (inside + outside) / 2
        # estimated fraction that the second alone has right, if the difference is `middle`
        half = -only_first - only_second + (2 * count - only_first + only_second) * middle
        product = 8 * count * only_second * middle * (1 - middle)
        share = (max(half * half + product, 0.0) ** 0.5 - half) / (4 * count)
        variance = count * (2 * share + middle * (1 - middle))
        surprise = only_first - only_second - count * middle
        if surprise**2 <= NORMAL_QUANTILE**2 * variance:
            inside = middle
        else:
            outside = middle
    return inside
