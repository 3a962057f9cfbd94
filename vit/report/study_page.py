"""A study as one HTML page that needs nothing but itself: figures inside it, no script, nothing from a network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from vit.atomic_files import atomic_write, write_json
from vit.console import p_value
from vit.errors import DataError
from vit.report.page import drawn, templates
from vit.report.study_figures import budget, counted, gaps, learning_curves, price, said
from vit.report.style import rendered
from vit.report.variants import variants
from vit.study.findings import Comparison, Difference, Findings, Fit, Interval, Point, Series
from vit.study.folder import StudyDirectory, collect
from vit.study.summary import summarize, to_json, write_results

Cell = tuple[str, str]  # a value, and in small letters below it its interval


class _Row(NamedTuple):
    """A difference as the page prints it; `reach` as it is, with twice the seeds, with twice the test images."""

    images: int
    seeds: int
    gap: Cell
    ratio: Cell
    p: str
    p_adjusted: str
    reach: tuple[str, str, str]


def report_study(folder: Path, target: float | None) -> Findings:
    """Summarize what has finished, and write results.csv, summary.json, curve.png and report.html into the folder.

    Raises:
        UsageError: the folder is no study.
        DataError: nothing has finished.
    """
    study = StudyDirectory(folder)
    results, protocol, failed = collect(folder)
    if not results:
        why = f"{len(failed)} failed, the first one so: {failed[0]['error']}" if failed else "none was tried"
        raise DataError(f"{folder} has no finished cell: {why}", "give its 'vit study' command again")
    findings = summarize(results, protocol, failed, target)
    write_results(results, study.results_path)
    write_json(study.summary_path, to_json(findings))
    write_study_report(findings, folder)
    return findings


def write_study_report(findings: Findings, folder: Path) -> None:
    """Write report.html and curve.png into a study's folder, each whole or not at all."""
    study = StudyDirectory(folder)
    figure = (learning_curves if _several(findings) else variants)(findings)
    html = templates.get_template("study.html").render(_content(findings, figure))
    for path, content in (
        (study.curve_path, rendered(figure, "png", dpi=160)),
        (study.report_path, html.encode("utf-8", "replace")),
    ):
        with atomic_write(path) as partial:
            partial.write_bytes(content)


def _several(findings: Findings) -> bool:
    """Whether more than one number of training images was measured."""
    return len({point.images for series in findings.series for point in series.points}) > 1


def _content(findings: Findings, curves: Figure) -> dict[str, Any]:
    """What the template prints: texts, and rows of cells."""
    protocol = findings.protocol
    points = {series.name: {point.images: point for point in series.points} for series in findings.series}
    sizes = sorted({images for own in points.values() for images in own})
    several = findings.comparisons if len(sizes) > 1 else []  # with one size they stand in the table of variants
    listed = {name: value for name, value in protocol.items() if name != "budget_words"}
    return {
        "data": said(protocol.get("data")) or "images",
        "verdict": [line for line in findings.verdict.splitlines() if line.strip()],
        "budget": budget(protocol),
        "tuning": said(protocol.get("tuning")),
        "curves": drawn(curves),
        "gaps": drawn(gaps(findings)) if any(pair.differences for pair in several) else None,
        "price": drawn(price(findings)),
        "series": findings.series,
        "sizes": sizes,
        "test_images": findings.test_images,
        "errors": [(n, [_error(own.get(n)) for own in points.values()]) for n in sizes],
        "variants": [] if len(sizes) > 1 else _variants(findings),
        "comparisons": [(pair, [_difference(row) for row in pair.differences]) for pair in several],
        "crossed": any(pair.crossing for pair in several),
        "crossings": [_crossing(pair) for pair in several],
        "fits": [(series, *_fit(series.fit, findings.target)) for series in findings.series],
        "target": None if findings.target is None else f"{100 * findings.target:g} %",
        "prices": [(series, [_price(points[series.name].get(n)) for n in sizes]) for series in findings.series],
        "failed": findings.failed,
        "protocol": [(name.replace("_", " "), _lines(value)) for name, value in listed.items()],
        "correlations": [(one.name, values) for one in findings.series if (values := _correlations(one))],
        "least_seeds": min((len(point.seeds) for own in points.values() for point in own.values()), default=0),
    }


def _variants(findings: Findings) -> list[tuple[str, Cell, "_Row | None"]]:
    """At one size, a row for every series: its error, and its difference from the first."""
    beside = {pair.second: _difference(pair.differences[0]) for pair in findings.comparisons if pair.differences}
    return [(one.name, _error(one.points[0]), beside.get(one.name)) for one in findings.series]


def _error(point: Point | None) -> Cell:
    if point is None:
        return "", ""
    count = len(point.seeds)
    value, around = percents(point.mean)
    seeds = f"{count} seed{'s' * (count != 1)}"
    return value, f"{around}; {seeds}" if around else seeds


def _difference(row: Difference) -> _Row:
    ratio = (number(row.ratio.value), ends(row.ratio, number))
    gap = (_signed(row.gap.value), ends(row.gap, _signed))
    if row.reach is None:  # one seed cannot be tested
        return _Row(row.images, len(row.seeds), gap, ratio, "", "", ("", "", ""))
    now, seeds, images = (
        f"{100 * half:.2f}" for half in (row.reach.now, row.reach.twice_the_seeds, row.reach.twice_the_test_images)
    )
    return _Row(row.images, len(row.seeds), gap, ratio, p_value(row.p), p_value(row.p_adjusted), (now, seeds, images))


def _correlations(series: Series) -> str:
    """Of two seeds' errors, at each size: '0.42, 0.51'."""
    found = [point.seed_correlation for point in series.points if point.seed_correlation is not None]
    return ", ".join(f"{value:.2f}" for value in found)


def _crossing(pair: Comparison) -> str:
    crossing = pair.crossing
    if crossing is not None:
        notes = [ends(crossing, counted)]
        notes += [
            f"the {side} end may lie outside the measured sizes"
            for side, end in (("lower", crossing.low), ("upper", crossing.high))
            if end is None
        ]
        around = "; ".join(filter(None, notes))
        place = f"about {counted(crossing.value)} training images"
        return f"{pair.first} and {pair.second} are equally good at {place} ({around})."
    if pair.verdict == "not resolved":
        return f"{pair.first} and {pair.second}: whether they cross is not resolved by these sizes and seeds."
    ahead = pair.first if pair.verdict == "first ahead" else pair.second
    return f"{pair.first} and {pair.second}: no crossing within the measured sizes; {ahead} is ahead."


def _fit(fit: Fit | None, target: float | None) -> tuple[list[Cell], str]:
    """Cells of a fit, or why there is none."""
    if fit is None or not fit.supported:
        if fit is None:
            return [], "fewer than 3 sizes"
        return [], fit.why + f"; the target: {fit.refusal}" * (fit.refusal not in ("", fit.why))
    cells = [percents(fit.floor)]
    cells += [(number(one.value), ends(one, number)) for one in (fit.scale, fit.exponent)]
    cells += [percents(fit.at_twice), percents(fit.at_four_times)]
    if target is not None and fit.for_target is not None:
        cells.append((counted(fit.for_target.value), ends(fit.for_target, counted)))
    elif target is not None:
        cells.append(("-", fit.refusal))
    return cells, ""


def _price(point: Point | None) -> Cell:
    return ("", "") if point is None else (f"{point.seconds:,.0f} s", f"{point.images_per_second:,.0f} images/s")


def _lines(value: Any) -> list[str]:
    """A value of the protocol; what is a mapping or a long list gets a line for each entry."""
    if isinstance(value, Mapping):
        return [f"{name}: {said(one)}" for name, one in value.items()]
    return [said(value) or "none"]


def percents(interval: Interval) -> Cell:
    """A share and its interval as percentages without a sign."""
    return f"{100 * interval.value:.2f}", ends(interval, lambda value: f"{100 * min(max(value, 0), 1):.2f}")


def ends(interval: Interval, show: Any) -> str:
    """The interval in words; empty when it has neither end."""
    low, high = interval.low, interval.high
    if low is None and high is None:
        return ""
    if low is None:
        return f"{show(high)} or less"
    return f"{show(low)} or more" if high is None else f"{show(low)} to {show(high)}"


def number(value: float) -> str:
    """Three digits, with a real minus."""
    return f"{value:#.3g}".rstrip(".").replace("-", "−")  # noqa: RUF001


def _signed(value: float) -> str:
    return f"{100 * value:+.2f}".replace("-", "−")  # noqa: RUF001
