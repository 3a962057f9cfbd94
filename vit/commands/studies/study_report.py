"""The findings of a study or a cross-validation on the terminal, at its end and in `vit report`, and in trackers"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import shell_command, without
from vit.commands.cli.recipe_options import read_recipe
from vit.console import Reporter, count_of, percent
from vit.csv_files import read_table, records
from vit.layout import RunLayout

if TYPE_CHECKING:
    from vit.commands.studies.study_plan import StudyPlan
    from vit.study.findings import Findings, Point
    from vit.study.folder import StudyDirectory

SHOWN_FAILED = 5
_TRACKED = ("series", "training images", "test error", "low", "high", "seeds")


def report_findings(
    reporter: Reporter, path: Path, target: float | None, margin: float | None = None, words: Sequence[str] = ()
) -> "Findings":
    """Summarize a study's folder, write results, summary, curve and page, and show answer, table and paths."""
    from vit.report.studies.study_page import report_study
    from vit.study.folder import StudyDirectory

    findings, study = report_study(path, target, margin), StudyDirectory(path)
    _show(reporter, findings)
    reporter.line()
    numbers = f"{study.results_path}, {study.summary_path}"
    reporter.facts([("report", str(study.report_path)), ("figure", str(study.curve_path)), ("numbers", numbers)])
    reporter.next_command(_next(study, findings, margin, words))
    return findings


def _show(reporter: Reporter, findings: "Findings") -> None:
    from vit.study.answer.wording import describe_budget, describe_target, further_lines, short_percents

    reporter.line()
    for sentence in filter(None, (*findings.answer, findings.trend)):
        reporter.line(sentence)
    sizes, twice = findings.sizes, findings.at_twice
    length = describe_budget(findings.protocol)
    title = f"Test error in % on {findings.test_images}: mean over the seeds, 95 % interval"
    reporter.line(f"\n{title}{f'; {length}' * bool(length)}")
    if left_out := findings.protocol.get("left_out"):
        reporter.line(f"without {left_out}")
    if len(sizes) == 1:
        errors = [(series.name, _error(series.points[0])) for series in findings.series]
        reporter.table(("series", f"{sizes[0]:,} images"), errors)
    else:
        rows = [(f"{images:,}", *(_error(series.at.get(images)) for series in findings.series)) for images in sizes]
        if twice:
            texts = [short_percents(twice[one.name]) if one.name in twice else "-" for one in findings.series]
            rows.append((f"{2 * sizes[-1]:,} (forecast)", *(text.replace(" %", "") for text in texts)))
        reporter.table(("images", *(series.name for series in findings.series)), rows)
    reporter.line()
    if findings.target is not None:
        for series in findings.series:
            reporter.line(describe_target(series.forecast, findings.target, series.name))
    steps = [("next", step) for step in findings.next_steps if not step.startswith("For an accuracy")]
    reporter.facts([*further_lines(findings), *steps])
    reporter.warn(*findings.warnings)
    if failed := [f"{cell.describe()}: {cell.error}" for cell in findings.failed]:
        counted = "1 cell failed, and is" if len(failed) == 1 else f"{len(failed):,} cells failed, and are"
        reporter.notice(f"\nWARNING: {counted} not in the numbers above:")
        reporter.some(failed, SHOWN_FAILED)


def _error(point: "Point | None") -> str:
    from vit.study.answer.wording import percents

    if point is None:
        return "-"
    value, around = percents(point.mean)
    return f"{value} ({around or count_of(len(point.seeds), 'seed')})"


def _next(study: "StudyDirectory", findings: "Findings", margin: float | None, words: Sequence[str]) -> str:
    """The next useful command: longer trainings after short ones, a target, or images for a network that can tell."""
    from vit.study.answer.answer_warnings import guesses, usual_hours

    if words and (hours := usual_hours(findings.protocol)):
        longer = f"--time {hours}h --name {shlex.quote(study.path.name)}-{hours}h --yes"
        return f"vit study {without(words, '--time', '--name', '--yes')} {longer}"
    if findings.target is None and findings.forecasts:
        same = "" if margin is None else f" --margin {margin:g}"
        return f"vit report {shlex.quote(str(study.path))} --target 0.95{same}"
    first = min(findings.series, key=lambda one: (-one.points[-1].num_images, one.points[-1].mean.value))
    cells = [row for row in records(study.results_path) if row["series"] == first.name]
    best = max(cells, key=lambda row: (int(row["images"]), float(row["accuracy"])))
    path = shlex.quote(str(study.path / best["run"]))
    is_measured = "right" in findings.protocol or guesses(first.points[-1], findings.protocol)
    return f"vit evaluate {path}" if is_measured else f"vit predict {path} FOLDER_OF_IMAGES"


def track_findings(plan: "StudyPlan", findings: "Findings", reporter: Reporter) -> None:
    """Show results, errors with intervals, and the curve, but no images, in a run of the study, which goes on."""
    from vit.training.tracking.open import open_trackers
    from vit.training.tracking.tracker import NUMBERS_ALONE, Tracking

    folder, name = plan.folder, plan.folder.path.name
    settings = Tracking(folder.path, folder.path, name, name, plan.protocol, NUMBERS_ALONE)
    tracker = open_trackers(plan.cells[0].recipe, settings, reporter.notice)
    points = [(series.name, point) for series in findings.series for point in series.points]
    rows = [(of, at.num_images, at.mean.value, at.mean.low, at.mean.high, len(at.seeds)) for of, at in points]
    tracker.table("study/errors", _TRACKED, rows)
    tracker.table("study/results", *read_table(folder.results_path))
    tracker.figure("study/curve", folder.curve_path)
    tracker.finish()


def report_crossval(reporter: Reporter, path: Path) -> None:
    """Collect the folds, write predictions.csv, summary.json and page, and show them; BadInputsError: not finished."""
    from vit.checkpoints.locking import alone
    from vit.report.studies.compare_page import write_crossval_page
    from vit.study.crossval import CrossvalDirectory

    folder = CrossvalDirectory(path)
    with alone(folder.lock_path):
        crossval = folder.collect()
        write_crossval_page(crossval, folder.report_path)
    accuracy = crossval.accuracy
    labels, correct = crossval.predictions.labels, crossval.predictions.correct
    reporter.line(f"\n{correct.sum():,} of {len(labels):,} images are predicted right by {crossval.judges}")
    for sentence in crossval.warnings:
        reporter.line(f"WARNING: {sentence}")
    if crossval.left_out:
        reporter.line(crossval.left_out_text)
    units = "the folds" if accuracy.num_groups is None else f"the folds and {accuracy.num_groups:,} groups"
    whole = f"{accuracy.accuracy.text}; the interval respects {units}"
    naive = f"{accuracy.naive.text}; it takes all images for independent, and is often too narrow"
    alike = f"{percent(crossval.predictions.balanced.value)}; each class counts the same"
    reporter.facts([("accuracy", whole), ("naive", naive), ("balanced", alike)])
    folds = enumerate(zip(accuracy.num_images, accuracy.folds, crossval.runs, strict=True), 1)
    rows = [(number, f"{count:,}", one.text, run.relative_to(path)) for number, (count, one, run) in folds]
    reporter.table(("fold", "images", "accuracy", "run"), rows)
    if crossval.last_weights_warning:
        reporter.line(f"\n{crossval.last_weights_warning}")
    reporter.line()
    reporter.facts([("report", str(folder.report_path)), ("predictions", str(folder.predictions_path))])
    data = read_recipe(RunLayout(crossval.runs[0]).config_path).data
    options = {"labels": path, **data.places}
    reporter.next_command(shell_command("vit", "data", "check", data.source_now, options=options))
