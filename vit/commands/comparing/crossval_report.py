"""What a cross-validation found, on the terminal and as a page"""

from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import shell_command
from vit.commands.cli.recipe_options import read_recipe
from vit.console import Reporter, interval
from vit.layout import RunLayout

if TYPE_CHECKING:
    from vit.study.findings import Interval


def report_crossval(reporter: Reporter, path: Path) -> None:
    """Collect the folds, write predictions.csv, summary.json and report.html, and show accuracy and paths.

    Raises:
        UsageError: the folder is not that of a cross-validation.
        BadInputsError: a fold is not finished.
    """
    from vit.checkpoints.locking import alone
    from vit.report.studies.crossval_page import write_crossval_page
    from vit.study.crossval import CrossvalDirectory

    folder = CrossvalDirectory.open(path)
    with alone(folder.lock_path):
        found = folder.collect()
        write_crossval_page(found, folder.report_path)
    accuracy = found.accuracy
    right, total = int(found.predictions.correct.sum()), len(found.predictions.labels)
    reporter.line(f"\n{right:,} of {total:,} images are predicted right by {found.judges}")
    for sentence in found.seen_before:
        reporter.line(f"WARNING: {sentence}")
    if found.left_out:
        reporter.line(found.left_out_text)
    reporter.facts(
        [
            ("accuracy", f"{_text(accuracy.accuracy)}; the interval respects {_units(accuracy.num_groups)}"),
            ("naive", f"{_text(accuracy.naive)}; it takes all images for independent, and is often too narrow"),
        ]
    )
    rows = zip(accuracy.num_images, accuracy.folds, found.runs, strict=True)
    reporter.table(
        ("fold", "images", "accuracy", "run"),
        ((number, f"{count:,}", _text(one), run.relative_to(path)) for number, (count, one, run) in enumerate(rows, 1)),
    )
    if found.last_weights_warning:
        reporter.line(f"\n{found.last_weights_warning}")
    reporter.line()
    reporter.facts([("report", str(folder.report_path)), ("predictions", str(folder.predictions_path))])
    data = read_recipe(RunLayout(found.runs[0]).config_path).data
    options = {
        "labels": path,
        "root": data.root,
        "groups": data.groups,
        "image_column": data.image_column,
        "label_column": data.label_column,
    }
    reporter.next_command(shell_command("vit", "data", "check", data.source, options=options))


def _units(num_groups: int | None) -> str:
    return "the folds" if num_groups is None else f"the folds and {num_groups:,} groups"


def _text(accuracy: "Interval") -> str:
    assert accuracy.low is not None
    assert accuracy.high is not None
    return interval(accuracy.value, accuracy.low, accuracy.high)
