"""The progress of a training on the terminal: steps and validations, when it ends, and its result"""

import math
import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from vit.console import GrowingTable, ProgressReport, Reporter, count_of, duration, interval, percent
from vit.errors import some_of
from vit.training.observers import Listener
from vit.training.recipes.recipe import Recipe

if TYPE_CHECKING:
    from vit.checkpoints.result import RunResult
    from vit.checkpoints.run import RunDirectory
    from vit.training.planning.plan import Plan

MAIN = {"acc1": "acc", "map": "mAP"}  # the metric of a validation that is always shown, and its word
MULTILABEL = {"map": "mAP", "micro_f1": "micro F1", "macro_f1": "macro F1", "exact_match": "exact match"}
LONG_WAIT = 0.25  # fraction of the steps' time; less of it is not worth advice
UNEQUAL = 0.005  # between accuracy and balanced accuracy: a smaller difference is not worth a line
MEASURED_SECONDS = 10.0  # of steps, where the first epoch is longer
_SKIPPED, _LEAST = 3, 5  # first steps, in which memory is allocated; steps of a measurement
FORWARD = 1 / 3  # of the time of a training step: the backward pass takes twice that of the forward pass
_DAY = 86_400.0


class TrainProgress(Listener):
    """A listener that shows steps, validations and notices.

    Args:
        name: word for what precedes a validation, such as "epoch".
        validations: number of validations of the training.
        metric: metric that best.ckpt follows.
    """

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
        values = {
            "train loss": f"{row['train/loss']:.3f}",
            "val loss": f"{row['val/loss']:.3f}",
            f"val {MAIN[shown]}": percent(row[f"val/{shown}"]),
        }
        if self.followed:
            values[self.followed] = percent(row[f"val/{self.followed}"])
        self.add(int(row["epoch"]) + 1, values, row)

    def add(
        self, number: int, values: Mapping[str, str], row: Mapping[str, float], log_line: str | None = None
    ) -> None:
        """Add a row to the table. A terminal also shows speed and time.

        Args:
            number: number of the epoch, or of whatever precedes a validation.
            values: {column: value}.
            row: row of metrics.csv.
            log_line: the line in a log; None: all names and values.
        """
        start = {self.name: f"{number}/{self.validations}"}
        if self.table is None:
            widths = {self.name: 2 * len(str(self.validations)) + 1, **dict.fromkeys(values, 8)}
            self.table = GrowingTable(self.reporter, {**widths, "images/s": 8, "time": 11})
        speed = row.get("train/images_per_second", math.nan)
        self.table.row(
            {
                **start,
                **values,
                "images/s": "" if math.isnan(speed) else f"{speed:,.0f}",
                "time": duration(row["seconds"]),
            },
            log_line or "  ".join(f"{name} {value}" for name, value in {**start, **values}.items()),
        )

    def notice(self, text: str) -> None:
        """Show a notice."""
        self.reporter.notice(text)

    def close(self) -> None:
        """Remove the progress bar."""
        self.progress.close()


class Estimate(Listener):
    """A listener that says when the training will end.

    Steps are measured for ten seconds. Where the first epoch ends earlier, its validation is measured, too. Otherwise a
    validation counts as the forward passes of its images. Images of files in memory are decoded once, which takes as
    long per image as for the training images, before the first step.

    Attributes:
        seconds: estimated duration from the first network to the end of the test; None: there is no estimate yet.
    """

    def __init__(self, plan: "Plan", reporter: Reporter) -> None:
        self.plan, self.reporter = plan, reporter
        self.seconds: float | None = None
        self._restart()

    def replanned(self, recipe: Recipe) -> None:
        """Measure again, because the training starts again."""
        self._restart()

    def _restart(self) -> None:
        self._began = time.perf_counter()
        self._first = self._counted = 0  # first step of this process, and the last one before the measurement
        self._first_at = self._counted_at = self._last_at = 0.0
        self._validated_at: float | None = None  # end of the last step before a validation

    def row(self, row: dict[str, float], step: int) -> None:
        """Note that a validation has ended."""
        if self._first and any(name.startswith("val/") for name in row):
            self._validated_at = self._last_at

    def step(self, done: int, total: int, loss: float, images_per_second: float) -> None:
        """Measure a step, and say when the training will end once that is known."""
        now = time.perf_counter()
        if self.seconds is None:
            if not self._first:
                self._first, self._first_at = done, now
            if self._validated_at is not None:
                self._say(done, total, self._step_seconds(self._validated_at, done - 1), now)
            elif done - self._first < _SKIPPED:
                self._counted, self._counted_at = done, now
            elif done - self._counted >= _LEAST and now - self._counted_at >= MEASURED_SECONDS:
                self._say(done, total, self._step_seconds(now, done), now)
        self._last_at = now

    def _step_seconds(self, until: float, done: int) -> float:
        """Seconds of a step, of those after the first few, or of all of a short epoch."""
        if done > self._counted:
            return (until - self._counted_at) / (done - self._counted)
        return (until - self._first_at) / max(1, done - self._first)

    def _say(self, done: int, total: int, step: float, now: float) -> None:
        plan = self.plan
        images = {split: len(samples) for split, samples in plan.source.splits.items()}
        decoding = self._first_at - self._began if plan.source.splits["train"].arrays is None else 0.0
        decoding /= images["train"]  # for each image
        scoring = FORWARD * step / plan.batch_size
        num_validation = images.get("validation", 0)
        validation = scoring * num_validation
        others = sum(images.values()) - images["train"] - num_validation
        left = decoding * others
        if self._validated_at is None:
            left += decoding * num_validation
        else:
            validation = max(validation, now - step - self._validated_at - decoding * num_validation)
        left += (total - done) * step + (total - done) / plan.steps_per_round * validation
        left += validation + scoring * others
        self.seconds = now - self._began + left
        ends = time.strftime("%H:%M" if left < _DAY else "%a %H:%M", time.localtime(time.time() + left))
        most = "at most " * (plan.recipe.optim.patience is not None)
        self.reporter.notice(f"{most}about {duration(self.seconds)} for {self._what(total)}, ends at {ends}")

    def _what(self, total: int) -> str:
        """The part of the training that this process carries out."""
        plan, name = self.plan, self.plan.validation_name
        if self._first > plan.steps_per_round:
            return f"the last {total - self._first + 1:,} steps"
        return count_of(plan.rounds, "epoch") if name == "epoch" else count_of(total, "step")


def show_result(reporter: Reporter, run: "RunDirectory", result: "RunResult") -> None:
    """Show the result of a finished run, its files, and the next useful command."""
    reporter.line(
        f"\nBest {result.validation_name} {result.best_epoch + 1}; {duration(result.seconds)} in all, "
        f"{result.speed_text}"
    )
    reporter.facts(
        [
            *_metrics(result),
            *_troubles(result),
            *_notes(result),
            ("report", str(run.report_path)),
            ("checkpoint", str(run.best_path)),
        ]
    )
    reporter.next_command(f"vit predict {shlex.quote(str(run.path))} FOLDER_OF_IMAGES --gallery")


def _metrics(result: "RunResult") -> list[tuple[str, str]]:
    """Accuracies and calibration error."""
    from vit.inference.scores.image_groups import count_text

    if result.multilabel is not None:
        return _label_metrics(result)
    facts = [("validation accuracy", percent(result.validation["val/acc1"]))] if result.validation else []
    if result.metrics:
        facts.append(
            (
                "test accuracy",
                f"{interval(**result.metrics['acc1'])}, {count_text(result.num_images['test'], result.test_groups)}, "
                f"95 % interval{'; ' * bool(result.tested_text)}{result.tested_text}",
            )
        )
        balanced = result.metrics["balanced_accuracy"]
        if abs(balanced["value"] - result.metrics["acc1"]["value"]) > UNEQUAL:
            facts.append(
                (
                    "test balanced accuracy",
                    f"{interval(**balanced)}: each {'tested ' * bool(result.tested_text)}class counts the same",
                )
            )
        before, after = (percent(metrics["ece"]["value"]) for metrics in (result.uncalibrated, result.metrics))
        chance = percent(result.metrics["ece"]["chance"])
        scaled = f"; {before} without temperature {result.temperature:.3f}" if result.temperature != 1 else ""
        facts.append(("test calibration error", f"{after} ({chance} by chance, were it calibrated){scaled}"))
    return facts


def _label_metrics(result: "RunResult") -> list[tuple[str, str]]:
    """Metrics of several labels for an image."""
    from vit.inference.scores.image_groups import count_text

    facts = [("validation mAP", percent(result.validation["val/map"]))] if result.validation else []
    for name, words in MULTILABEL.items():
        if name in result.metrics:
            facts.append((f"test {words}", interval(**result.metrics[name])))
    if result.metrics:
        before, after = (percent(metrics["ece"]["value"]) for metrics in (result.uncalibrated, result.metrics))
        chance = percent(result.metrics["ece"]["chance"])
        scaled = f"; {before} without temperatures" if before != after else ""
        facts.append(("test calibration error", f"{after} ({chance} by chance, were it calibrated){scaled}"))
        images = count_text(result.num_images["test"], result.test_groups, "test image")
        facts[-1:-1] = [("", f"{images}, 95 % intervals{'; ' * bool(result.tested_text)}{result.tested_text}")]
    return facts


def _notes(result: "RunResult") -> list[tuple[str, str]]:
    """Notes where the best checkpoint is not the most accurate one, and where it was not tested."""
    from vit.report.run.run_summary import last_is_better, without_test

    return [("note", sentence) for sentence in [*last_is_better(result), *without_test(result)]]


def _troubles(result: "RunResult") -> list[tuple[str, str]]:
    """Steps that waited or were skipped, and unreadable images."""
    facts = []
    if result.image_wait is not None and result.image_wait >= LONG_WAIT:
        facts.append(
            ("images", "more --data.num_workers, --data.cache memory or smaller image files may give them sooner")
        )
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
