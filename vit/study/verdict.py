"""The verdict of a study: one paragraph for a reader who reads nothing else"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vit.console import p_value
from vit.study.budget_warnings import few_passes, last_weights, mixed_starts, more_steps
from vit.study.findings import (
    CellResult,
    Comparison,
    Difference,
    FailedCell,
    Interval,
    JsonValue,
    Point,
    Protocol,
    Series,
)
from vit.study.wording import (
    LINEAR_PROBE,
    budget_words,
    end_of_tuning_warning,
    other_aim_warning,
    outcome,
    percent_words,
    shared_size,
)

_KINDS = ("Worse", "Better", "Not to be told apart from it", "Not tested, from one seed", "Without a common seed")


@dataclass(frozen=True)
class Told:
    """What a study says.

    Attributes:
        headline: the answer, with interval and p where there are some.
        sentences: what else was found, and under which conditions.
        next_steps: what would make the answer better known.
        text: all of it as one paragraph.
    """

    headline: str
    sentences: list[str]
    next_steps: list[str]
    text: str


def verdict(
    series: Sequence[Series],
    comparisons: Sequence[Comparison],
    protocol: Protocol,
    failed: Sequence[FailedCell],
    results: Sequence[CellResult],
) -> Told:
    """The largest size, the other sizes, the effect of more images, the conditions, and warnings about the budget."""
    right = f"A test image is right if {protocol['right']}." if "right" in protocol else other_aim_warning(protocol)
    found, narrow, more = _sentences(series, comparisons, protocol, failed)
    few, last, end = "", last_weights(results), end_of_tuning_warning(protocol)
    if protocol.get("budget") != LINEAR_PROBE:  # a head is fitted until it no longer changes
        right = " ".join(filter(None, (right, more_steps(results))))
        few = few_passes(results)
    headline = _headline(comparisons) or found[0]
    seen = protocol.get("seen_before")
    known = [f"WARNING: {sentence}." for sentence in seen] if isinstance(seen, list) else []
    known += [f"WARNING: {mixed}"] if (mixed := mixed_starts(protocol)) else []
    again = "The same 'vit study' command tries the failed cells again." if failed and series else ""
    return Told(
        headline,
        [sentence for sentence in [*known, *found, *more, right] if sentence and sentence != headline],
        [step for step in (narrow, few, end, last, again) if step],
        " ".join(filter(None, [*found, *known, narrow, *more, right, few, end, last])),
    )


def _sentences(
    series: Sequence[Series], comparisons: Sequence[Comparison], protocol: Protocol, failed: Sequence[FailedCell]
) -> tuple[list[str], str, list[str]]:
    """(what was found, what would narrow it, the effect of more images and the conditions)."""
    if not series:
        return [f"No run has finished; {len(failed)} failed."], "", []
    first = series[0].points[-1]
    order = sorted(comparisons, key=by_answer)
    found = [_at_largest(one, series) for one in order] or [
        f"At {first.num_images:,} images {series[0].name} errs on {percent_words(first.mean)} of the test images."
    ]
    narrow, conditions = _what_would_narrow(comparisons, protocol), _conditions(series, protocol, failed)
    if len({point.num_images for one in series for point in one.points}) == 1:
        found = _beside_first(comparisons, first) if len(comparisons) > 1 else found
        unknown = "Only one size was measured, so the effect of more images is not known."
        return found, narrow, [unknown, conditions]
    changes = [_elsewhere(one) for one in order] or [""]
    pairs = [sentence for pair in zip(found, changes, strict=True) for sentence in pair]  # "they" means the two before
    return pairs, narrow, [_with_twice(series), conditions]


def by_answer(comparison: Comparison) -> tuple[bool, float]:
    """A key for sorting: the network that is farthest ahead of the first at the largest size leads, as the answer.

    Without such a network, the one that is least behind leads; those that nothing tells apart come last.
    """
    if not comparison.differences:
        return True, 0.0
    is_open = not _is_decided(comparison)
    return is_open, 0.0 if is_open else -comparison.differences[-1].gap.value


def _is_decided(comparison: Comparison) -> bool:
    """Whether one of two networks is ahead at the largest size."""
    return comparison.verdict in ("first ahead", "second ahead") or comparison.differences[-1].is_significant


def _headline(comparisons: Sequence[Comparison]) -> str:
    """The answer where several series were compared at one size; "" where the first sentence is the answer."""
    if len(comparisons) < 2 or any(len(one.differences) > 1 for one in comparisons):
        return ""
    tested = [one for one in comparisons if one.differences and one.differences[0].is_tested]
    if not tested:
        return ""
    better = [one.second for one in tested if one.differences[0].is_significant and one.differences[0].side > 0]
    first = comparisons[0].first
    if better:
        return f"More accurate than {first}: {' and '.join(better)}, by a test with a correction for all comparisons."
    return (
        f"None of {len(tested)} others is more accurate than {first}, by a test with a correction for all comparisons."
    )


def _at_largest(comparison: Comparison, series: Sequence[Series]) -> str:
    """Which of two series to use at the largest size that both have, and by how much its error is lower."""
    names = (comparison.first, comparison.second)
    if not comparison.differences:
        return f"{names[0]} and {names[1]} have no size and seed in common."
    one = comparison.differences[-1]
    errors = [_mean_error(series, name, one) for name in names]
    at = f"At {one.num_images:,} images"
    if one.gap.low is None or one.gap.high is None:
        return f"{at} the error is {errors[0]} for {names[0]} and {errors[1]} for {names[1]}, from one seed."
    if _is_decided(comparison):
        low, high = sorted((abs(one.gap.low), abs(one.gap.high)))
        best, other = (0, 1) if one.gap.value < 0 else (1, 0)
        return (
            f"{at} use {names[best]} rather than {names[other]}: its error is {errors[best]} against {errors[other]}, "
            f"{100 * abs(one.gap.value):.2f} points less "
            f"(95 % interval {100 * low:z.2f} to {100 * high:z.2f}; corrected p {_p(one)})."
        )
    excludes_zero = one.gap.low > 0 or one.gap.high < 0
    return (
        f"{at} {names[0]} and {names[1]} cannot be told apart: the errors are {errors[0]} and {errors[1]}, a "
        f"difference of {100 * one.gap.value:z.2f} points ({'uncorrected ' * excludes_zero}95 % interval "
        f"{100 * one.gap.low:z.2f} to {100 * one.gap.high:z.2f}; corrected p {_p(one)})."
    )


def _p(one: Difference) -> str:
    shown = p_value(one.p_adjusted)
    return shown if shown.startswith("<") else f"= {shown}"


def _what_would_narrow(comparisons: Sequence[Comparison], protocol: Protocol) -> str:
    """For the first comparison that is open at its largest size: the effect of more seeds and of more test images.

    Where test images have groups, more groups are meant: more images of the same groups narrow little.
    """
    units = "groups of test images" if "test_groups" in protocol else "test images"
    for comparison in comparisons:
        one = comparison.differences[-1] if comparison.differences else None
        if one is None or one.is_significant:
            continue
        if one.reach is None:
            return "One seed has no interval: give --seeds 3 or more."
        now, seeds, images = one.reach.now, one.reach.twice_the_seeds, one.reach.twice_the_test_images
        pair = f" between {comparison.first} and {comparison.second}" if len(comparisons) > 1 else ""
        known = f"The difference{pair} is known to ±{100 * now:.2f} points."
        if now >= 1:  # more than any two error rates can differ
            known = f"Nothing is known yet about the difference{pair}: it is known to ±100 points."
        if min(seeds, images) >= 1:
            return f"{known} Twice the seeds or twice the {units} would not be enough."
        better = "more seeds" if seeds < images else f"more {units}"
        both = abs(seeds - images) < 0.1 * (now - min(seeds, images))
        return (
            f"{known} Twice the seeds would make that about "
            f"±{100 * seeds:.2f}, twice the {units} ±{100 * images:.2f}: "
            + ("both would help equally." if both else f"{better} would help most.")
        )
    return ""


def _beside_first(comparisons: Sequence[Comparison], first: Point) -> list[str]:
    """Several series at one size, each against the first: worse, better, not to be told apart, or without a test."""
    groups: dict[str, list[str]] = {}
    for one in comparisons:
        if not one.differences:
            groups.setdefault("Without a common seed", []).append(one.second)
            continue
        found = one.differences[0]
        more = Interval(-found.gap.value, _minus(found.gap.high), _minus(found.gap.low))  # errors beyond the first's
        kind = "Worse" if more.value > 0 else "Better"
        if not found.is_significant:
            kind = "Not to be told apart from it" if found.is_tested else "Not tested, from one seed"
        groups.setdefault(kind, []).append(f"{one.second} ({_points(more)})")
    num_tests = sum(one.differences[0].is_tested for one in comparisons if one.differences)
    how = f" with 95 % intervals, and tested with a correction for {num_tests} comparisons" if num_tests > 1 else ""
    how = " with a 95 % interval and a test" if num_tests == 1 else how
    return [
        f"At {first.num_images:,} images, compared with {comparisons[0].first} (error {100 * first.mean.value:.2f} %), "
        f"in points of error{how}.",
        *(f"{kind}: {'; '.join(groups[kind])}." for kind in _KINDS if kind in groups),
    ]


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def _points(more: Interval) -> str:
    if more.low is None or more.high is None:
        return _signed(more.value)
    return f"{_signed(more.value)}, {_signed(more.low)} to {_signed(more.high)}"


def _signed(value: float) -> str:
    return f"{100 * value:+z.2f}"


def _mean_error(series: Sequence[Series], name: str, one: Difference) -> str:
    """The mean over the seeds that both series have, so that the two errors differ by the gap."""
    points = next(some for some in series if some.name == name).points
    point = next(point for point in points if point.num_images == one.num_images)
    errors = [error for seed, error in zip(point.seeds, point.errors, strict=True) if seed in one.seeds]
    return f"{100 * sum(errors) / len(errors):.2f} %"


def _elsewhere(comparison: Comparison) -> str:
    """Whether the answer changes with the size."""
    found = comparison.differences
    if comparison.verdict in ("first ahead", "second ahead"):
        sizes = f"from {found[0].num_images:,} to {found[-1].num_images:,} images"
        return f"That holds at every {shared_size(comparison)}, {sizes}."
    if len(found) > 1 and all(one.is_tested and not one.is_significant for one in found):
        sizes = f"any smaller {shared_size(comparison)} either, down to {found[0].num_images:,} images"
        return f"They cannot be told apart at {sizes}."
    return outcome(comparison) if found else ""


def _with_twice(series: Sequence[Series]) -> str:
    """The expected error with twice the images, if the points of every series support its fit."""
    reasons: dict[str, list[str]] = {}
    expected = []
    for one in series:
        if one.fit is None:
            reasons.setdefault("there are fewer than 3 sizes", []).append(one.name)
        elif not one.fit.supported:
            reasons.setdefault(one.fit.why, []).append(one.name)
        else:
            expected.append(f"{percent_words(one.fit.at_twice)} for {one.name} with {2 * one.fit.largest:,}")
    if reasons:
        words = "; ".join(f"{' and '.join(names)}: {why}" for why, names in reasons.items())
        return f"The effect of more images is not known ({words})."
    return f"With twice the images the fitted curves expect an error of {', and of '.join(expected)}."


def _conditions(series: Sequence[Series], protocol: Protocol, failed: Sequence[FailedCell]) -> str:
    """Budget and sizes that the answer depends on, and missing runs."""
    largest = max(point.num_images for one in series for point in one.points)
    words = f"Other budgets, other data and more than {largest:,} images were not measured."
    if protocol.get("budget") == LINEAR_PROBE:
        words = f"Only heads were trained, on features of frozen backbones. {words}"
    elif "budget" in protocol:
        words = f"The budget was {budget_words(protocol)}. {words}"
    missing = _missing(series, protocol, failed)
    return f"{words} Runs are missing: {', '.join(missing)}." if missing else words


def _missing(series: Sequence[Series], protocol: Protocol, failed: Sequence[FailedCell]) -> list[str]:
    """For each series how many planned runs it lacks. A protocol of before the plan was kept tells only what exists."""
    cells = {one.name: {(point.num_images, seed) for point in one.points for seed in point.seeds} for one in series}
    names, sizes, seeds = (items(protocol.get(name)) for name in ("series", "sizes", "seeds"))
    planned = set.union(*cells.values()) | {(one.num_images, one.seed) for one in failed}
    planned |= {(int(size), int(seed)) for size in sizes for seed in seeds}
    found = [
        f"{name} lacks {len(planned - own)} of {len(planned)} runs" for name, own in cells.items() if planned - own
    ]
    others = dict.fromkeys([*names, *(one.series for one in failed)])
    reference = names[0] if names else ""
    return found + [
        f"{name}{', the reference,' if name == reference else ''} has no run" for name in others if name not in cells
    ]


def items(value: JsonValue) -> list[str]:
    """The items of a list in a protocol; none without a list."""
    return [] if isinstance(value, str | Mapping) or not isinstance(value, Sequence) else [str(each) for each in value]
