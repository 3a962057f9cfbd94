"""The runs of a study -> what they found, as values, as a paragraph and as files."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from vit.atomic_files import atomic_write
from vit.csv_files import new_table
from vit.study.crossed import ALPHA, MeanSquares, mean_error
from vit.study.crossover import compare_with_first, outcome
from vit.study.findings import CellResult, Comparison, Difference, Findings, Interval, Point, Series
from vit.study.learning_curve import fit_curve
from vit.study.paired import Answers

FEW_PASSES = 3.0  # over the images of the largest size
COLUMNS = tuple(field.name for field in fields(CellResult) if field.name != "correct")


def summarize(
    results: list[CellResult], protocol: dict[str, Any], failed: list[dict[str, Any]], target: float | None
) -> Findings:
    """All that the finished runs of a study say; series in the order of their first run, compared with the first.

    Args:
        results: of one study, all measured on the same test images.
        protocol, failed, target: as in `Findings`; `protocol["budget"]` is named in the verdict.

    Raises:
        ValueError: the runs were measured on different numbers of test images, or two runs are the same cell.
    """
    if len({len(result.correct) for result in results}) > 1:
        raise ValueError("the runs of a study must share their test images")
    if len({(result.series, result.images, result.seed) for result in results}) < len(results):
        raise ValueError("two runs with the same series, images and seed")
    test_images = len(results[0].correct) if results else 0
    answers = {name: _answers([one for one in results if one.series == name]) for name in _names(results)}
    series = [
        _series(name, [one for one in results if one.series == name], wrong, target) for name, wrong in answers.items()
    ]
    comparisons = compare_with_first(answers) if answers else []
    budget = [_more_steps(results), _few_passes(results)]
    verdict = " ".join(filter(None, [*_sentences(series, comparisons, protocol, failed), *budget]))
    return Findings(verdict, series, comparisons, target, test_images, protocol, failed)


def _tested(comparison: Comparison) -> bool:
    return bool(comparison.differences) and len(comparison.differences[0].seeds) > 1


def to_json(findings: Findings) -> dict[str, Any]:
    """Plain values, None for what is not known; ValueError where a number is not finite."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(findings), allow_nan=False))
    return plain


def write_results(results: list[CellResult], path: Path) -> None:
    """results.csv: a row for each run by series, images and seed, every digit of every number; whole or not at all."""
    order = _names(results)
    with atomic_write(path) as partial, new_table(partial, COLUMNS) as table:
        for result in sorted(results, key=lambda one: (order.index(one.series), one.images, one.seed)):
            table.row(getattr(result, name) for name in COLUMNS)


def _names(results: list[CellResult]) -> list[str]:
    return list(dict.fromkeys(result.series for result in results))


def _answers(cells: list[CellResult]) -> Answers:
    sizes = sorted({cell.images for cell in cells})
    return {images: {cell.seed: ~cell.correct for cell in cells if cell.images == images} for images in sizes}


def _series(name: str, cells: list[CellResult], wrong: Answers, target: float | None) -> Series:
    points = []
    for images, by_seed in wrong.items():
        here = [cell for cell in cells if cell.images == images]
        seeds = sorted(by_seed)
        table = np.stack([by_seed[seed] for seed in seeds])
        several = len(seeds) > 1
        points.append(
            Point(
                images=images,
                seeds=seeds,
                errors=[float(row.mean()) for row in table],
                mean=mean_error(table),
                seed_correlation=MeanSquares.of(table[None].astype(float)).correlation() if several else None,
                seconds=sum(cell.seconds for cell in here) / len(here),
                images_per_second=sum(cell.images_per_second for cell in here) / len(here),
            )
        )
    first = cells[0]
    return Series(name, first.network, first.parameters, first.flops, points, fit_curve(wrong, target))


def _sentences(
    series: list[Series], comparisons: list[Comparison], protocol: dict[str, Any], failed: list[dict[str, Any]]
) -> list[str]:
    """The verdict: the largest size, the other sizes, more images, what all this rests on."""
    if not series:
        return [f"No run has finished; {len(failed)} failed."]
    found = [_at_largest(one, series) for one in comparisons] or [
        f"At {series[0].points[-1].images:,} images {series[0].name} errs on "
        f"{_percent(series[0].points[-1].mean)} of the test images."
    ]
    conditions = _conditions(series, protocol, failed)
    if len({point.images for one in series for point in one.points}) == 1:
        found = [_beside_first(comparisons, series[0].points[0].images)] if len(comparisons) > 1 else found
        unknown = "With one size measured, what more images would bring is not known."
        return [*found, _what_would_narrow(comparisons), unknown, conditions]
    changes = [_elsewhere(one) for one in comparisons]
    return [*found, *changes, _what_would_narrow(comparisons), _with_twice(series), conditions]


def _at_largest(comparison: Comparison, series: list[Series]) -> str:
    """Which of two to use at the largest size that both have, and by how much."""
    first, second = comparison.first, comparison.second
    if not comparison.differences:
        return f"{first} and {second} have no size and seed in common."
    one = comparison.differences[-1]
    errors = [_mean_error(series, name, one) for name in (first, second)]
    at = f"At {one.images:,} images"
    if one.gap.low is None or one.gap.high is None:
        return f"{at} the error is {errors[0]} for {first} and {errors[1]} for {second}, from one seed."
    if comparison.verdict in ("first ahead", "second ahead") or one.p_adjusted < ALPHA:
        low, high = sorted((abs(one.gap.low), abs(one.gap.high)))
        best, other = (0, 1) if one.gap.value < 0 else (1, 0)
        names = (first, second)
        return (
            f"{at} use {names[best]} rather than {names[other]}: its error is {errors[best]} against {errors[other]}, "
            f"{100 * abs(one.gap.value):.2f} points less (95 % interval {100 * low:.2f} to {100 * high:.2f})."
        )
    clear = one.gap.low > 0 or one.gap.high < 0
    return (
        f"{at} {first} and {second} cannot be told apart: the errors are {errors[0]} and {errors[1]}, a difference of "
        f"{100 * one.gap.value:.2f} points (95 % interval {100 * one.gap.low:.2f} to {100 * one.gap.high:.2f}"
        + (", which is not corrected for the number of tests)." if clear else ").")
    )


def _what_would_narrow(comparisons: list[Comparison]) -> str:
    """For the first comparison that is open at its largest size: what more seeds or more test images would bring."""
    for comparison in comparisons:
        one = comparison.differences[-1] if comparison.differences else None
        if one is None or one.p_adjusted < ALPHA:
            continue
        if one.reach is None:
            return "One seed has no interval: give --seeds 3 or more."
        now, seeds, images = one.reach.now, one.reach.twice_the_seeds, one.reach.twice_the_test_images
        better = "more seeds" if seeds < images else "more test images"
        both = abs(seeds - images) < 0.1 * (now - min(seeds, images))
        of = f" between {comparison.first} and {comparison.second}" if len(comparisons) > 1 else ""
        return (
            f"The difference{of} is known to ±{100 * now:.2f} points. Twice the seeds would make that about "
            f"±{100 * seeds:.2f}, twice the test images ±{100 * images:.2f}: {'both' if both else better} would help"
            + (" alike." if both else " most.")
        )
    return ""


def _beside_first(comparisons: list[Comparison], images: int) -> str:
    """Several series at one size, each beside the first: worse, better, or not to be told apart."""
    groups: dict[str, list[str]] = {"Worse": [], "Better": [], "Not to be told apart from it": [], "Not tested": []}
    for one in comparisons:
        if not _tested(one):
            groups["Not tested"].append(one.second)
            continue
        gap, clear = one.differences[0].gap, one.differences[0].p_adjusted < ALPHA
        more = Interval(-gap.value, _minus(gap.high), _minus(gap.low))  # errors of the second beyond the first's
        kind = ("Worse" if more.value > 0 else "Better") if clear else "Not to be told apart from it"
        groups[kind].append(f"{one.second} ({_points(more)})")
    said = " ".join(f"{kind}: {'; '.join(names)}." for kind, names in groups.items() if names)
    return (
        f"At {images:,} images, beside {comparisons[0].first}, in points of error with 95 % intervals, and tested with "
        f"a correction for {len(comparisons)} comparisons. {said}"
    )


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def _points(more: Interval) -> str:
    if more.low is None or more.high is None:
        return _signed(more.value)
    return f"{_signed(more.value)}, {_signed(more.low)} to {_signed(more.high)}"


def _signed(value: float) -> str:
    return f"{round(100 * value, 2) + 0.0:+.2f}"  # no minus before nothing


def _mean_error(series: list[Series], name: str, one: Difference) -> str:
    """The mean over the seeds that both series have, so that the two errors differ by the gap."""
    points = next(some for some in series if some.name == name).points
    point = next(point for point in points if point.images == one.images)
    errors = [error for seed, error in zip(point.seeds, point.errors, strict=True) if seed in one.seeds]
    return f"{100 * sum(errors) / len(errors):.2f} %"


def _elsewhere(comparison: Comparison) -> str:
    """Whether the answer changes with the size."""
    found = comparison.differences
    if comparison.verdict in ("first ahead", "second ahead"):
        return f"That holds at every size measured, from {found[0].images:,} to {found[-1].images:,} images."
    if len(found) > 1 and all(one.p_adjusted >= ALPHA and len(one.seeds) > 1 for one in found):
        return f"Nor can they at any smaller size measured, down to {found[0].images:,} images."
    return outcome(comparison) if found else ""


def _with_twice(series: list[Series]) -> str:
    """What twice the images would bring; only if every series' fit bears the question."""
    reasons: dict[str, list[str]] = {}
    told = []
    for one in series:
        if one.fit is None:
            reasons.setdefault("there are fewer than 3 sizes", []).append(one.name)
        elif not one.fit.supported:
            reasons.setdefault(one.fit.why, []).append(one.name)
        else:
            told.append(f"{_percent(one.fit.at_twice)} for {one.name} with {2 * one.fit.largest:,}")
    if reasons:
        said = "; ".join(f"{' and '.join(names)}: {why}" for why, names in reasons.items())
        return f"What more images would bring is not known ({said})."
    return f"With twice the images the fitted curves expect an error of {', and of '.join(told)}."


def _conditions(series: list[Series], protocol: dict[str, Any], failed: list[dict[str, Any]]) -> str:
    """What the answer rests on, and what is missing."""
    largest = max(point.images for one in series for point in one.points)
    said = f"Other budgets, other data and more than {largest:,} images were not measured"
    if "budget" in protocol:
        budget = protocol.get("budget_words", protocol["budget"])
        said = f"The budget was {budget}; o{said[1:]}"
    cells = {one.name: {(point.images, seed) for point in one.points for seed in point.seeds} for one in series}
    planned = set.union(*cells.values()) | {(one["images"], one["seed"]) for one in failed}
    lacking = [
        f"{name} lacks {len(planned - own)} of {len(planned)} runs" for name, own in cells.items() if planned - own
    ]
    lacking += [f"{name} has no run" for name in dict.fromkeys(one["series"] for one in failed) if name not in cells]
    return f"{said}; {', '.join(lacking)}." if lacking else f"{said}."


def _more_steps(results: list[CellResult]) -> str:
    """A warning where larger sizes also trained for longer, so that two causes are mixed."""
    ordered = sorted(results, key=lambda one: one.images)
    if not ordered or ordered[0].steps >= ordered[-1].steps:
        return ""
    least, most = (f"{one.steps:,} at {one.images:,} images" for one in (ordered[0], ordered[-1]))
    return f"Larger sizes also trained for more steps ({least}, {most}): what they gain is not owed to images alone."


def _few_passes(results: list[CellResult]) -> str:
    """A warning where the budget is so short that most images were seen once or twice, or never."""
    largest = max((one.images for one in results), default=0)
    passes = min((one.epochs for one in results if one.images == largest), default=FEW_PASSES)
    if round(passes, 1) >= FEW_PASSES:  # whole batches: three epochs can be 2.999
        return ""
    return (
        f"At {largest:,} images the budget was {passes:.2g} passes over them, too few for more images to show what "
        "they are worth: a longer budget may turn this answer round."
    )


def _percent(error: Interval) -> str:
    """'5.20 % (95 % interval 4.80 to 5.60)'."""
    if error.low is None or error.high is None:
        return f"{100 * error.value:.2f} %"
    return f"{100 * error.value:.2f} % (95 % interval {100 * max(error.low, 0):.2f} to {100 * min(error.high, 1):.2f})"
