"""Which of two series is better at which number of training images, and where they change places, if they do.

Inside the measured range only: a crossover that no measured size has shown is never claimed.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vit.study.findings import Comparison, Difference, Interval, Series, Verdict
from vit.study.paired import ALPHA, Errors, differences, log_ratios, mean_interval, t_quantile

Floats = npt.NDArray[np.float64]

STEPS = 200  # between two sizes, at which the test of a crossing's interval is made


@dataclass(frozen=True)
class _Ratios:
    """log(error of the first / error of the second) of each seed at one size.

    For two power laws this is nearly linear in log n, and its scatter nearly the same at every n.
    """

    images: int
    by_seed: dict[int, float]
    least: float  # smallest standard error of their mean to believe in

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.by_seed.values())))


def compare(first: Series, second: Series, test_images: int) -> Comparison:
    """The two over all sizes at which they share a seed.

    Args:
        first, second: errors measured on the same test images.
        test_images: how many.
    """
    ours, theirs = _by_size(first), _by_size(second)
    found = differences(ours, theirs, test_images)
    ratios = [_ratios(one, ours, theirs, test_images) for one in found]
    verdict = _verdict(found)
    crossing = None
    if verdict == "crossing":
        crossing = _crossing(*_bracket(found, ratios))
        verdict = "crossing" if crossing else "not resolved"
    slope = _slope(ratios)
    plain = Comparison(first.name, second.name, found, verdict, crossing, slope, "")
    return replace(plain, words=" ".join(filter(None, (outcome(plain), _trend(plain, ratios)))))


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


def _by_size(series: Series) -> Errors:
    return {point.images: dict(zip(point.seeds, point.errors, strict=True)) for point in series.points}


def _ratios(one: Difference, ours: Errors, theirs: Errors, test_images: int) -> _Ratios:
    pairs = np.array([[errors[one.images][seed] for seed in one.seeds] for errors in (ours, theirs)])
    logs, least = log_ratios(pairs[0], pairs[1], test_images)
    return _Ratios(one.images, dict(zip(one.seeds, logs.tolist(), strict=True)), least)


def _side(one: Difference) -> int:
    """-1: the first makes fewer errors; 1: the second."""
    return int(np.sign(one.gap.value))


def _significant(found: list[Difference]) -> list[Difference]:
    return [one for one in found if one.p_holm < ALPHA]


def _verdict(found: list[Difference]) -> Verdict:
    """What the tests of the single sizes add up to."""
    if sum(len(one.seeds) > 1 for one in found) < 2:
        return "not resolved"
    # "At every size" is wrong as soon as it is wrong at one: each test may have the whole 5 % (Berger 1982,
    # "Multiparameter hypothesis testing and acceptance sampling": intersection-union test).
    if all(one.gap.high is not None and one.gap.high < 0 for one in found):
        return "first ahead"
    if all(one.gap.low is not None and one.gap.low > 0 for one in found):
        return "second ahead"
    # "At one size or another" needs the correction for having looked at many.
    sides = [_side(one) for one in _significant(found)]
    changes = sum(before != after for before, after in itertools.pairwise(sides))
    return "crossing" if changes == 1 else "not resolved"


def _bracket(found: list[Difference], ratios: list[_Ratios]) -> tuple[list[_Ratios], int]:
    """The sizes from the last at which the one is significantly ahead to the first at which the other is; the one."""
    significant = _significant(found)
    side = _side(significant[0])
    start = max(one.images for one in significant if _side(one) == side)
    stop = min(one.images for one in significant if _side(one) != side)
    return [one for one in ratios if start <= one.images <= stop and len(one.by_seed) > 1], side


def _crossing(ratios: list[_Ratios], side: int) -> Interval | None:
    """Images at which the mean log ratio, straight between sizes in log n, goes from `side` to the other.

    The 95 % interval is a test turned round (Fieller 1954, "Some problems in interval estimation"): it begins where the
    one is first not significantly ahead at 2.5 %, and ends where the other is last not. The test at any number of
    images is a t test of the seeds' own values there. So it supposes nothing of how a seed's errors at neighbouring
    sizes, whose subsets lie in each other, hang together, and holds with few seeds, where percentiles of resampled
    seeds are far too narrow. The sizes at both ends are significant, so it always lies between them.

    Args:
        ratios: from the last size at which `side` is significantly ahead to the first at which the other is.
    """
    value = _descent(np.log([one.images for one in ratios]), side * np.array([one.mean for one in ratios]))
    if value is None:
        return None
    share = np.linspace(0.0, 1.0, STEPS + 1)
    pairs = list(itertools.pairwise(ratios))
    places = np.concatenate([np.log(a.images) + share * np.log(b.images / a.images) for a, b in pairs])
    leads = side * np.concatenate([_advantage(a, b, share) for a, b in pairs])
    low, high = places[leads < 1].min(initial=value), places[leads > -1].max(initial=value)
    return Interval(float(np.exp(value)), float(np.exp(low)), float(np.exp(high)))


def _advantage(one: _Ratios, other: _Ratios, share: Floats) -> Floats:
    """The mean of the seeds' log ratios at `share` of the way to the next size, over half its 95 % t interval."""
    seeds = [seed for seed in one.by_seed if seed in other.by_seed]
    if len(seeds) < 2:
        return np.zeros_like(share)
    ends = np.array([[some.by_seed[seed] for seed in seeds] for some in (one, other)])
    curves = np.outer(1 - share, ends[0]) + np.outer(share, ends[1])
    least = np.hypot((1 - share) * one.least, share * other.least)
    error = np.maximum(curves.std(axis=1, ddof=1) / len(seeds) ** 0.5, least)
    return np.asarray(curves.mean(axis=1) / (t_quantile(len(seeds)) * error))


def _descent(logs: Floats, means: Floats) -> float | None:
    """Where a broken line goes down through zero; the median of several such places, None without one."""
    steps = zip(itertools.pairwise(logs), itertools.pairwise(means), strict=True)
    found = [a + (b - a) * before / (before - after) for (a, b), (before, after) in steps if before > 0 >= after]
    return float(np.median(found)) if found else None


def _slope(ratios: list[_Ratios]) -> Interval | None:
    """Mean of the slopes that the seeds with every size have on their own; None without one."""
    seeds = sorted(set.intersection(*(set(one.by_seed) for one in ratios))) if len(ratios) > 1 else []
    if not seeds:
        return None
    logs = np.log10([one.images for one in ratios])
    curves = np.array([[one.by_seed[seed] for one in ratios] for seed in seeds])
    centred = logs - logs.mean()
    least = float(((centred / (centred @ centred)) ** 2 @ np.array([one.least for one in ratios]) ** 2) ** 0.5)
    return mean_interval(curves @ centred / (centred @ centred), least)


def _trend(comparison: Comparison, ratios: list[_Ratios]) -> str:
    """The test of the slope, in one sentence; nothing without an interval."""
    slope = comparison.slope
    if slope is None or slope.low is None or slope.high is None:
        return ""
    name = f"the ratio of errors ({comparison.first} over {comparison.second})"
    if slope.low <= 0 <= slope.high:
        return f"As images are added, {name} does not change measurably."
    value, low, high = (f"{np.exp(end):.2f}" for end in (slope.value, slope.low, slope.high))
    said = (
        f"As images are added, {name} {'grows' if slope.value > 0 else 'shrinks'}: with ten times as many it is "
        f"{value} times what it was (95 % interval {low} to {high})"
    )
    closing = slope.value * sum(one.mean for one in ratios) < 0
    if closing and comparison.verdict != "crossing":
        said += "; a shrinking gap alone is no evidence of a crossover"
    return said + "."


def _about(images: float) -> str:
    """Two significant digits: '1,300'."""
    return f"{float(f'{images:.2g}'):,.0f}"
