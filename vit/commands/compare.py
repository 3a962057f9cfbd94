"""`vit compare RUN RUN...`: which of some trained models is better on the images that all of them were tested on."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vit.commands.arguments import Parser, new_file, parse
from vit.console import Reporter, interval, p_value
from vit.csv_files import new_table
from vit.errors import DataError, ResourceError, UsageError
from vit.inference.scored_rows import ScoredRow, read_scored

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vit.checkpoints.result import RunResult
    from vit.study.findings import Difference

SHOWN = 20
_SHOWN_COLUMNS = ("predicted", "probability", "loss")


def compare(arguments: Sequence[str]) -> int:
    """Show accuracies, the difference of the first run to each other one, and the images where runs disagree."""
    parser = Parser(
        "compare",
        "Compare finished runs on the test images that they share: the first with each of the others.",
        "vit compare runs/photos/vit_tiny_patch16_224/20260101-120000 runs/photos/resnet18/20260101-130000",
    )
    parser.add_argument("runs", metavar="RUN", type=str, nargs="+", help="two or more run folders")
    parser.add_argument(
        "--output", type=str | None, default=None, help="a CSV for every image where runs disagree; null: none"
    )
    given = parse(parser, arguments)
    output = None if given.output is None else new_file(given.output)
    runs = _named([_read(Path(name).expanduser()) for name in _distinct(given.runs)])
    _check_same_images(runs)
    reporter = Reporter()
    first, *others = runs
    reporter.line(f"{len(first.rows):,} test images of {first.result.data}; 95 % intervals")
    reporter.table(("run", "accuracy", "right", "wrong"), [_accuracy(run) for run in runs])
    if not _show_repeated(reporter, runs):
        _show_pairs(reporter, first, others)
    disagreements = _disagreements(runs)
    _show(reporter, runs, disagreements)
    if output is not None:
        _write(output, runs, disagreements)
        reporter.line(f"\n{len(disagreements):,} rows in {output}")
    reporter.next_command(_next(runs, output is None and bool(disagreements)))
    return 0


def _show_pairs(reporter: Reporter, first: "_Tested", others: Sequence["_Tested"]) -> None:
    """Trained models one by one: the first with each other one, over the test images alone."""
    reporter.line(f"\nAccuracy of {first.name} minus that of each other run, on the same images")
    columns = ("against", "difference in points", "only first right", "only other right", "McNemar's p")
    reporter.table(columns, [_difference(first, other) for other in others])
    reporter.line(
        "\nThe intervals are about these trained models; another seed gives others, and 'vit study' trains them."
    )
    if len(others) > 1:
        reporter.line(f"The p are not corrected for {len(others)} comparisons.")


def _show_repeated(reporter: Reporter, runs: Sequence["_Tested"]) -> bool:
    """Recipes that were trained with several seeds, over seeds and test images; False where there is none."""
    from vit.study.repeats import Run, differences, repeated

    groups = repeated(
        [Run(run.name, run.result.spec.name, run.result.seed, _config(run.path), ~run.correct) for run in runs]
    )
    if not groups:
        return False
    reporter.line("\nRuns that differ in their seed alone, together; intervals are about other seeds and test images")
    rows = []
    for group in groups:
        error, seeds = group.error, len(group.wrong)
        right = {"value": 1 - error.value, "low": 1 - (error.high or 0.0), "high": 1 - (error.low or 0.0)}
        shown = interval(right) if error.low is not None else f"{100 * (1 - error.value):.2f} %"
        rows.append((group.name, f"{seeds}", shown))
    reporter.table(("network", "seeds", "mean accuracy"), rows)
    if len(groups) == 1:
        return True
    reporter.line(f"\nAccuracy of {groups[0].name} minus that of the others, paired by seed and test image")
    columns = ("against", "common seeds", "difference in points", "p", "p corrected", "2x seeds", "2x test images")
    reporter.table(columns, [_repeated_row(name, one) for name, one in differences(groups)])
    return True


def _repeated_row(name: str, one: "Difference | None") -> tuple[str, ...]:
    if one is None:
        return name, "none", "", "", "", "", ""
    gap = -100 * one.gap.value  # of accuracies, not of errors
    if one.gap.low is None or one.gap.high is None or one.reach is None:
        return name, f"{len(one.seeds)}", f"{gap:+.2f}", "", "", "", ""
    around = f"{gap:+.2f} ({-100 * one.gap.high:+.2f} to {-100 * one.gap.low:+.2f})"
    more = (f"±{100 * half:.2f}" for half in (one.reach.twice_the_seeds, one.reach.twice_the_test_images))
    return name, f"{len(one.seeds)}", around, p_value(one.p), p_value(one.p_adjusted), *more


def _config(run: Path) -> dict[str, Any]:
    """The recipe of a run as plain values; empty where it cannot be read."""
    import yaml

    try:
        found = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class _Tested:
    """A finished run and its test images, one row each, in the order of the test images."""

    path: Path
    name: str
    result: "RunResult"
    rows: list[ScoredRow]

    @property
    def correct(self) -> "npt.NDArray[np.bool_]":
        """(T,) whether each image is right."""
        import numpy as np

        return np.array([row.label == row.predicted for row in self.rows], dtype=bool)


def _distinct(names: Sequence[str]) -> Sequence[str]:
    """The names as they are; UsageError for fewer than two, or for one folder given twice."""
    if len(names) < 2:
        raise UsageError("one run cannot be compared", "give two or more run folders")
    seen: dict[Path, str] = {}
    for name in names:
        place = Path(name).expanduser().resolve()
        if place in seen:
            raise UsageError(f"{name} is given twice" + f", as {seen[place]}" * (seen[place] != name), "give it once")
        seen[place] = name
    return names


def _read(path: Path) -> _Tested:
    """A finished run.

    Raises:
        UsageError: the folder is no run, has not finished, or has no test images.
        DataError: its files are not as a run leaves them.
    """
    from vit.checkpoints.run import RunDirectory

    run = RunDirectory.open(path)
    result = run.read_result()
    if "test" not in result.fingerprints:
        raise UsageError(f"{path} has no test images", "train with --data.test above 0")
    file = run.predictions / "test.csv"
    if not file.is_file():
        raise DataError(f"{path} has no predictions/test.csv", "restore the file, or train again")
    return _Tested(path, result.spec.name, result, read_scored(file, result.num_images["test"]))


def _named(runs: list[_Tested]) -> list[_Tested]:
    """The runs with the shortest names that tell them apart: network, network/folder, or the path."""
    from dataclasses import replace

    for names in (
        [run.name for run in runs],
        [f"{run.name}/{run.path.resolve().name}" for run in runs],
        [str(run.path) for run in runs],
    ):
        if len(set(names)) == len(runs):
            break
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def _check_same_images(runs: Sequence[_Tested]) -> None:
    """Raise DataError unless all runs have the same test images with the same labels in the same order."""
    first, *others = runs
    for other in others:
        known = [run.result.fingerprints["test"] for run in (first, other)]
        if known[0] != known[1]:
            raise DataError(
                f"{first.path} and {other.path} have different test images: {len(first.rows):,} of "
                f"{first.result.data} ({known[0]}), {len(other.rows):,} of {other.result.data} ({known[1]})",
                "compare runs with the same data and data.split_seed, or measure both with 'vit evaluate RUN DATA'",
            )
        for mine, theirs in zip(first.rows, other.rows, strict=True):
            if mine[:2] != theirs[:2]:
                raise DataError(
                    f"predictions/test.csv of {first.path} and {other.path} differ in their images: "
                    f"{mine.path} ({mine.label}) beside {theirs.path} ({theirs.label})",
                    "one of them was changed; restore it",
                )


def _accuracy(run: _Tested) -> tuple[str, str, str, str]:
    from scipy.stats import binomtest

    right, count = int(run.correct.sum()), len(run.rows)
    within = binomtest(right, count).proportion_ci(0.95, "wilson")
    shown = interval({"value": right / count, "low": float(within.low), "high": float(within.high)})
    return run.name, shown, f"{right:,}", f"{count - right:,}"


def _difference(first: _Tested, other: _Tested) -> tuple[str, str, str, str, str]:
    from vit.study.paired import mcnemar, paired_gap

    gap = paired_gap(first.correct, other.correct)
    test = mcnemar(first.correct, other.correct)
    around = "" if gap.low is None or gap.high is None else f" ({100 * gap.low:+.2f} to {100 * gap.high:+.2f})"
    only = (f"{test.only_first:,}", f"{test.only_second:,}")
    return other.name, f"{100 * gap.value:+.2f}{around}", *only, p_value(test.p)


def _disagreements(runs: Sequence[_Tested]) -> list[int]:
    """Indices of the images that not all runs give the same label."""
    labels = zip(*([row.predicted for row in run.rows] for run in runs), strict=True)
    return [index for index, guesses in enumerate(labels) if len(set(guesses)) > 1]


def _show(reporter: Reporter, runs: Sequence[_Tested], disagreements: Sequence[int]) -> None:
    """The images on which the runs' losses lie furthest apart."""

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


def _write(path: Path, runs: Sequence[_Tested], disagreements: Sequence[int]) -> None:
    """A row for each image, in the order of the test images; names as in predictions/test.csv."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = ("path", "label", *(f"{column} by {run.name}" for run in runs for column in _SHOWN_COLUMNS))
        with new_table(path, columns, mode="x") as table:
            for index in disagreements:
                own = (getattr(run.rows[index], column) for run in runs for column in _SHOWN_COLUMNS)
                table.row((*runs[0].rows[index][:2], *own))
    except OSError as error:
        raise ResourceError(f"cannot write {path}: {error.strerror}", "choose another --output") from error


def _next(runs: Sequence[_Tested], unwritten: bool) -> str:
    if unwritten:
        return f"vit compare {' '.join(shlex.quote(str(run.path)) for run in runs)} --output disagreements.csv"
    best = max(runs, key=lambda run: int(run.correct.sum()))
    return f"vit predict {shlex.quote(str(best.path))} FOLDER_OF_IMAGES"
