"""Which of two series is better at which size, and where the lead changes

Only inside the measured range: a crossover that no measured size has shown is never claimed.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from vit.inference.scores.intervals import holm
from vit.study.findings import ALPHA, Comparison, Difference, Interval, Metric, Outcome
from vit.study.statistics.paired import Pair, counted, differences, pairs
from vit.study.statistics.variance_components import Answers, Floats, spread_of

_OF_LARGEST = 0.8  # of the 5 % are for tests at the largest size, which the answer is about


def compare_with_first(
    answers: Mapping[str, Answers], groups: float | None = None, looks: int = 1, has_folds: bool = False
) -> list[Comparison]:
    """The first series against each of the others, over all sizes at which they share a seed; without words.

    All tests are corrected together, so that all claims of a study hold together with 95 %. Tests at the largest size
    have 4 of the 5 %: the answer is about this size, and the time of a study goes to it first. `answers` is {series:
    which test images are wrong}, and `looks` as for `counted`.
    """
    (first, ours), *others = answers.items()
    shared = {second: pairs(ours, theirs, groups, has_folds) for second, theirs in others}
    tested = {second: differences(at_sizes) for second, at_sizes in shared.items()}
    slopes = {second: _slope(at_sizes) for second, at_sizes in shared.items()}
    p_values = [p for second in shared for p in (*(one.tested_p for one in tested[second]), slopes[second][1])]
    is_largest = [flag for at_sizes in tested.values() for flag in (*(one is at_sizes[-1] for one in at_sizes), False)]
    adjusted = iter(_corrected([None if p is None else counted(p, looks) for p in p_values], is_largest))
    comparisons = []
    for second, theirs in others:
        measured = [replace(one, p_adjusted=next(adjusted)) for one in tested[second]]
        slope_p, outcome = next(adjusted), _outcome(measured)
        crossing = _crossing(measured) if outcome == "crossing" else None
        unshared = sorted((ours.keys() | theirs.keys()) - {pair.num_images for pair in shared[second]})
        slope, _ = slopes[second]
        comparisons.append(Comparison(first, second, measured, outcome, crossing, slope, slope_p, unshared=unshared))
    return comparisons


def _corrected(p_values: Sequence[float | None], is_largest: Sequence[bool]) -> list[float]:
    """P values after a correction for all tests, in the order given. None, for no test, becomes 1.

    Tests at the largest size have 4 of the 5 %, all others 1 %.
    """
    tested = {place: p for place, p in enumerate(p_values) if p is not None}
    counts = Counter(is_largest[place] for place in tested)
    parts = {True: _OF_LARGEST, False: 1 - _OF_LARGEST}
    weights = [parts[is_largest[place]] / counts[is_largest[place]] for place in tested]
    adjusted = dict(zip(tested, holm([*tested.values()], weights), strict=True))
    return [adjusted.get(place, 1.0) for place in range(len(p_values))]


def _outcome(measured: list[Difference]) -> Outcome:
    if sum(one.is_tested for one in measured) < 2:
        return "not resolved"
    sides = [one.side for one in measured if one.is_significant]
    if len(sides) == len(measured) and len(set(sides)) == 1:
        return "first ahead" if sides[0] < 0 else "second ahead"
    changes = sum(before != after for before, after in itertools.pairwise(sides))
    return "crossing" if changes == 1 else "not resolved"


def _crossing(measured: list[Difference]) -> Metric:
    """Number of images at which the log ratio of the errors, interpolated linearly in log n, changes its sign.

    The ends of the 95 % interval are measured sizes: the last at which the one series is still ahead at 2.5 %, and the
    first from which the other is. Nothing is assumed of the sizes between, where one curve may reach its floor.
    """
    significant = [one for one in measured if one.is_significant]
    side = significant[0].side
    start = max(one.num_images for one in significant if one.side == side)
    stop = min(one.num_images for one in significant if one.side != side)
    inside = [one for one in measured if start <= one.num_images <= stop and one.is_tested]
    value = _descent(np.log([one.num_images for one in inside]), side * np.log([one.ratio.value for one in inside]))
    before = itertools.takewhile(lambda one: one.p < ALPHA and one.side == side, inside)
    behind = itertools.takewhile(lambda one: one.p < ALPHA and one.side != side, reversed(inside))
    low, high = ([one.num_images for one in ahead][-1] for ahead in (before, behind))
    return Metric(float(np.exp(value)), float(low), float(high))


def _descent(logs: Floats, means: Floats) -> float:
    """Where a broken line from above zero to below descends through it: the median of several such points."""
    steps = zip(itertools.pairwise(logs), itertools.pairwise(means), strict=True)
    zeros = [a + (b - a) * before / (before - after) for (a, b), (before, after) in steps if before > 0 >= after]
    return float(np.median(zeros))


def _slope(shared: Sequence[Pair]) -> tuple[Interval | None, float | None]:
    """Slope of the log ratio over log10 n by least squares, and its p value, from the seeds that have every size."""
    seeds = sorted(set.intersection(*(set(one.seeds) for one in shared))) if len(shared) > 1 else []
    if not seeds:
        return None, None
    whole = [one.of(seeds) for one in shared]
    centered = np.log10([one.num_images for one in whole])
    centered -= centered.mean()
    weights = centered / (centered @ centered)
    value = float(weights @ np.array([one.log_ratio for one in whole]))
    if len(seeds) < 2:
        return Interval(value, None, None), None
    least = float(np.sqrt(weights**2 @ np.square([one.least_log_error for one in whole])))
    values = np.tensordot(weights, np.stack([one.log_ratios() for one in whole]), axes=1)  # (k, T)
    spread = spread_of(values, whole[0].has_folds).at_least(least)
    reach = spread.reach()
    return Interval(value, value - reach, value + reach), spread.p_value(value, whole[0].groups)
