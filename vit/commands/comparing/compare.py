"""`vit compare RUN RUN...`: differences between trained models on the same test images"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from vit.commands.cli.arguments import StrPath, in_points, new_file, new_page
from vit.commands.cli.command_line import Metavar
from vit.console import Reporter, count_of, p_value, percent
from vit.csv_files import new_output
from vit.errors import UsageError

if TYPE_CHECKING:
    from vit.study.findings import Difference, Interval
    from vit.study.run_comparison import RunComparison

SHOWN = 20
_COLUMNS = ("predicted", "probability", "loss")  # of each run in the list of disagreements


@dataclass(frozen=True)
class ComparisonSummary:
    """What `vit.compare` found on the common test images, with 95 % intervals."""

    num_images: int  # number of test images
    accuracies: "dict[str, Interval]"  # {run: accuracy}, over test images
    differences: "dict[str, Interval]"  # {other run: accuracy of the first run minus its accuracy}
    disagreements: list[str]  # paths of the images with different predicted labels


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

    Example:
        vit compare runs/photos/vit_tiny_patch16_224/20260101-120000 runs/photos/resnet18/20260101-130000
    """
    if root is not None and page is None:
        raise UsageError("--root without --page, whose pictures it is for", "give --page FILE, or leave --root out")
    list_file = None if output is None else new_file(output)
    page_file = new_page(page, list_file)

    from vit.study.run_comparison import compare_runs, read_runs

    finished = read_runs(runs)
    comparison, reporter = compare_runs(finished), Reporter()
    reporter.line(f"{comparison.images} of {finished[0].result.data}; 95 % intervals")
    rows = []
    for run, accuracy in zip(finished, comparison.accuracies, strict=True):
        right = int(run.correct.sum())
        rows.append((run.name, accuracy.text, f"{right:,}", f"{len(run.rows) - right:,}"))
    reporter.table(("run", "accuracy", "right", "wrong"), rows)
    if comparison.groups:
        _show_repeated(reporter, comparison)
    else:
        _show_pairs(reporter, comparison)
    if comparison.options:
        reporter.line("\nOptions that differ")
        reporter.table(("option", *(run.name for run in finished)), comparison.options)
    if num_different := len(comparison.disagreements):
        most = f", the {SHOWN} with the largest difference in loss" * (num_different > SHOWN)
        reporter.line(f"\n{count_of(num_different, 'image')} with different labels{most}")
        guesses: list[tuple[str, ...]] = []
        for index in comparison.disagreements[:SHOWN]:
            of_runs = [run.rows[index] for run in finished]
            guesses.append((*of_runs[0][:2], *(f"{row.predicted} ({percent(row.probability, 1)})" for row in of_runs)))
        reporter.table(("image", "true", *(run.name for run in finished)), guesses)
    else:
        reporter.line("\nThe runs give every image the same label.")
    for sentence in comparison.seen_before:
        reporter.line(f"\nWARNING: {sentence}")
    in_order = sorted(comparison.disagreements)
    if list_file is not None:
        columns = ("path", "label", *(f"{column} by {run.name}" for run in finished for column in _COLUMNS))
        with new_output(list_file, columns) as table:
            for index in in_order:
                cells = (getattr(run.rows[index], column) for run in finished for column in _COLUMNS)
                table.row((*finished[0].rows[index][:2], *cells))
        reporter.line(f"\n{count_of(len(in_order), 'row')} in {list_file}")
    if page_file is not None:
        from vit.commands.measuring.measured_images import images_for_pictures
        from vit.report.run.run_pictures import describe_changed
        from vit.report.studies.compare_page import write_compare_page

        pictures = images_for_pictures(finished[0].path, root, reporter)
        if num_changed := write_compare_page(page_file, comparison, pictures):
            reporter.notice(describe_changed(num_changed))
        reporter.line(f"\npage in {page_file}")
    if page_file is None and in_order:
        reporter.next_command(f"vit compare {shlex.join(str(run.path) for run in finished)} --page compared.html")
    else:
        best = max(finished, key=lambda run: int(run.correct.sum()))
        reporter.next_command(f"vit predict {shlex.quote(str(best.path))} FOLDER_OF_IMAGES")
    accuracies = dict(zip((run.name for run in finished), comparison.accuracies, strict=True))
    paths, pairs = [finished[0].rows[index].path for index in in_order], comparison.pairs
    return ComparisonSummary(comparison.num_images, accuracies, {pair.other.name: pair.gap for pair in pairs}, paths)


def _show_pairs(reporter: Reporter, comparison: "RunComparison") -> None:
    reporter.line(f"\nAccuracy of {comparison.runs[0].name} minus that of each other run, on the same images")
    p_name = "McNemar's mid-p" if comparison.runs[0].groups is None else "p of groups"
    columns = ("against", "difference in points", "only first right", "only other right", p_name, "p corrected")
    rows = []
    for pair in comparison.pairs:
        only = f"{pair.test.only_first:,}", f"{pair.test.only_second:,}"
        rows.append((pair.other.name, in_points(pair.gap, ""), *only, p_value(pair.test.p), p_value(pair.p_adjusted)))
    reporter.table(columns, rows)
    about = "The intervals are about these trained models"
    reporter.line(f"\n{about}; another seed gives others, and 'vit study' trains them.")
    _show_correction(reporter, "The last column is", len(comparison.pairs))
    if any(pair.is_between for pair in comparison.pairs):
        reporter.line("If p is above 0.05 beside an interval without 0, nothing is told apart: the test is stricter.")


def _show_correction(reporter: Reporter, what: str, num_tests: int) -> None:
    if num_tests > 1:
        reporter.line(f"{what} corrected for {num_tests} comparisons (Hochberg); the intervals are not.")


def _show_repeated(reporter: Reporter, comparison: "RunComparison") -> None:
    from vit.study.answer.wording import complement

    reporter.line("\nRuns that differ in their seed alone, together; intervals are about other seeds and test images")
    means = [(group.name, str(len(group.wrong)), complement(group.error).text) for group in comparison.groups]
    reporter.table(("network", "seeds", "mean accuracy"), means)
    if comparison.differences:
        first, units = comparison.groups[0].name, "test images" if comparison.runs[0].groups is None else "groups"
        reporter.line(f"\nAccuracy of {first} minus that of the others, paired by seed and test image")
        columns = ("against", "common seeds", "difference in points", "p", "p corrected", "2x seeds", f"2x {units}")
        reporter.table(columns, [_repeated_row(name, difference) for name, difference in comparison.differences])
        num_tests = sum(difference.is_tested for _, difference in comparison.differences if difference is not None)
        _show_correction(reporter, '\n"p corrected" is', num_tests)
        if not num_tests:  # one common seed or none: the runs can be tested, the recipes cannot
            _show_pairs(reporter, comparison)


def _repeated_row(name: str, one: "Difference | None") -> tuple[str, ...]:
    if one is None:
        return name, "none", "", "", "", "", ""

    from vit.study.answer.wording import complement

    gap, seeds = in_points(complement(one.gap, 0.0), ""), str(len(one.seeds))
    if one.margin_of_error is None:
        return name, seeds, gap, "", "", "", ""
    _, *larger = vars(one.margin_of_error).values()
    return name, seeds, gap, p_value(one.p), p_value(one.p_adjusted), *(f"±{100 * half:.2f}" for half in larger)
