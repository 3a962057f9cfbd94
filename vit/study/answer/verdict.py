"""The answer of a study in two sentences, who gains more, and one line each for what it rests on"""

from collections.abc import Sequence

import numpy as np

from vit.console import percent
from vit.study.answer import wording
from vit.study.answer.answer_warnings import (
    LAST_WEIGHTS,
    far_seeds,
    guesses,
    items,
    num_choosing,
    study_notes,
    study_warnings,
    unequal_networks,
    usual_hours,
)
from vit.study.findings import ALPHA, CellResult, Comparison, FailedCell, Gain, Interval, Protocol, Series, VerdictText

MOST_WORDS = 27  # of a sentence of the answer
MARGIN = 0.02  # of the error: smaller differences count as none
_LITTLE = 0.1  # part of the errors that twice the images remove: less is little
_UNLIKE_FLOPS = 1.2  # ratio of the FLOPs of two networks that is worth a word
_BEFORE_SEEDS = "Networks that guess need longer trainings, more training or more test images, before more seeds."


def verdict(
    series: Sequence[Series],
    comparisons: Sequence[Comparison],
    protocol: Protocol,
    failed: Sequence[FailedCell],
    results: Sequence[CellResult],
    target: float | None = None,
    margin: float = MARGIN,
) -> VerdictText:
    """The answer at the largest size that two networks share, the effect of more images, and the rest of the head."""
    largest = max((one.differences[-1].num_images for one in comparisons if one.differences), default=0)
    comparisons = [one for one in comparisons if one.differences and one.differences[-1].num_images == largest]
    lead = min(comparisons, key=by_answer, default=None)
    if lead is None:  # the second sentence is about the lowest error at the largest size
        pair = [min(series, key=lambda one: (-one.points[-1].num_images, one.points[-1].mean.value))]
        best = pair[0]
    else:  # about the better network of the answer
        pair = [one for one in series if one.name in (lead.first, lead.second)]
        ahead = lead.second if lead.differences[-1].gap.value > 0 else lead.first
        best = next(one for one in pair if one.name == ahead)
    guessing = {one.name for one in series if largest in one.at and guesses(one.at[largest], protocol)}
    learned = [each for each in comparisons if not {each.first, each.second} <= guessing]
    steps = [
        "" if target is None else wording.describe_target(best.forecast, target, best.name),
        _BEFORE_SEEDS if comparisons and not learned else _what_would_narrow(learned, protocol),
        "The same 'vit study' command tries the failed cells again." if failed else "",
    ]
    which = _which(series, comparisons, lead, learned, margin, protocol)
    if count := num_choosing(protocol):
        longer = _which(series, comparisons, lead, learned, margin, protocol, f" (+ {count:,} to choose)")
        which = longer if len(longer.split()) <= MOST_WORDS else which
    return VerdictText(
        answer=[which, _more_images(next((one for one in (best, *pair) if one.gains), best), protocol)],
        trend="" if lead is None else wording.outcome(lead) if lead.crossing is not None else wording.trend(lead),
        conditions=_conditions(series, protocol),
        cost=_cost(pair),
        warnings=[*study_warnings(series, protocol, failed, target), *far_seeds(series, len(results[0].correct))],
        notes=study_notes(results, protocol),
        next_steps=[step for step in steps if step],
    )


def by_answer(comparison: Comparison) -> tuple[int, float]:
    """A key for sorting: the network that is farthest ahead of the first at the largest size leads, as the answer.

    Without such a network, those lead that nothing tells apart from the first; then the one that is least behind.
    """
    gap = comparison.differences[-1].gap.value
    if not comparison.differences[-1].is_significant:
        return 1, -gap
    return (0 if gap > 0 else 2), -gap


def _which(
    series: Sequence[Series],
    comparisons: Sequence[Comparison],
    lead: Comparison | None,
    learned: Sequence[Comparison],  # of these, those in which a network is shown to be better than guessing
    margin: float,
    protocol: Protocol,
    choosing: str = "",
) -> str:
    """Which network to use at the largest size, or that either will do, with an interval that has a direction."""
    if lead is None:
        at_last = [(one.name, one.points[-1]) for one in series]
        errors = (f"{name} {wording.short_percents(at.mean)} with {at.num_images:,} images" for name, at in at_last)
        why = "Only one network was measured" if len(series) == 1 else "The networks share no size and seed"
        return f"{why}; test error: {'; '.join(errors)}."
    first, second, last = lead.first, lead.second, lead.differences[-1]
    is_short = usual_hours(protocol) > 0  # longer ones can rank otherwise, so nothing is advised
    at = f"with {last.num_images:,} images{choosing}"
    if lead not in learned:
        guess = "the same labels" if "right" in protocol else "one class"
        return f"Neither {first} nor {second} is shown to be better than guessing {guess} {at}."
    best, other = (first, second) if last.gap.value < 0 else (second, first)
    size = f"{wording.points_text(abs(last.gap.value))} points fewer errors than {other}"
    if last.gap.ends is None:
        found = f"{best} makes {size}" if last.side else f"{first} and {second} make equally many errors"
        return f"Not tested, from one seed: {found} {at}."
    if last.is_significant:
        low, high = sorted(map(abs, last.gap.ends))
        better = sum(by_answer(each)[0] == 0 for each in comparisons) - 1
        more = f"; {better} more beat{'s' * (better == 1)} {other}" if by_answer(lead)[0] == 0 and better > 0 else ""
        start = f"In short trainings {best} makes" if is_short else f"Use {best}:"
        return f"{start} {size} {at} (95 % interval {wording.points_text(low)} to {wording.points_text(high)}){more}."
    rivals = [each for each in comparisons if by_answer(each)[0] == 1]
    widest = max(rivals, key=lambda each: each.differences[-1].is_tested * _farthest(each.differences[-1].gap))
    reach = widest.differences[-1].margin_of_error
    difference = wording.describe_gap(widest, widest.differences[-1].gap)
    if reach is not None and reach.now >= 1:  # any two error rates lie inside
        difference = f"nothing is known yet about {widest.first} and {widest.second}"
    if not is_short and all(_farthest(each.differences[-1].gap) <= margin for each in rivals):
        start = f"{'Either' if len(rivals) == 1 else 'Any'} will do {at}, within {100 * margin:g} points"
        others = "1 lies closer" if len(rivals) == 2 else f"{len(rivals) - 1} lie closer"
    else:
        start = f"Not decided {at}"
        others = "1 more is open" if len(rivals) == 2 else f"{len(rivals) - 1} more are open"
    sentence = f"{start}: {difference}"
    if len(rivals) > 1:
        return f"{sentence}; {others}."
    # times of trainings say less: trainings share the cores of a machine
    flops = {one.name: one.flops for one in series if one.name in (first, second)}
    fast, slow = sorted(flops, key=lambda name: flops[name])
    times = flops[slow] / max(flops[fast], 1)
    longer = f"{sentence}; {fast} needs {times:.1f} times fewer FLOPs"
    return f"{longer if times > _UNLIKE_FLOPS and len(longer.split()) <= MOST_WORDS else sentence}."


def _farthest(gap: Interval) -> float:
    """The largest difference, of either sign, that an interval holds."""
    return 1.0 if gap.ends is None else max(map(abs, gap.ends))


def _more_images(series: Series, protocol: Protocol) -> str:
    """Whether more images help: the last step to the largest size, else a wider one, then the forecast at twice."""
    if not series.gains:
        longer = ", or a longer --time" * ("seconds" in protocol)  # a short one leaves sizes out
        fix = "" if len(items(protocol.get("sizes"))) > 1 else f"; give two or more --sizes{longer}"  # others failed
        return f"Not known: the effect of more images needs two sizes that share a seed{fix}."
    ahead, twice = "; no forecast, because the lengths of the trainings changed", series.forecast.at_twice
    if twice is not None:
        ahead = f"; with {twice.num_images:,} expect {wording.short_percents(twice.interval)}"
    gain = series.gains[-1]
    kind, changed = _gain_text(series, gain)
    helped = [step for step in series.gains if step.p < ALPHA and step.fall.value > 0]
    if kind == "Unclear" and helped:
        kind, gain = f"Unclear since {gain.from_images:,}", helped[-1]  # "Likely" was wrong at a floor of errors
        changed = _gain_text(series, gain)[1]
    return f"{kind}: from {gain.from_images:,} to {gain.to_images:,} images {changed}{ahead}."


def _gain_text(series: Series, gain: Gain) -> tuple[str, str]:
    """Whether the larger size has helped, and by how much: as a part of the errors, or in points where that is open."""
    name, fall, points = series.name, gain.fall, gain.points
    if fall.ends is None or points.ends is None:
        side = "fewer" if points.value > 0 else "more"
        change = f"{wording.points_text(abs(points.value))} points {side}" if points.value else "equally many"
        return "Untested, one seed", f"{name} makes {change} errors"
    of_twice = 1 - (1 - min(fall.ends[1], 1.0)) ** (1 / np.log2(gain.to_images / gain.from_images))
    kind = "Little" if of_twice < _LITTLE else "Yes" if gain.p < ALPHA else "Unclear"
    has_none = not min(series.at[size].mean.value for size in (gain.from_images, gain.to_images))  # and no ratio
    # few wrong images: the tested points leave out 0, and the ratio's interval does not
    if gain.p >= ALPHA or has_none or fall.ends[0] < 0 < fall.ends[1]:
        kind = "No" if gain.p < ALPHA and points.value < 0 else kind
        return kind, f"{name} makes {wording.describe_ends(*points.ends, is_claim=gain.p < ALPHA)}"
    low, high = sorted(100 * abs(end) for end in fall.ends)
    fell, kind = ("fell", kind) if fall.value > 0 else ("rose", "No")
    return kind, f"the errors of {name} {fell} by {percent(abs(fall.value), 0)} ({low:.0f} to {high:.0f})"


def _conditions(series: Sequence[Series], protocol: Protocol) -> str:
    largest = max(point.num_images for one in series for point in one.points)
    is_probe, draws = protocol.get("budget") == wording.LINEAR_PROBE, "other training images"
    budget = (
        "only heads were trained, on features of frozen backbones" if is_probe else wording.describe_budget(protocol)
    )
    if (pool := wording.pool_size(protocol)) is not None:
        is_all = wording.all_images(protocol, [largest]) is not None
        draws = f"other draws from your {pool:,} training images{' (where not all are used)' * is_all}"
    chose_nothing = protocol.get("checkpoints") == LAST_WEIGHTS and not is_probe
    validation = "The last weights are tested, so validation images chose nothing. " * chose_nothing
    right = f"A test image is right if {protocol['right']}. " if "right" in protocol else ""
    tested = f"{protocol['tested']}. " if "tested" in protocol else ""
    chosen = "No interval is corrected for the choice of the best of several, which tends to look better than it is. "
    return (
        f"{right}{tested}Intervals cover other seeds, {draws} and other test images. {chosen * (len(series) > 2)}"
        f"{f'Budget: {budget}. ' if budget else ''}"
        f"{validation}Not measured: other data, other budgets, more than {largest:,} images."
    )


def _cost(pair: Sequence[Series]) -> str:
    costs = "; ".join(
        f"{one.name}: {one.parameters:,} parameters, {one.flops / 1e6:,.0f} million FLOPs an image, "
        f"{one.points[-1].seconds:,.0f} s a training (wall time)"
        for one in pair
    )
    return f"{'. '.join(filter(None, (costs, unequal_networks({one.name: one for one in pair}))))}."


def _what_would_narrow(comparisons: Sequence[Comparison], protocol: Protocol) -> str:
    """For the first comparison that is open at its largest size: the effect of more seeds and of more test images.

    Where test images have groups, more groups are meant: more images of the same groups narrow little.
    """
    units = "groups of test images" if "test_groups" in protocol else "test images"
    for comparison in comparisons:
        last = comparison.differences[-1]
        if last.is_significant or (last.margin_of_error is None and len(items(protocol.get("seeds"))) > 1):
            continue  # of several seeds, cells have failed
        if last.margin_of_error is None:
            return "One seed has no interval: give --seeds 3 or more."
        now, seeds, images = vars(last.margin_of_error).values()
        pair = f" between {comparison.first} and {comparison.second}" if len(comparisons) > 1 else ""
        known = f"The difference{pair} is known to ±{100 * now:.2f} points."
        if min(seeds, images) >= 1:
            return f"{known} Twice the seeds or twice the {units} would not be enough."
        folds = protocol.get("folds")
        if isinstance(folds, int) and 2 * len(last.seeds) > folds:  # twice the seeds would test images again
            more = "" if len(last.seeds) == folds else f"; so would more seeds, up to {folds}"
            return f"{known} Twice the images would make that about ±{100 * images:.2f}{more}."
        better = "more seeds" if seeds < images else f"more {units}"
        both = abs(seeds - images) < 0.1 * (now - min(seeds, images))
        return (
            f"{known} Twice the seeds would make that about "
            f"±{100 * seeds:.2f}, twice the {units} ±{100 * images:.2f}: "
            + ("both would help equally." if both else f"{better} would help most.")
        )
    return ""
