"""`vit compare RUN RUN...`: differences between trained models on the same test images"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vit.commands.cli.arguments import StrPath, new_file, path_text
from vit.commands.cli.command_line import Metavar
from vit.console import Reporter, count_of, interval, p_value, percent
from vit.csv_files import new_table
from vit.errors import ResourceError, VitError

if TYPE_CHECKING:
    from vit.study.findings import Difference, Interval
    from vit.study.finished_runs import FinishedRun
    from vit.study.run_comparison import Repeated, RunComparison, RunPair

SHOWN = 20
_COLUMNS = ("predicted", "probability", "loss")  # of each run in the list of disagreements


@dataclass(frozen=True)
class ComparisonSummary:
    """What `vit.compare` found on the common test images.

    Attributes:
        num_images: number of test images.
        accuracies: accuracy of each run by name, with a 95 % interval over test images.
        differences: accuracy of the first run minus the accuracy of another run by name, with a 95 % interval.
        disagreements: paths of the images with different predicted labels.
    """

    num_images: int
    accuracies: "dict[str, Interval]"
    differences: "dict[str, Interval]"
    disagreements: list[str]


def compare(
    runs: Annotated[Sequence[StrPath], Metavar("RUN")],
    *,
    output: StrPath | None = None,
    page: StrPath | None = None,
    root: StrPath | None = None,
) -> ComparisonSummary:
    """Compare finished runs on the test images that they share: the first with each of the others.

    Args:
        runs: two or more run folders
        output: new CSV with a row for each image with different labels; null: none
        page: new HTML page with all tables, a figure of the differences, and the images on which the runs differ;
            null: none
        root: for the pictures of the page: folder of torchvision data sets; null: the folder of the training

    Returns:
        Accuracies, differences and disagreements.

    Raises:
        VitError: a run is not finished, its files are damaged, the runs have different test images, or seeds have one.

    Example:
        vit compare runs/photos/vit_tiny_patch16_224/20260101-120000 runs/photos/resnet18/20260101-130000
    """
    list_file = None if output is None else new_file(output)
    page_file = None if page is None else new_file(page, "--page")

    from vit.study.finished_runs import read_runs
    from vit.study.run_comparison import compare_runs

    finished = read_runs(runs)
    found = compare_runs(finished)
    reporter = Reporter()
    _show_accuracies(reporter, found)
    if found.groups:
        _show_repeated(reporter, found)
    else:
        _show_pairs(reporter, found)
    _show_options(reporter, found)
    _show_disagreements(reporter, found)
    for sentence in found.seen_before:
        reporter.line(f"\nWARNING: {sentence}")
    in_order = sorted(found.disagreements)
    if list_file is not None:
        _write(list_file, finished, in_order)
        reporter.line(f"\n{count_of(len(in_order), 'row')} in {list_file}")
    if page_file is not None:
        _write_page(reporter, page_file, found, path_text(root))
        reporter.line(f"\npage in {page_file}")
    reporter.next_command(_next(finished, page_file is None and bool(in_order)))
    return ComparisonSummary(
        found.num_images,
        {run.name: accuracy for run, accuracy in zip(finished, found.accuracies, strict=True)},
        {pair.other.name: pair.gap for pair in found.pairs},
        [finished[0].rows[index].path for index in in_order],
    )


def _show_accuracies(reporter: Reporter, found: "RunComparison") -> None:
    reporter.line(f"{found.images} of {found.runs[0].data}; 95 % intervals")
    rows = []
    for run, accuracy in zip(found.runs, found.accuracies, strict=True):
        right = int(run.correct.sum())
        shown = interval(accuracy.value, accuracy.low or 0.0, accuracy.high or 0.0)
        rows.append((run.name, shown, f"{right:,}", f"{len(run.rows) - right:,}"))
    reporter.table(("run", "accuracy", "right", "wrong"), rows)


def _show_pairs(reporter: Reporter, found: "RunComparison") -> None:
    """The first run with each other run, over the test images alone."""
    reporter.line(f"\nAccuracy of {found.runs[0].name} minus that of each other run, on the same images")
    p_name = "McNemar's p" if found.runs[0].groups is None else "p of groups"
    columns = ("against", "difference in points", "only first right", "only other right", p_name, "p corrected")
    reporter.table(columns, [_pair(pair) for pair in found.pairs])
    reporter.line(
        "\nThe intervals are about these trained models; another seed gives others, and 'vit study' trains them."
    )
    _show_correction(reporter, "The last column is", len(found.pairs))
    if any(pair.is_between for pair in found.pairs):
        reporter.line(
            "Where p is above 0.05 beside an interval without 0, nothing is told apart: the test is stricter."
        )


def _show_correction(reporter: Reporter, what: str, num_tests: int) -> None:
    """Say that the p values of several tests are corrected, and that the intervals beside them are not."""
    if num_tests > 1:
        reporter.line(f"{what} corrected for {num_tests} comparisons (Hochberg); the intervals are not.")


def _pair(pair: "RunPair") -> tuple[str, ...]:
    gap, test = pair.gap, pair.test
    around = "" if gap.low is None or gap.high is None else f" ({100 * gap.low:+z.2f} to {100 * gap.high:+z.2f})"
    only = (f"{test.only_first:,}", f"{test.only_second:,}")
    return pair.other.name, f"{100 * gap.value:+z.2f}{around}", *only, p_value(test.p), p_value(pair.p_adjusted)


def _show_repeated(reporter: Reporter, found: "RunComparison") -> None:
    """Recipes over their seeds and the test images."""
    reporter.line("\nRuns that differ in their seed alone, together; intervals are about other seeds and test images")
    reporter.table(("network", "seeds", "mean accuracy"), [_mean_accuracy(group) for group in found.groups])
    if found.differences:
        reporter.line(f"\nAccuracy of {found.groups[0].name} minus that of the others, paired by seed and test image")
        doubled = "2x test images" if found.runs[0].groups is None else "2x groups"
        columns = ("against", "common seeds", "difference in points", "p", "p corrected", "2x seeds", doubled)
        reporter.table(columns, [_repeated_row(name, one) for name, one in found.differences])
        num_tests = sum(one.is_tested for _, one in found.differences if one is not None)
        _show_correction(reporter, '\n"p corrected" is', num_tests)


def _mean_accuracy(group: "Repeated") -> tuple[str, str, str]:
    error = group.error
    if error.low is None or error.high is None:
        shown = percent(1 - error.value)
    else:
        shown = interval(1 - error.value, 1 - error.high, 1 - error.low)
    return group.name, f"{len(group.wrong)}", shown


def _repeated_row(name: str, one: "Difference | None") -> tuple[str, ...]:
    if one is None:
        return name, "none", "", "", "", "", ""
    gap = -100 * one.gap.value  # of accuracies, not of errors
    if one.gap.low is None or one.gap.high is None or one.margin_of_error is None:
        return name, f"{len(one.seeds)}", f"{gap:+z.2f}", "", "", "", ""
    around = f"{gap:+z.2f} ({-100 * one.gap.high:+z.2f} to {-100 * one.gap.low:+z.2f})"
    _, *larger = vars(one.margin_of_error).values()
    more = (f"±{100 * half:.2f}" for half in larger)
    return name, f"{len(one.seeds)}", around, p_value(one.p), p_value(one.p_adjusted), *more


def _show_options(reporter: Reporter, found: "RunComparison") -> None:
    """The options that differ between the recipes of the runs."""
    if found.options:
        reporter.line("\nOptions that differ")
        reporter.table(("option", *(run.name for run in found.runs)), found.options)


def _show_disagreements(reporter: Reporter, found: "RunComparison") -> None:
    """The images with the largest differences between the losses of the runs."""
    runs, disagreements = found.runs, found.disagreements
    if not disagreements:
        reporter.line("\nThe runs give every image the same label.")
        return
    shown = disagreements[:SHOWN]
    most = f", the {SHOWN} with the largest difference in loss" * (len(shown) < len(disagreements))
    reporter.line(f"\n{len(disagreements):,} images have different labels{most}")
    rows = []
    for index in shown:
        guesses = (f"{run.rows[index].predicted} ({run.rows[index].probability:.0%})" for run in runs)
        rows.append((*runs[0].rows[index][:2], *guesses))
    reporter.table(("image", "true", *(run.name for run in runs)), rows)


def _write(path: Path, runs: "Sequence[FinishedRun]", disagreements: Sequence[int]) -> None:
    """Write a row for each image, in the order of the test images."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = ("path", "label", *(f"{column} by {run.name}" for run in runs for column in _COLUMNS))
        with new_table(path, columns, mode="x") as table:
            for index in disagreements:
                own = (getattr(run.rows[index], column) for run in runs for column in _COLUMNS)
                table.row((*runs[0].rows[index][:2], *own))
    except OSError as error:
        raise ResourceError(f"cannot write {path}: {error.strerror}", "choose another --output") from error


def _write_page(reporter: Reporter, path: Path, found: "RunComparison", root: str | None) -> None:
    from vit.checkpoints.run import RunDirectory
    from vit.commands.cli.recipe_options import read_recipe
    from vit.report.run.run_pictures import describe_changed
    from vit.report.studies.compare_page import write_compare_page
    from vit.training.running.run_images import images_of_run

    run = RunDirectory(found.runs[0].path)
    source = None
    try:
        source = images_of_run(run, read_recipe(run.config_path), root)
    except VitError as error:
        reporter.notice(f"the page has no pictures: {error}")
    num_changed = write_compare_page(path, found, source)
    if num_changed:
        reporter.notice(describe_changed(num_changed))


def _next(runs: "Sequence[FinishedRun]", unseen: bool) -> str:
    if unseen:
        return f"vit compare {' '.join(shlex.quote(str(run.path)) for run in runs)} --page compared.html"
    best = max(runs, key=lambda run: int(run.correct.sum()))
    return f"vit predict {shlex.quote(str(best.path))} FOLDER_OF_IMAGES"
