"""Which of two series is better at which number of training images, and where they change places, if they do.

Inside the measured range only: a crossover that no measured size has shown is never claimed.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vit.study.crossed import ALPHA, Floats, MeanSquares
from vit.study.findings import Comparison, Difference, Interval, Verdict
from vit.study.paired import Answers, Pair, difference, hochberg, pairs

STEPS = 200  # between two sizes, at which the test of a crossing's interval is made


@dataclass(frozen=True)
class _Tests:
    """Two series, and all tests of them, not yet corrected."""

    first: str
    second: str
    pairs: list[Pair]
    differences: list[Difference]
    slope: Interval | None
    slope_p: float | None


def compare_with_first(answers: Mapping[str, Answers]) -> list[Comparison]:
    """The first series with each of the others, over all sizes at which they share a seed.

    All tests are corrected together, so that everything that is claimed of a study holds at once with 95 %.

    Args:
        answers: {series: which test images are wrong}, all measured on the same test images.
    """
    (first, ours), *others = answers.items()
    tests = [_tests(first, second, ours, theirs) for second, theirs in others]
    p_values = [one.p for test in tests for one in test.differences if one.reach is not None]
    p_values += [test.slope_p for test in tests if test.slope_p is not None]
    adjusted = iter(hochberg(p_values))
    corrected = [
        [replace(one, p_adjusted=next(adjusted)) if one.reach is not None else one for one in test.differences]
        for test in tests
    ]
    slopes = [next(adjusted) if test.slope_p is not None else 1.0 for test in tests]
    return [_comparison(*each) for each in zip(tests, corrected, slopes, strict=True)]


def _tests(first: str, second: str, ours: Answers, theirs: Answers) -> _Tests:
    shared = pairs(ours, theirs)
    slope, slope_p = _slope(shared)
    return _Tests(first, second, shared, [difference(pair) for pair in shared], slope, slope_p)


def _comparison(tests: _Tests, found: list[Difference], slope_p: float) -> Comparison:
    verdict = _verdict(found)
    crossing = None
    if verdict == "crossing":
        crossing = _crossing(*_bracket(found, tests.pairs))
        verdict = "crossing" if crossing else "not resolved"
    plain = Comparison(tests.first, tests.second, found, verdict, crossing, tests.slope, slope_p, "")
    return replace(plain, words=" ".join(filter(None, (outcome(plain), _trend(plain, tests.pairs)))))


def outcome(comparison: Comparison) -> str:
    """Who is better where, in one sentence."""
    first, second, found = comparison.first, comparison.second, comparison.differences
    tested = [one for one in found if len(one.seeds) > 1]
    if len(tested) < 2:
        return f"{first} and {second} share too few sizes with two seeds or more to say what changes with size."
    if comparison.verdict == "crossing" and comparison.crossing is not None:
        significant, crossing = _significant(found), comparison.crossing
        below, above = (first, second) if _side(significant[0]) < 0 else (second, first)
        outer = [one.images for one in found if not significant[0].images <= one.images <= significant[-1].images]
        return (
            f"Below about {_about(crossing.value)} images (95 % interval {_about(crossing.low or found[0].images)} to "
            f"{_about(crossing.high or found[-1].images)}) {below} is better, above it {above}"
            + (f"; with {listed(outer)} images they cannot be told apart." if outer else ".")
        )
    if comparison.verdict in ("first ahead", "second ahead"):
        ahead, behind = (first, second) if comparison.verdict == "first ahead" else (second, first)
        return (
            f"{ahead} makes fewer errors than {behind} at every size measured "
            f"({found[0].images:,} to {found[-1].images:,} images)."
        )
    significant = _significant(found)
    parts = []
    for name, side in ((first, -1), (second, 1)):
        sizes = [one.images for one in significant if _side(one) == side]
        if sizes:
            parts.append(f"{name} is significantly ahead with {listed(sizes)} images")
    open_sizes = [one.images for one in found if one not in significant]
    if open_sizes:
        parts.append(f"{first} and {second} cannot be told apart with {listed(open_sizes)} images")
    return "; ".join(parts) + "."


def listed(sizes: list[int]) -> str:
    """'100, 300 and 1,000'."""
    words = [f"{size:,}" for size in sizes]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _side(one: Difference) -> int:
    """-1: the first makes fewer errors; 1: the second."""
    return int(np.sign(one.gap.value))


def _significant(found: list[Difference]) -> list[Difference]:
    return [one for one in found if one.p_adjusted < ALPHA]


def _verdict(found: list[Difference]) -> Verdict:
    """What the tests of the single sizes add up to."""
    tested = [one for one in found if len(one.seeds) > 1]
    significant = _significant(found)
    if len(tested) < 2:
        return "not resolved"
    sides = [_side(one) for one in significant]
    if len(significant) == len(found) and len(set(sides)) == 1:
        return "first ahead" if sides[0] < 0 else "second ahead"
    changes = sum(before != after for before, after in itertools.pairwise(sides))
    return "crossing" if changes == 1 else "not resolved"


def _bracket(found: list[Difference], shared: list[Pair]) -> tuple[list[Pair], int]:
    """The sizes from the last at which one is significantly ahead to the first at which the other is, and the one."""
    significant = _significant(found)
    side = _side(significant[0])
    start = max(one.images for one in significant if _side(one) == side)
    stop = min(one.images for one in significant if _side(one) != side)
    return [one for one in shared if start <= one.images <= stop and len(one.seeds) > 1], side


def _crossing(shared: list[Pair], side: int) -> Interval | None:
    """Images at which the log ratio of the errors, straight between sizes in log n, goes from `side` to the other.

    For two power laws that ratio is nearly linear in log n, and its scatter nearly the same at every n. The 95 %
    interval is an inverted test (Fieller 1954, "Some problems in interval estimation"): it begins where the one is
    first not significantly ahead at 2.5 %, and ends where the other is last not. The test at any number of images is
    that of the seeds' and test images' own values there. So it supposes nothing of how neighboring sizes hang
    together, whose subsets lie in each other. The sizes at both ends are significant, so the interval always lies
    between them.

    Args:
        shared: from the last size at which `side` is significantly ahead to the first at which the other is.
    """
    ratios = np.array([one.log_ratio for one in shared])
    value = _descent(np.log([one.images for one in shared]), side * ratios)
    if value is None:
        return None
    share = np.linspace(0.0, 1.0, STEPS + 1)
    neighbors = list(itertools.pairwise(shared))
    places = np.concatenate([np.log(a.images) + share * np.log(b.images / a.images) for a, b in neighbors])
    leads = side * np.concatenate([_leads(a, b, share) for a, b in neighbors])
    low, high = places[leads < 1].min(initial=value), places[leads > -1].max(initial=value)
    return Interval(float(np.exp(value)), float(np.exp(low)), float(np.exp(high)))


def _leads(one: Pair, other: Pair, share: Floats) -> Floats:
    """At `share` of the way to the next size: 1 or -1 where the log ratio is significantly above or below 0, else 0."""
    seeds = [seed for seed in one.seeds if seed in other.seeds]
    if len(seeds) < 2:
        return np.zeros_like(share)
    ends = [pair.of(seeds) for pair in (one, other)]
    weights = np.stack([1 - share, share], axis=1)
    least = np.sqrt(weights**2 @ np.square([pair.least_log_error for pair in ends]))
    spread = MeanSquares.of(np.stack([pair.log_ratios() for pair in ends])).spread(weights).at_least(least)
    values = weights @ np.array([pair.log_ratio for pair in ends])
    return np.where(spread.p_value(values) < ALPHA, np.sign(values), 0.0)


def _descent(logs: Floats, means: Floats) -> float | None:
    """Where a broken line goes down through zero; the median of several such places, None without one."""
    steps = zip(itertools.pairwise(logs), itertools.pairwise(means), strict=True)
    found = [a + (b - a) * before / (before - after) for (a, b), (before, after) in steps if before > 0 >= after]
    return float(np.median(found)) if found else None


def _slope(shared: Sequence[Pair]) -> tuple[Interval | None, float | None]:
    """Slope of the log ratio over log10 n by least squares, and its p, from the seeds that have every size."""
    seeds = sorted(set.intersection(*(set(one.seeds) for one in shared))) if len(shared) > 1 else []
    if not seeds:
        return None, None
    whole = [one.of(seeds) for one in shared]
    centered = np.log10([one.images for one in whole])
    centered -= centered.mean()
    weights = centered / (centered @ centered)
    value = float(weights @ np.array([one.log_ratio for one in whole]))
    if len(seeds) < 2:
        return Interval(value, None, None), None
    least = np.sqrt(weights**2 @ np.square([one.least_log_error for one in whole]))
    spread = MeanSquares.of(np.stack([one.log_ratios() for one in whole])).spread(weights).at_least(least)
    reach = float(spread.reach())
    return Interval(value, value - reach, value + reach), float(spread.p_value(value))


def _trend(comparison: Comparison, shared: list[Pair]) -> str:
    """The test of the slope, in one sentence; nothing without an interval."""
    slope = comparison.slope
    if slope is None or slope.low is None or slope.high is None:
        return ""
    name = f"the ratio of errors ({comparison.first} over {comparison.second})"
    if comparison.slope_p >= ALPHA:
        return f"As images are added, {name} does not change measurably."
    value, low, high = (f"{np.exp(end):.2f}" for end in (slope.value, slope.low, slope.high))
    said = (
        f"As images are added, {name} {'grows' if slope.value > 0 else 'shrinks'}: with ten times as many it is "
        f"{value} times what it was (95 % interval {low} to {high})"
    )
    closing = slope.value * sum(one.log_ratio for one in shared) < 0
    if closing and comparison.verdict != "crossing":
        said += "; a shrinking gap alone is no evidence of a crossover"
    return said + "."


def _about(images: float) -> str:
    """Two significant digits: '1,300'."""
    return f"{float(f'{images:.2g}'):,.0f}"
