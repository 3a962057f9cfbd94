"""The findings of a study on the terminal, at the end of `vit study` and in `vit report`"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from vit.console import Reporter
from vit.csv_files import records

if TYPE_CHECKING:
    from vit.study.findings import Findings, Fit, Point
    from vit.study.folder import StudyDirectory

SHOWN_FAILED = 5


def report_findings(reporter: Reporter, path: Path, target: float | None) -> "Findings":
    """Summarize a study's folder, write its results, summary, curve and page, and show verdict, table and paths.

    Returns:
        what was found.

    Raises:
        UsageError: the folder is not a study.
        DataError: no cell of the study is finished.
    """
    from vit.report.study_page import report_study
    from vit.study.folder import StudyDirectory

    findings, study = report_study(path, target), StudyDirectory(path)
    _show(reporter, findings)
    reporter.line()
    files = {
        "report": study.report_path,
        "figure": study.curve_path,
        "numbers": f"{study.results_path}, {study.summary_path}",
    }
    reporter.facts((name, str(file)) for name, file in files.items())
    reporter.next_command(_next(study, findings))
    return findings


def _show(reporter: Reporter, findings: "Findings") -> None:
    from vit.study.wording import budget_words

    reporter.line("\n" + findings.verdict)
    points = [{point.num_images: point for point in series.points} for series in findings.series]
    sizes = sorted({images for own in points for images in own})
    length = budget_words(findings.protocol)
    title = f"Test error in % on {findings.test_images}: mean over the seeds, 95 % interval"
    reporter.line(f"\n{title}{f'; {length}' * bool(length)}")
    if left_out := findings.protocol.get("left_out"):
        reporter.line(f"without {left_out}")
    if len(sizes) == 1:
        errors = [(series.name, _error(own[sizes[0]])) for series, own in zip(findings.series, points, strict=True)]
        reporter.table(("series", f"{sizes[0]:,} images"), errors)
    else:
        rows = [(f"{images:,}", *(_error(own.get(images)) for own in points)) for images in sizes]
        reporter.table(("images", *(series.name for series in findings.series)), rows)
    if findings.target is not None:
        reporter.line(f"\nTraining images for an accuracy of {100 * findings.target:g} %")
        reporter.facts((series.name, _wanted(series.fit)) for series in findings.series)
    if findings.failed:
        one = len(findings.failed) == 1
        counted = "1 cell failed, and is" if one else f"{len(findings.failed):,} cells failed, and are"
        reporter.notice(f"\nWARNING: {counted} not in the numbers above:")
        for cell in findings.failed[:SHOWN_FAILED]:
            reporter.notice(f"  {cell.words()}: {cell.error}")
        if len(findings.failed) > SHOWN_FAILED:
            reporter.notice("  ...")


def _error(point: "Point | None") -> str:
    from vit.study.wording import percents

    if point is None:
        return "-"
    (value, around), seeds = percents(point.mean), len(point.seeds)
    return f"{value} ({around or f'{seeds} seed' + 's' * (seeds != 1)})"


def _wanted(fit: "Fit | None") -> str:
    from vit.study.wording import ends, two_digits

    if fit is None:
        return "not known: fewer than 3 sizes"
    if fit.for_target is None:
        return fit.refusal
    around = ends(fit.for_target, two_digits)
    return f"about {two_digits(fit.for_target.value)}" + (f" ({around})" if around else "")


def _next(study: "StudyDirectory", findings: "Findings") -> str:
    """The next useful command: a target where a curve is fitted, else a comparison of the answer, else predictions.

    `vit compare` takes no models of several labels, and no runs that could read different test images.
    """
    from vit.study.verdict import by_answer

    if findings.target is None and any(series.fit is not None and series.fit.supported for series in findings.series):
        return f"vit report {shlex.quote(str(study.path))} --target 0.95"
    rows = records(study.results_path)
    best = max(rows, key=lambda row: (int(row["images"]), float(row["accuracy"])))
    path = shlex.quote(str(study.path / best["run"]))
    if "right" in findings.protocol:
        return f"vit evaluate {path}"
    pair = min(findings.comparisons, key=by_answer, default=None)
    if pair is not None and pair.differences and "left_out" not in findings.protocol:
        last = pair.differences[-1]
        runs = {(row["series"], row["images"], row["seed"]): row["run"] for row in rows}
        names = [runs[name, str(last.num_images), str(last.seeds[0])] for name in (pair.first, pair.second)]
        return "vit compare " + " ".join(shlex.quote(str(study.path / name)) for name in names)
    return f"vit predict {path} FOLDER_OF_IMAGES"
