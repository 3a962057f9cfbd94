"""A study's numbers and comparisons in words, for the verdict, the terminal and the page"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vit.console import percent
from vit.study.findings import ALPHA, Backtest, Comparison, Findings, Forecast, Interval, JsonValue, Metric, Protocol

LINEAR_PROBE = "linear probe"  # budget of cells that fit a head to a frozen backbone, until it no longer changes
SHARED = "shared by all networks"  # of subsets of the training images, where all are drawn in one way
PROBE_WORDS = "heads fitted to features of frozen backbones"
Cell = tuple[str, str]  # a value and its interval; the page prints the interval below the value


def value_text(value: JsonValue) -> str:
    """A value of a study's protocol. None becomes an empty text."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {value_text(each)}" for name, each in value.items())
    if isinstance(value, Sequence):
        return ", ".join(value_text(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)


def describe_budget(protocol: Protocol) -> str:
    """How long every cell trained."""
    return value_text(protocol.get("budget_words") or protocol.get("budget"))


def pool_size(protocol: Protocol) -> int | None:
    """Number of the training images from which every seed draws its own; None where that is not known."""
    images = protocol.get("images")
    pool = images.get("train") if isinstance(images, Mapping) else None
    return pool if isinstance(pool, int) else None


def all_images(protocol: Protocol, sizes: Sequence[int]) -> int | None:
    """The size of all training images, which every seed then has. None without this size, and with folds."""
    return None if "folds" in protocol else next((size for size in sizes if size == pool_size(protocol)), None)


def equal_seeds(protocol: Protocol, sizes: Sequence[int]) -> int | None:
    """The size at which all seeds of linear probes fit the same head: all training images. None without this size."""
    return all_images(protocol, sizes) if protocol.get("budget") == LINEAR_PROBE else None


def two_digits(num_images: float) -> str:
    """An estimated number of images, such as '1,300': an estimate has two digits at most."""
    return f"{float(f'{num_images:.2g}'):,.0f}"


def listed(sizes: Sequence[int]) -> str:
    """'100, 300 and 1,000'."""
    numbers = [f"{size:,}" for size in sizes]
    return " and ".join([", ".join(numbers[:-1]), numbers[-1]] if len(numbers) > 1 else numbers)


def complement(error: Interval, whole: float = 1.0) -> Interval:
    """An accuracy from an error, or the reverse; with `whole` 0, a difference of accuracies from one of errors."""
    low, high = (None if end is None else whole - end for end in (error.high, error.low))
    return Interval(whole - error.value, low, high)


def percents(interval: Interval, digits: int = 2) -> Cell:
    """A fraction and its interval as percentages without a sign: ('5.20', '4.80 to 5.60')."""
    around = ends(interval, lambda end: f"{100 * min(max(end, 0), 1):.{digits}f}")
    return percent(interval.value, digits, sign=""), around


def percent_text(error: Interval) -> str:
    """'5.20 % (95 % interval 4.80 to 5.60)'."""
    value, around = percents(error)
    return f"{value} % (95 % interval {around})" if around else f"{value} %"


def ends(interval: Interval, show: Callable[[float], str]) -> str:
    """The interval without its value; empty without one."""
    return " to ".join(map(show, interval.ends or ()))


def short_percents(interval: Interval) -> str:
    """'7.6 % (6.1 to 9.4)'."""
    value, around = percents(interval, digits=1)
    return f"{value} % ({around})" if around else f"{value} %"


def points_text(share: float) -> str:
    """A difference of errors in points: one digit behind the point, two below 1."""
    return f"{100 * share:.1f}" if abs(share) >= 0.01 else f"{100 * share:.2f}"


def describe_gap(comparison: Comparison, gap: Interval) -> str:
    """'CNN makes at most 3.5 points fewer errors than ViT, or 0.41 more', with the likely better network first."""
    low, high = gap.ends or (0.0, 0.0)
    if high >= -low:
        return f"{comparison.second} makes {describe_ends(low, high, f' than {comparison.first}')}"
    return f"{comparison.first} makes {describe_ends(-high, -low, f' than {comparison.second}')}"


def describe_ends(low: float, high: float, than: str = "", is_claim: bool = False) -> str:
    """An interval of errors that are saved, the larger end first: 'at most 3.5 points fewer errors, or 0.41 more'.

    Where it leaves out 0: '0.65 to 6.2 points fewer errors'; 'uncorrected' where this is not a claim.
    """
    ends = [(high, "fewer"), (-low, "more")]
    (first, side), (second, other_side) = ends if high >= -low else ends[::-1]
    if low <= 0 <= high:
        return f"at most {points_text(first)} points {side} errors{than}, or {points_text(second)} {other_side}"
    between = f"{points_text(-second)} to {points_text(first)} points {side} errors{than}"
    return between if is_claim else f"{between} (uncorrected)"


def describe_target(forecast: Forecast, target: float, name: str) -> str:
    """How many images an accuracy takes at least, and how many to label next: those, as a first round."""
    start = f"For an accuracy of {100 * target:g} %, {name}: "
    if forecast.for_target is None:
        return f"{start}{forecast.refusal}."
    fewest, likely = forecast.for_target
    needed = f"{two_digits(fewest)} training images or more"
    if likely is not None:
        needed += f", about {two_digits(likely)} if errors fall as before"
    if fewest == forecast.largest:
        return f"{start}{needed}; {fewest:,} may be enough already, as more test images or seeds would show."
    return f"{start}{needed}; label {two_digits(max(fewest - forecast.largest, 1))} more, then run again."


def describe_backtest(one: Backtest) -> str:
    """What the forecast would have said, beside what was measured."""
    return (
        f"From the sizes up to {one.known_to:,} this method would have said {short_percents(one.interval)} for "
        f"{one.series} with {one.num_images:,} images; measured: {percent(one.measured, 1)}."
    )


def backtest_summary(forecast: Forecast) -> str:
    """The last back-test of a series, and how many of its intervals held."""
    rows = forecast.backtest
    if not rows:
        return ""
    last = max(rows, key=lambda row: (row.num_images, row.known_to))
    held = sum(row.low <= row.measured <= row.high for row in rows)
    return describe_backtest(last) + (f" Of {len(rows)} such intervals {held} held." if len(rows) > 1 else "")


def further_lines(findings: Findings) -> list[tuple[str, str]]:
    """What the answer rests on, a line each with its name: back-tests, conditions, cost and notes."""
    lines = [("back-test", backtest_summary(series.forecast)) for series in findings.series]
    lines += [("conditions", findings.conditions), ("cost", findings.cost)]
    lines += [("note", text) for text in findings.notes]
    return [(name, text) for name, text in lines if text]


def describe_comparison(comparison: Comparison) -> str:
    """Outcome of a comparison and test of its slope, in one or two sentences."""
    return " ".join(filter(None, (outcome(comparison), trend(comparison))))


def outcome(comparison: Comparison) -> str:
    """Which series is better at which sizes, in one sentence."""
    first, second, differences = comparison.first, comparison.second, comparison.differences
    untested = [one.num_images for one in differences if not one.is_tested]
    ending = f" With {listed(untested)} images they have one seed in common, too few for a test." if untested else ""
    if sum(one.is_tested for one in differences) < 2:
        return f"{first} and {second} share too few sizes with two seeds or more to say what changes with size."
    if comparison.crossing is not None:
        return _crossing(comparison, comparison.crossing) + ending
    if comparison.verdict in ("first ahead", "second ahead"):
        ahead, behind = (first, second) if comparison.verdict == "first ahead" else (second, first)
        size = "size that both have" if comparison.unshared else "measured size"
        return (
            f"{ahead} makes fewer errors than {behind} at every {size} "
            f"({differences[0].num_images:,} to {differences[-1].num_images:,} images)."
        )
    parts = []
    for name, side in ((first, -1), (second, 1)):
        sizes = [one.num_images for one in differences if one.is_significant and one.side == side]
        if sizes:
            parts.append(f"{name} is significantly ahead with {listed(sizes)} images")
    open_sizes = [one.num_images for one in differences if one.is_tested and not one.is_significant]
    if open_sizes:
        parts.append(f"{first} and {second} cannot be told apart with {listed(open_sizes)} images")
    return "; ".join(parts) + "." + ending


def _crossing(comparison: Comparison, crossing: Metric) -> str:
    measured = comparison.differences
    significant = [one for one in measured if one.is_significant]
    low, high = significant[0].num_images, significant[-1].num_images
    names = (comparison.first, comparison.second)
    below, above = names if significant[0].side < 0 else names[::-1]
    outer = [one.num_images for one in measured if one.is_tested and not low <= one.num_images <= high]
    between = f"; with {listed(outer)} images they cannot be told apart" if outer else ""
    return (
        f"Below about {two_digits(crossing.value)} images (95 % interval {two_digits(crossing.low)} to"
        f" {two_digits(crossing.high)}) {below} is better, above it {above}{between}."
    )


def trend(comparison: Comparison) -> str:
    """Which of two series gains more from more images, by the test of the slope. Empty without an interval."""
    slope = comparison.slope
    if slope is None or slope.ends is None:
        return ""
    ratio = f"the ratio of errors ({comparison.first} over {comparison.second})"
    if comparison.slope_p >= ALPHA:
        return f"Neither is shown to gain more from more images: {ratio} does not change measurably."
    sizes = [one.num_images for one in comparison.differences]  # nothing beyond them was measured
    tens = math.log10(sizes[-1] / sizes[0])
    value, low, high = (f"{np.exp(tens * end):.2f}" for end in (slope.value, *slope.ends))
    gains = comparison.second if slope.value > 0 else comparison.first
    is_closing = slope.value * sum(math.log(one.ratio.value) for one in comparison.differences) < 0
    caution = "; a shrinking gap alone is not evidence of a crossover"
    return (
        f"More images help {gains} more: from {sizes[0]:,} to {sizes[-1]:,} images {ratio} became {value} times as "
        f"large (95 % interval {low} to {high}){caution * (is_closing and comparison.crossing is None)}."
    )
