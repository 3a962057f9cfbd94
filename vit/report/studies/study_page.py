"""A study as one self-contained HTML page"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from vit.atomic_files import atomic_write, write_json
from vit.checkpoints.model_path import weights_name
from vit.console import count_of, p_value
from vit.errors import DataError
from vit.layout import RunLayout
from vit.report.page.page import inline, link_to, scripts, with_next_steps, write_page
from vit.report.page.style import drawn, rendered
from vit.report.studies.study_figures import gaps, learning_curves, variants
from vit.study.answer import wording
from vit.study.answer.summary import summarize, to_json, write_results
from vit.study.answer.verdict import MARGIN
from vit.study.findings import Difference, Findings, JsonValue, Point, Series
from vit.study.folder import StudyDirectory, collect
from vit.study.frozen.backbones import TITLES, Backbone, conditions, read_backbones
from vit.study.statistics.forecast import TIMES

_MOST_WEIGHTS = 3  # files that are named
Rows = list[tuple[str, list[wording.Cell]]]


def report_study(folder: Path, target: float | None, margin: float | None = None) -> Findings:
    """Summarize the finished cells, and write results.csv, summary.json, curve.png and report.html into the folder.

    UsageError where the folder is not a study, DataError where no cell is finished.
    """
    study = StudyDirectory(folder)
    results, protocol, failed = collect(folder)
    if not results:
        why = f"{len(failed)} failed, the first one with: {failed[0].error}" if failed else "none was tried"
        raise DataError(f"{folder} has no finished cell: {why}", "give its 'vit study' command again")
    findings = summarize(results, protocol, failed, target, MARGIN if margin is None else margin)
    if (frozen := study.preliminary()) is not None:
        findings = replace(findings, warnings=[*findings.warnings, *frozen.beside(findings.series)])
    write_results(results, protocol, study.results_path)
    write_json(study.summary_path, to_json(findings))
    write_study_report(findings, folder)
    return findings


def write_study_report(findings: Findings, folder: Path) -> None:
    """Write report.html and curve.png into a study's folder, each whole or not at all."""
    study = StudyDirectory(folder)
    figure = (learning_curves if len(findings.sizes) > 1 else variants)(findings)
    content = {**_content(findings, figure, read_backbones(study.backbones_path)), "frozen": _frozen(study)}
    with atomic_write(study.curve_path) as partial:
        partial.write_bytes(rendered(figure, "png", dpi=160))
    write_page(study.report_path, "study.html", {**content, **scripts("table.js", "copy.js")})


def _content(findings: Findings, curves: Figure, backbones: Sequence[Backbone]) -> dict[str, object]:
    protocol, sizes, series = findings.protocol, findings.sizes, findings.series
    errors = [(f"{size:,}", [_error(one.at.get(size)) for one in series]) for size in sizes]
    several = findings.comparisons if len(sizes) > 1 else []  # with one size, the table of variants holds them
    beside = {pair.second: _difference(pair.differences[0]) for pair in findings.comparisons if pair.differences}
    variants = [(one.name, _error(one.points[0]), beside.get(one.name)) for one in series]
    seeds_agree = [
        (one.name, [point.seed_correlation for point in one.points if point.seed_correlation is not None])
        for one in series
    ]
    weights = protocol.get("weights")
    names = sorted(set(map(weights_name, weights))) if isinstance(weights, Mapping) else []
    return {
        **vars(findings),
        "findings": findings,
        "wording": wording,
        "data": wording.value_text(protocol.get("data")) or "images",
        "summary": _summary(findings),
        "networks": _networks(series),
        "weights": f"{len(names):,} files of weights" if len(names) > _MOST_WEIGHTS else " and ".join(names),
        "curves": drawn(curves),
        "gaps": drawn(gaps(findings)) if any(pair.differences for pair in several) else None,
        "sizes": sizes,
        "shares_training": wording.SHARED in wording.value_text(protocol.get("subsets", wording.SHARED)),
        "errors": errors,
        "variants": variants if len(sizes) == 1 else [],
        "comparisons": [(pair, [_difference(row) for row in pair.differences]) for pair in several],
        "has_crossing": any(pair.crossing for pair in several),
        "table": _table(findings, errors),
        "forecasts": [
            (one.name, [wording.percents(row.interval) for row in one.forecast.expected], one.forecast.why)
            for one in series
            if len(sizes) > 1
        ],
        "forecast_sizes": [f"{times:g} times" for times in TIMES],
        "prices": [(one, [one.at.get(size) for size in sizes]) for one in series],
        "failed": [(cell, RunLayout(Path(cell.folder)).log_path.as_posix()) for cell in findings.failed],
        "backbones": [one.cells() for one in backbones],
        "backbone_titles": TITLES,
        "backbone_conditions": conditions(backbones) if backbones else "",
        "protocol_rows": [(name, _lines(value)) for name, value in protocol.items() if name != "budget_words"],
        "correlations": [(name, ", ".join(f"{one:.2f}" for one in values)) for name, values in seeds_agree if values],
        "least_seeds": min(len(point.seeds) for one in series for point in one.points),
    }


def _frozen(study: StudyDirectory) -> dict[str, object] | None:
    """The preliminary answer of frozen networks: its sentences, figure and page; None without one."""
    frozen, preliminary = StudyDirectory(study.frozen_dir), study.preliminary()
    if preliminary is None or not frozen.curve_path.is_file():
        return None
    curve = inline(frozen.curve_path.read_bytes(), "image/png")
    return {"answer": preliminary.answer, "curve": curve, "page": link_to(frozen.report_path, study.report_path)}


def _networks(series: Sequence[Series]) -> str:
    """The names of the series, behind the network where all share one that the names do not tell."""
    names = "; ".join(one.name for one in series)
    shared = {one.network for one in series}
    is_told = len(shared) > 1 or any(one.name in shared for one in series)
    return names if is_told else f"{shared.pop()}: {names}"


def _table(findings: Findings, errors: Rows) -> Rows:
    """The errors at the two largest sizes, and what is expected with twice the largest."""
    rows, twice = errors[-2:], findings.at_twice
    if twice:
        texts = [wording.percents(twice[one.name]) if one.name in twice else ("", "") for one in findings.series]
        rows.append((f"{2 * findings.sizes[-1]:,} (forecast)", texts))
    return rows


def _summary(findings: Findings) -> list[str]:
    """The study in a few plain lines, with what to do next."""
    sizes = f"{', '.join(f'{size:,}' for size in findings.sizes)} training images"
    lines = [f"Study of {wording.value_text(findings.protocol.get('data')) or 'images'}: {sizes}"]
    lines += filter(None, (*findings.answer, findings.trend, *(f"Warning: {text}" for text in findings.warnings)))
    for name, point in ((series.name, series.points[-1]) for series in findings.series):
        value, around = _error(point)
        lines.append(f"{name} with {point.num_images:,} images: test error {value} % ({around})")
    if words := wording.describe_budget(findings.protocol):
        lines.append(f"Budget: {words}")
    return with_next_steps(lines, findings.next_steps)


def _error(point: Point | None) -> wording.Cell:
    if point is None:
        return "", ""
    value, around = wording.percents(point.mean)
    seeds = count_of(len(point.seeds), "seed")
    return value, f"{around}; {seeds}" if around else seeds


def _difference(row: Difference) -> dict[str, object]:
    return {
        "num_images": row.num_images,
        "num_seeds": len(row.seeds),
        "gap": (_signed(row.gap.value), wording.ends(row.gap, _signed)),
        "ratio": (_three_digits(row.ratio.value), wording.ends(row.ratio, _three_digits)),
        "p": p_value(row.p) if row.is_tested else "",
        "p_adjusted": p_value(row.p_adjusted) if row.is_tested else "",
    }


def _lines(value: JsonValue | Sequence[JsonValue]) -> list[str]:
    """A value of the protocol. A mapping gets a line for each entry."""
    if isinstance(value, Mapping):
        return [f"{name}: {wording.value_text(one)}" for name, one in value.items()]
    return [wording.value_text(value) or "none"]


def _three_digits(value: float) -> str:
    """Three significant digits, with a typographic minus."""
    return f"{value:#.3g}".rstrip(".").replace("-", "−")  # noqa: RUF001


def _signed(value: float) -> str:
    return f"{100 * value:+z.2f}".replace("-", "−")  # noqa: RUF001
