"""Finished runs of a study -> findings, results.csv and the content of summary.json"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np

from vit.atomic_files import atomic_write
from vit.csv_files import new_table
from vit.inference.scores.image_groups import effective_number, gathered
from vit.study.answer.answer_warnings import items
from vit.study.answer.verdict import MARGIN, verdict
from vit.study.answer.wording import LINEAR_PROBE, describe_comparison
from vit.study.findings import FILE_KEYS, CellResult, FailedCell, Findings, Interval, JsonValue, Point, Protocol, Series
from vit.study.statistics.crossover import compare_with_first
from vit.study.statistics.forecast import forecast
from vit.study.statistics.paired import gains
from vit.study.statistics.variance_components import Answers, Bools, Floats, Spread, mean_errors

_ATTRIBUTES = tuple(field.name for field in fields(CellResult) if field.name not in ("correct", "groups", "late_gain"))
COLUMNS = tuple(FILE_KEYS.get(name, name) for name in _ATTRIBUTES)


def summarize(
    results: Sequence[CellResult],
    protocol: Protocol,
    failed: Sequence[FailedCell],
    target: float | None,
    margin: float = MARGIN,
) -> Findings:
    """Findings of one or more finished runs; series as the protocol lists them, each compared with the first.

    ValueError where runs were measured on different numbers of test images, or two runs are the same cell.
    """
    if len({len(result.correct) for result in results}) > 1:
        raise ValueError("the runs of a study must share their test images")
    if len({(result.series, result.num_images, result.seed) for result in results}) < len(results):
        raise ValueError("two runs with the same series, images and seed")
    cells = {name: [one for one in results if one.series == name] for name in _names(results, protocol)}
    answers = {name: _answers(runs) for name, runs in cells.items()}
    is_probe, has_folds = protocol.get("budget") == LINEAR_PROBE, "folds" in protocol
    groups = effective_number(results[0].groups)
    looks = int(str(protocol.get("looks", 1)))
    steps, means = gains(answers, groups, has_folds, looks), mean_errors(answers, groups, has_folds)
    series = []
    for name, (first, *_) in cells.items():
        points = [
            _point([one for one in cells[name] if one.num_images == size], wrong, means[name][size], has_folds)
            for size, wrong in answers[name].items()
        ]
        expected = forecast(name, answers[name], points, {} if is_probe else steps_of(cells[name]), target)
        series.append(Series(name, first.network, first.parameters, first.flops, points, steps[name], expected))
    compared = compare_with_first(answers, groups, looks, has_folds)
    comparisons = [replace(one, words=describe_comparison(one)) for one in compared]
    text = verdict(series, comparisons, protocol, failed, results, target, margin)
    return Findings(
        **vars(text),
        series=series,
        comparisons=comparisons,
        target=target,
        num_test_images=len(results[0].correct),
        protocol=protocol,
        failed=list(failed),
        margin=margin,
    )


def to_json(findings: Findings) -> dict[str, JsonValue]:
    """Content of summary.json, None for an unknown value. ValueError where a number is not finite."""
    plain: dict[str, JsonValue] = asdict(findings, dict_factory=_with_file_keys)
    for name in ("forecasts", "backtest"):
        plain[name] = [_with_file_keys(list(vars(one).items())) for one in getattr(findings, name)]
    content: dict[str, JsonValue] = json.loads(json.dumps(plain, allow_nan=False))
    return content


def write_results(results: Sequence[CellResult], protocol: Protocol, path: Path) -> None:
    """Write results.csv whole or not at all: a row for each run by series, images and seed, with every digit."""
    order = _names(results, protocol)
    with atomic_write(path) as partial, new_table(partial, COLUMNS) as table:
        for result in sorted(results, key=lambda one: (order.index(one.series), one.num_images, one.seed)):
            table.row(getattr(result, name) for name in _ATTRIBUTES)


def _with_file_keys(items: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    return {FILE_KEYS.get(name, name): value for name, value in items}


def _names(results: Sequence[CellResult], protocol: Protocol) -> list[str]:
    """The series with a finished run, as they were given: the first is the reference, whichever run ended first."""
    planned, finished = items(protocol.get("series")), dict.fromkeys(result.series for result in results)
    return list(dict.fromkeys([*(name for name in planned if name in finished), *finished]))


def _answers(cells: Sequence[CellResult]) -> Answers:
    sizes = sorted({cell.num_images for cell in cells})
    return {
        size: {cell.seed: gathered(~cell.correct, cell.groups) for cell in cells if cell.num_images == size}
        for size in sizes
    }


def steps_of(cells: Sequence[CellResult]) -> dict[int, int]:
    """{number of training images: optimizer steps, the median over the seeds} of one series."""
    steps_at: dict[int, list[int]] = {}
    for cell in cells:
        steps_at.setdefault(cell.num_images, []).append(cell.steps)
    return {size: max(round(float(np.median(steps))), 1) for size, steps in steps_at.items()}


def _point(
    cells: Sequence[CellResult], wrong: Mapping[int, Floats] | Mapping[int, Bools], mean: Interval, has_folds: bool
) -> Point:
    """The cells of a series at one size, with the wrong answers of each seed."""
    seeds = sorted(wrong)
    table = np.stack([wrong[seed] for seed in seeds]).astype(np.float64)
    has_correlation = len(seeds) > 1 and not has_folds
    return Point(
        num_images=cells[0].num_images,
        seeds=seeds,
        errors=[float(row.mean()) for row in table],
        mean=mean,
        seed_correlation=Spread.of(table).correlation if has_correlation else None,
        seconds=sum(cell.seconds for cell in cells) / len(cells),
        images_per_second=sum(cell.images_per_second for cell in cells) / len(cells),
    )
