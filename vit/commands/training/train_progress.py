"""The progress of a training on the terminal: steps and validations, and its result"""

import math
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import shell_command
from vit.commands.cli.recipe_options import read_recipe
from vit.console import GrowingTable, ProgressReport, Reporter, count_of, duration, interval, percent
from vit.errors import some_of
from vit.training.observers import Listener

if TYPE_CHECKING:
    from vit.checkpoints.result import RunResult
    from vit.checkpoints.run import RunDirectory

MAIN = {"acc1": "acc", "map": "mAP"}  # the metric of a validation that is always shown, and its word
MULTILABEL = {"map": "mAP", "micro_f1": "micro F1", "macro_f1": "macro F1", "exact_match": "exact match"}
LONG_WAIT = 0.25  # fraction of the steps' time; less of it is not worth advice
UNEQUAL = 0.005  # between accuracy and balanced accuracy: a smaller difference is not worth a line


class TrainProgress(Listener):
    """A listener that shows steps, validations and notices. What precedes a validation has a name, such as "epoch"."""

    def __init__(self, reporter: Reporter, name: str, validations: int, metric: str = "loss") -> None:
        self.reporter, self.name, self.validations = reporter, name, validations
        self.followed = "" if metric in ("loss", "last", *MAIN) else metric
        self.progress = ProgressReport(reporter, "step")
        self.table: GrowingTable | None = None  # whose columns the first row decides

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        """Show that an optimizer step ended."""
        self.progress.update(done, total, f"recent loss {loss:.3f}, {images_per_second:,.0f} images/s")

    def row(self, row: dict[str, float], step: int) -> None:
        """Show a row of metrics.csv that has validation metrics."""
        shown = next((name for name in MAIN if f"val/{name}" in row), None)
        if shown is None:
            return
        values = {"train loss": f"{row['train/loss']:.3f}", "val loss": f"{row['val/loss']:.3f}"}
        values[f"val {MAIN[shown]}"] = percent(row[f"val/{shown}"])
        if self.followed:
            values[self.followed] = percent(row[f"val/{self.followed}"])
        self.add(int(row["epoch"]) + 1, values, row)

    def add(
        self, number: int, values: Mapping[str, str], row: Mapping[str, float], log_line: str | None = None
    ) -> None:
        """Add a row to the table, with the number of what precedes a validation; a log has the line, or all values."""
        values = {self.name: f"{number}/{self.validations}", **values}
        if self.table is None:
            widths = dict.fromkeys(values, 8) | {self.name: 2 * len(str(self.validations)) + 1}
            self.table = GrowingTable(self.reporter, {**widths, "images/s": 8, "time": 11})
        log_line = log_line or "  ".join(f"{name} {value}" for name, value in values.items())
        speed = row.get("train/images_per_second", math.nan)
        shown_speed = "" if math.isnan(speed) else f"{speed:,.0f}"
        self.table.row({**values, "images/s": shown_speed, "time": duration(row["seconds"])}, log_line)

    def notice(self, text: str) -> None:
        """Show a notice."""
        self.reporter.notice(text)

    def close(self) -> None:
        """Remove the progress bar."""
        self.progress.close()


def show_result(reporter: Reporter, run: "RunDirectory", result: "RunResult") -> None:
    """Show the result of a finished run, its files, and the next useful command."""
    from vit.report.run.run_common import about_choice, guessing

    best = f"Best {result.validation_name} {result.best_epoch + 1}"
    reporter.line(f"\n{best}; {duration(result.seconds)} in all, {result.speed_text}")
    reporter.facts(
        [
            *(_class_metrics(result) if result.multilabel is None else _label_metrics(result)),
            *troubles(result),
            *(("WARNING", sentence) for sentence in guessing(result)),
            *(("note", sentence) for sentence in about_choice(result)),
            ("report", str(run.report_path)),
            ("checkpoint", str(run.best_path)),
        ]
    )
    reporter.next_command(next_of(run, result))


def next_of(run: "RunDirectory", result: "RunResult") -> str:
    """The next useful command: predictions, or a check of the images where the network may only guess."""
    from vit.report.run.run_common import guessing

    if guessing(result):
        data = read_recipe(run.config_path).data
        return shell_command("vit", "data", "check", data.source_now, options=data.places)
    return f"vit predict {shlex.quote(str(run.path))} FOLDER_OF_IMAGES --gallery"


def _class_metrics(result: "RunResult") -> list[tuple[str, str]]:
    facts = [("validation accuracy", percent(result.validation["val/acc1"]))] if result.validation else []
    if result.metrics:
        accuracy, balanced = result.metrics["acc1"], result.metrics["balanced_accuracy"]
        facts.append(("test accuracy", f"{interval(**accuracy)}, {_tested(result, 'image', '95 % interval')}"))
        if abs(balanced["value"] - accuracy["value"]) > UNEQUAL:
            counts = f"each {'tested ' * bool(result.tested_text)}class counts the same"
            facts.append(("test balanced accuracy", f"{interval(**balanced)}: {counts}"))
        facts.append(_calibration(result))
    return facts


def _label_metrics(result: "RunResult") -> list[tuple[str, str]]:
    facts = [("validation mAP", percent(result.validation["val/map"]))] if result.validation else []
    names = {name: words for name, words in MULTILABEL.items() if name in result.metrics}
    facts += [(f"test {words}", interval(**result.metrics[name])) for name, words in names.items()]
    if result.metrics:
        facts += [("", _tested(result, "test image", "95 % intervals")), _calibration(result)]
    return facts


def _tested(result: "RunResult", thing: str, intervals: str) -> str:
    from vit.inference.scores.image_groups import count_text

    images = count_text(result.num_images["test"], result.test_groups, thing)
    return f"{images}, {intervals}{'; ' * bool(result.tested_text)}{result.tested_text}"


def _calibration(result: "RunResult") -> tuple[str, str]:
    """The calibration error, and that without the temperatures which calibration found."""
    before, after = (percent(metrics["ece"]["value"]) for metrics in (result.uncalibrated, result.metrics))
    scaled = f"; {before} without temperatures" * (before != after)
    if result.multilabel is None:
        scaled = f"; {before} without temperature {result.temperature:.3f}" * (result.temperature != 1)
    chance = percent(result.metrics["ece"]["chance"])
    return "test calibration error", f"{after} ({chance} by chance, were it calibrated){scaled}"


def troubles(result: "RunResult") -> list[tuple[str, str]]:
    """What went wrong in a training, and why it waited: names and values for people."""
    facts = []
    if result.image_wait is not None and result.image_wait >= LONG_WAIT:
        advice = "more --data.num_workers, --data.cache memory or smaller image files may give them sooner"
        facts.append(("images", advice))
    if result.skipped_steps:
        why = "their loss or gradient was not a number"
        facts.append(("steps left out", f"{result.skipped_steps:,} of {result.steps:,}: {why}"))
    if result.unreadable_images:
        what = "training images; others stood in for them ('vit data check' lists all)"
        facts.append(("unreadable", f"{result.unreadable_images:,} {what}"))
    for split, images in result.left_out.items():
        some = some_of((f"{path}: {reason}" for path, reason in images.items()), separator="; ")
        facts.append((f"{split} left out", f"{count_of(len(images), 'image')} that cannot be read: {some}"))
    return facts
