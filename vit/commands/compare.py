"""`vit compare RUN RUN...`: differences between trained models on the same test images"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vit.commands.arguments import StrPath, new_file
from vit.commands.command_line import Metavar
from vit.commands.finished_runs import FinishedRun, read_runs
from vit.console import Reporter, interval, p_value, percent
from vit.csv_files import new_table
from vit.errors import ResourceError
from vit.layout import RunLayout

if TYPE_CHECKING:
    from vit.study.findings import Difference, Interval
    from vit.study.paired import McNemar
    from vit.study.repeats import Repeated

SHOWN = 20
_COLUMNS = ("predicted", "probability", "loss")  # of each run in the list of disagreements


@dataclass(frozen=True)
class Comparison:
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


def compare(runs: Annotated[Sequence[StrPath], Metavar("RUN")], *, output: StrPath | None = None) -> Comparison:
    """Compare finished runs on the test images that they share: the first with each of the others.

    Args:
        runs: two or more run folders
        output: new CSV with a row for each image with different labels; null: none

    Returns:
        Accuracies, differences and disagreements.

    Raises:
        VitError: a run is not finished, its files are damaged, or the runs have different test images.

    Example:
        vit compare runs/photos/vit_tiny_patch16_224/20260101-120000 runs/photos/resnet18/20260101-130000
    """
    list_file = None if output is None else new_file(output)
    finished = read_runs(runs)
    comparison, disagreements = _compared(finished)
    reporter = Reporter()
    _show_accuracies(reporter, finished, comparison)
    groups = _repeated(finished)
    if groups:
        _show_repeated(reporter, groups)
    else:
        _show_pairs(reporter, finished, comparison)
    _show_options(reporter, finished)
    _show_disagreements(reporter, finished, disagreements)
    if list_file is not None:
        _write(list_file, finished, disagreements)
        reporter.line(f"\n{len(disagreements):,} rows in {list_file}")
    reporter.next_command(_next(finished, list_file is None and bool(disagreements)))
    return comparison


def _compared(runs: Sequence[FinishedRun]) -> tuple[Comparison, list[int]]:
    """The comparison, and the indices of the images that not all runs give the same label."""
    from vit.study.paired import paired_gap

    first, *others = runs
    labels = zip(*([row.predicted for row in run.rows] for run in runs), strict=True)
    disagreements = [index for index, guesses in enumerate(labels) if len(set(guesses)) > 1]
    comparison = Comparison(
        len(first.rows),
        {run.name: _accuracy(run) for run in runs},
        {other.name: paired_gap(first.correct, other.correct) for other in others},
        [first.rows[index].path for index in disagreements],
    )
    return comparison, disagreements


def _accuracy(run: FinishedRun) -> "Interval":
    from vit.inference.intervals import Metric
    from vit.study.findings import Interval

    accuracy = Metric.fraction(int(run.correct.sum()), len(run.rows))
    return Interval(accuracy.value, accuracy.low, accuracy.high)


def _repeated(runs: Sequence[FinishedRun]) -> "list[Repeated]":
    """Recipes with several seeds; empty where each recipe has one seed."""
    from vit.study.repeats import Run, repeated

    return repeated([Run(run.name, run.network, run.seed, _recipe(run.path), ~run.correct) for run in runs])


def _recipe(run: Path) -> dict[str, Any]:
    """The recipe of a run as plain values; empty where it cannot be read."""
    import yaml

    from vit.training.recipes.values import todays_names

    try:
        found = yaml.safe_load(RunLayout(run).config_path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return todays_names(found) if isinstance(found, dict) else {}


def _show_accuracies(reporter: Reporter, runs: Sequence[FinishedRun], comparison: Comparison) -> None:
    reporter.line(f"{comparison.num_images:,} test images of {runs[0].data}; 95 % intervals")
    rows = []
    for run in runs:
        accuracy, right = comparison.accuracies[run.name], int(run.correct.sum())
        shown = interval(accuracy.value, accuracy.low or 0.0, accuracy.high or 0.0)
        rows.append((run.name, shown, f"{right:,}", f"{len(run.rows) - right:,}"))
    reporter.table(("run", "accuracy", "right", "wrong"), rows)


def _show_pairs(reporter: Reporter, runs: Sequence[FinishedRun], comparison: Comparison) -> None:
    """The first run with each other run, over the test images alone."""
    from vit.study.paired import hochberg, mcnemar

    first, *others = runs
    reporter.line(f"\nAccuracy of {first.name} minus that of each other run, on the same images")
    tests = [mcnemar(first.correct, other.correct) for other in others]
    corrected = hochberg([test.p for test in tests])
    rows = [
        _pair(other.name, comparison.differences[other.name], test, p)
        for other, test, p in zip(others, tests, corrected, strict=True)
    ]
    columns = ("against", "difference in points", "only first right", "only other right", "McNemar's p", "p corrected")
    reporter.table(columns, rows)
    reporter.line(
        "\nThe intervals are about these trained models; another seed gives others, and 'vit study' trains them."
    )
    if len(others) > 1:
        reporter.line(f"The last column is corrected for {len(others)} comparisons (Hochberg); the intervals are not.")


def _pair(name: str, gap: "Interval", test: "McNemar", corrected: float) -> tuple[str, ...]:
    around = "" if gap.low is None or gap.high is None else f" ({100 * gap.low:+.2f} to {100 * gap.high:+.2f})"
    only = (f"{test.only_first:,}", f"{test.only_second:,}")
    return name, f"{100 * gap.value:+.2f}{around}", *only, p_value(test.p), p_value(corrected)


def _show_repeated(reporter: Reporter, groups: "Sequence[Repeated]") -> None:
    """Recipes over their seeds and the test images."""
    from vit.study.repeats import differences

    reporter.line("\nRuns that differ in their seed alone, together; intervals are about other seeds and test images")
    reporter.table(("network", "seeds", "mean accuracy"), [_mean_accuracy(group) for group in groups])
    if len(groups) > 1:
        reporter.line(f"\nAccuracy of {groups[0].name} minus that of the others, paired by seed and test image")
        columns = ("against", "common seeds", "difference in points", "p", "p corrected", "2x seeds", "2x test images")
        reporter.table(columns, [_repeated_row(name, one) for name, one in differences(groups)])


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
    if one.gap.low is None or one.gap.high is None or one.reach is None:
        return name, f"{len(one.seeds)}", f"{gap:+.2f}", "", "", "", ""
    around = f"{gap:+.2f} ({-100 * one.gap.high:+.2f} to {-100 * one.gap.low:+.2f})"
    more = (f"±{100 * half:.2f}" for half in (one.reach.twice_the_seeds, one.reach.twice_the_test_images))
    return name, f"{len(one.seeds)}", around, p_value(one.p), p_value(one.p_adjusted), *more


def _show_options(reporter: Reporter, runs: Sequence[FinishedRun]) -> None:
    """The options that differ between the recipes of the runs."""
    recipes = [_flat(_recipe(run.path)) for run in runs]
    names = sorted({name for recipe in recipes for name in recipe})
    rows = [(name, *(recipe.get(name, "") for recipe in recipes)) for name in names]
    different = [row for row in rows if len(set(row[1:])) > 1]
    if different:
        reporter.line("\nOptions that differ")
        reporter.table(("option", *(run.name for run in runs)), different)


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Nested values by their dotted names, as text."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": f"{value}"}
    return flat


def _show_disagreements(reporter: Reporter, runs: Sequence[FinishedRun], disagreements: Sequence[int]) -> None:
    """The images with the largest differences between the losses of the runs."""

    def spread(index: int) -> float:
        losses = [run.rows[index].loss for run in runs]
        return max(losses) - min(losses)

    if not disagreements:
        reporter.line("\nThe runs give every image the same label.")
        return
    shown = sorted(disagreements, key=spread, reverse=True)[:SHOWN]
    most = f", the {SHOWN} with the largest difference in loss" * (len(shown) < len(disagreements))
    reporter.line(f"\n{len(disagreements):,} images have different labels{most}")
    rows = []
    for index in shown:
        guesses = (f"{run.rows[index].predicted} ({run.rows[index].probability:.0%})" for run in runs)
        rows.append((*runs[0].rows[index][:2], *guesses))
    reporter.table(("image", "true", *(run.name for run in runs)), rows)


def _write(path: Path, runs: Sequence[FinishedRun], disagreements: Sequence[int]) -> None:
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


def _next(runs: Sequence[FinishedRun], unwritten: bool) -> str:
    if unwritten:
        return f"vit compare {' '.join(shlex.quote(str(run.path)) for run in runs)} --output disagreements.csv"
    best = max(runs, key=lambda run: int(run.correct.sum()))
    return f"vit predict {shlex.quote(str(best.path))} FOLDER_OF_IMAGES"
