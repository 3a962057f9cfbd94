"""Counts of predictions and what `vit predict` shows of them"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vit.console import Reporter, count_of, percent
from vit.errors import BadInputsError

if TYPE_CHECKING:
    from vit.inference.prediction import Prediction
    from vit.tasks.task import Task

DECIDED = ("ok", "unsure", "novel")  # statuses of images that could be read
SHOWN_BAD = 10
SHOWN_FILES = 10  # more files are counted by label
SHOWN_LABELS = 20


@dataclass(frozen=True)
class PredictionSummary:
    """Files and counts of `vit.predict`. Of several processes, the first one has the counts, and others have zeros."""

    output: Path  # file with one row for each predicted file
    page: Path | None  # gallery; None where none was asked for
    num_files: int  # number of rows
    num_unlabeled: int  # number of files that could not be read
    num_unsure: int  # number of images without a label, because its probability is too low
    label_counts: dict[str, int]  # {label: number of files}; where an image may have several, they add up to more
    # number of images that are unlike the training images, with or without a label; None where the model cannot tell
    num_novel: int | None = None


@dataclass
class PredictionTally:
    """Counts and examples, gathered while the rows go by."""

    task: "Task"
    # files of several frames or pages, of which the first was read; the predictor gathers them
    first_frames: set[str] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    first: "list[Prediction]" = field(default_factory=list)
    bad: "list[Prediction]" = field(default_factory=list)
    groups: Counter[str] = field(default_factory=Counter)  # answers of images without a label
    judged: int = 0  # images with a novelty
    novel: int = 0

    def add(self, row: "Prediction") -> None:
        """Count a row."""
        self.statuses[row.status] += 1
        self.judged += row.novelty is not None
        self.novel += row.is_unlike
        if len(self.first) < SHOWN_FILES:
            self.first.append(row)
        if row.status == "ok":
            self.labels.update((row.label,) if self.task.is_exclusive else row.labels)
        elif row.answer:
            self.groups[row.answer] += 1
        elif row.status not in DECIDED and len(self.bad) < SHOWN_BAD:
            self.bad.append(row)

    def summary(self, output: Path, page: Path | None = None) -> PredictionSummary:
        """The counts, with the files of the rows and of the page."""
        novel = self.novel if self.judged else None
        return PredictionSummary(output, page, *count_statuses(self.statuses), dict(self.labels), novel)


def count_statuses(statuses: Mapping[str, int]) -> tuple[int, int, int]:
    """The numbers of files, of files that could not be read, and of images without a label, by {status: number}."""
    unlabeled = sum(count for status, count in statuses.items() if status not in DECIDED)
    return sum(statuses.values()), unlabeled, statuses.get("unsure", 0)


def check_labeled(summary: PredictionSummary, fail_on_bad: bool) -> None:
    """Raise BadInputsError where no file has a label, or some have none and that is an error."""
    if summary.num_files and (summary.num_unlabeled if fail_on_bad else summary.num_unlabeled == summary.num_files):
        raise BadInputsError(f"{summary.num_unlabeled} files have no label", f"see the rows in {summary.output}")


def _show_files(reporter: Reporter, tally: PredictionTally) -> None:
    """The answer for each of a few files."""
    if not tally.task.is_exclusive:
        columns: tuple[str, ...] = ("file", "labels")
        rows: list[tuple[str, ...]] = [(row.path, _labels_text(row)) for row in tally.first if row.status == "ok"]
    else:
        count = 4 if any(row.labels for row in tally.first) else 3
        columns = ("file", "label", "probability", "set")[:count]
        rows = [
            (row.path, row.label or row.status, percent(row.probability), " | ".join(row.labels))[:count]
            for row in tally.first
            if row.probability is not None
        ]
    if rows:
        reporter.table(columns, rows)


def _labels_text(row: "Prediction") -> str:
    """The labels of an image with their probabilities; without one, the label that is nearest to it."""
    found = dict(row.top)
    if row.labels:
        return ", ".join(f"{name} ({percent(found[name])})" for name in row.labels)
    name, probability = row.top[0]
    return f"none (most probable: {name}, {percent(probability)})"


def show_predictions(reporter: Reporter, summary: PredictionSummary, tally: PredictionTally) -> None:
    """The labels, or how many files have each, and the files that could not be read."""
    if summary.num_files > SHOWN_FILES:
        reporter.table(("label", "files"), tally.labels.most_common(SHOWN_LABELS))
    else:
        _show_files(reporter, tally)
    if len(tally.labels) > SHOWN_LABELS:
        reporter.line(f"... and {len(tally.labels) - SHOWN_LABELS} more labels")
    if summary.num_unsure:
        reporter.line(f"unsure: {summary.num_unsure:,} of {summary.num_files:,} images have no label")
    if tally.groups:
        shown = ", ".join(f"{name} ({count:,})" for name, count in tally.groups.most_common(SHOWN_LABELS))
        reporter.line(f"{tally.groups.total():,} of them have a group of classes as answer: {shown}")
    if summary.num_novel is not None:
        from vit.checkpoints.novelty import UNLIKE  # imports torch

        rejected = f", {tally.statuses['novel']:,} have no label" if tally.statuses["novel"] else ""
        reporter.line(
            f"unlike the training images: {summary.num_novel:,} of {tally.judged:,} images (novelty of {UNLIKE} or "
            f"more; 1 in 20 is usual){rejected}"
        )
    if summary.num_unlabeled:
        bad = (f"{count:,} {status}" for status, count in tally.statuses.items() if status not in DECIDED)
        total, without = summary.num_files, summary.num_unlabeled
        reporter.notice(f"\nWARNING: {without:,} of {total:,} files have no label: {', '.join(bad)}")
        for row in tally.bad:
            reporter.notice(f"  {row.path}: {row.error}")
        if without > len(tally.bad):
            reporter.notice("  ...")
    if tally.first_frames:
        several = f"{count_of(len(tally.first_frames), 'file')} with several frames or pages"
        reporter.notice(f"\nWARNING: {several}, such as {min(tally.first_frames)}: only the first was read")
    page = f", page in {summary.page}" if summary.page else ""
    reporter.line(f"\n{count_of(summary.num_files, 'row')} in {summary.output}{page}")
