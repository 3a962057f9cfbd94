"""The rows of `vit predict` as they come: their counts on the terminal, and their files sorted by class"""

import errno
import shlex
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vit.atomic_files import name_new_file, partial_name
from vit.commands.cli.arguments import new_file
from vit.console import Reporter, count_of, percent
from vit.csv_files import new_table
from vit.data.core.dataset_names import PREDICTED_NAME
from vit.errors import BadInputsError, ResourceError, UsageError

if TYPE_CHECKING:
    from vit.inference.files import ListedImages
    from vit.inference.prediction import Prediction
    from vit.inference.predictor import Predictor
    from vit.tasks.task import Task

SortBy = Literal["copy", "link", "move"]
APART = ("unsure", "novel")  # statuses of images without a label, which get folders of their own
_DONE = {"copy": "copied", "link": "linked", "move": "moved"}
_PREDICTED = "The labels of these folders are predictions of a model. `vit` warns of it while this file is here.\n"
DECIDED = ("ok", "unsure", "novel")  # statuses of images that could be read
SHOWN_BAD = 10
SHOWN_FILES = 10  # more files are counted by label
SHOWN_LABELS = 20


@dataclass(frozen=True)
class PredictionSummary:
    """Files and counts of `vit.predict`."""

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
    tells_unlike: bool = False  # whether the model can call an image unlike the training images
    statuses: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    first: "list[Prediction]" = field(default_factory=list)
    bad: "list[Prediction]" = field(default_factory=list)
    groups: Counter[str] = field(default_factory=Counter)  # answers of images without a label
    judged: int = 0  # images with a novelty that tells
    novel: int = 0

    def add(self, row: "Prediction") -> None:
        """Count a row."""
        self.statuses[row.status] += 1
        self.judged += self.tells_unlike and row.novelty is not None
        self.novel += row.is_unlike
        if len(self.first) < SHOWN_FILES:
            self.first.append(row)
        if row.status == "ok":
            self.labels.update((row.label,) if self.task.is_exclusive else row.labels)
        elif row.answer:
            self.groups[row.answer] += 1
        elif row.status not in DECIDED and len(self.bad) <= SHOWN_BAD:  # one more than shown
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
    without = summary.num_unlabeled
    if summary.num_files and (without if fail_on_bad else without == summary.num_files):
        raise BadInputsError(f"{count_of(without, 'file')} without a label", f"see the rows in {summary.output}")


def show_predictions(reporter: Reporter, summary: PredictionSummary, tally: PredictionTally) -> None:
    """The labels, or how many files have each, and the files that could not be read."""
    if summary.num_files > SHOWN_FILES:
        reporter.table(("label", "files"), tally.labels.most_common(SHOWN_LABELS))
    elif tally.task.is_exclusive:
        count = 4 if any(row.labels for row in tally.first) else 3
        rows = []
        for row in (row for row in tally.first if row.probability is not None):
            cells = row.path, row.label or row.status, percent(row.probability or 0.0), " | ".join(row.labels)
            rows.append(cells[:count])
        reporter.table(("file", "label", "probability", "set")[:count], rows)
    else:
        answers = []
        for row in (row for row in tally.first if row.status == "ok"):
            probabilities, (name, probability) = dict(row.top), row.top[0]
            labels = ", ".join(f"{label} ({percent(probabilities[label])})" for label in row.labels)
            answers.append((row.path, labels or f"none (most probable: {name}, {percent(probability)})"))
        reporter.table(("file", "labels"), answers)
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
        unlike = f"{summary.num_novel:,} of {count_of(tally.judged, 'image')} (novelty of {UNLIKE} or more"
        reporter.line(f"unlike the training images: {unlike}; 1 in 20 is usual){rejected}")
    if summary.num_unlabeled:
        bad = (f"{count:,} {status}" for status, count in tally.statuses.items() if status not in DECIDED)
        total, without = summary.num_files, summary.num_unlabeled
        reporter.notice(f"\nWARNING: {without:,} of {total:,} files have no label: {', '.join(bad)}")
        reporter.some([f"{row.path}: {row.error}" for row in tally.bad], SHOWN_BAD)
    page = f", page in {summary.page}" if summary.page else ""
    reporter.line(f"\n{count_of(summary.num_files, 'row')} in {summary.output}{page}")


class SortedFiles:
    """Files with their new places. Files that could not be read stay where they are.

    A class has its folder in `into`, so that 'vit train' can read it. Images without a label lie beside it, in
    FOLDER-unsure and FOLDER-novel, below their most probable class. The list of places stands beside `rows_file`.
    UsageError where a folder or the list exists.
    """

    def __init__(self, into: Path, by: SortBy, rows_file: Path) -> None:
        self.by = by
        self.list_path = new_file(rows_file.with_name(f"{rows_file.stem}-sorted.csv"), "--output: the list")
        self._places: dict[str, Path] = {}  # of each path
        self._taken: set[Path] = set()  # the files themselves, which several paths may lead to, and their places
        self._folders = {"ok": into, **{status: into.parent / f"{into.name}-{status}" for status in APART}}
        for folder in self._folders.values():
            if folder.exists() or folder.is_symlink():
                raise UsageError(f"--sort_into {into}: {folder} exists already", "give a new folder")

    def check(self, predictor: "Predictor", listed: "ListedImages") -> None:
        """Raise UsageError where images are not files, or where a class cannot be a folder."""
        if listed.reader is not None or any("://" in path for path in listed.paths[:1]):
            raise UsageError("--sort_into needs files, and these images lie in a table or in shards", "leave it out")
        if predictor.multilabel is not None:
            raise UsageError("--sort_into needs one class for an image, and this model gives several", "leave it out")
        for name in predictor.class_names:
            if name in ("", ".", "..") or "/" in name or "\0" in name or "\\" in name:
                raise UsageError(f"--sort_into: the class {name!r} cannot be the name of a folder", "leave it out")

    def add(self, row: "Prediction") -> None:
        """Choose the place of a file."""
        source = Path(row.path)
        file = source.parent.resolve() / source.name  # a link is a file of its own
        if file in self._taken or row.status not in self._folders:
            return
        number, place = 1, self._folders[row.status] / (row.label or row.top[0][0]) / source.name
        while place in self._taken:  # files of one name in several folders
            number += 1
            place = place.with_name(f"{source.stem}-{number}{source.suffix}")
        self._taken |= {file, place}
        self._places[row.path] = place

    def carry_out(self, reporter: Reporter, yes: bool) -> None:
        """Write the list of places, and copy, link or move all files; without `yes`, moves are only shown."""
        counts = Counter(str(place.parent) for place in self._places.values())
        reporter.table(("folder", "files"), sorted(counts.items()))
        files = count_of(len(self._places), "file")
        if self.by == "move" and not yes:
            reporter.notice(f"nothing was moved: {files} would be; --yes moves them")
            return
        with new_table(self.list_path, ("path", "sorted_to"), mode="x") as table:
            links_first = sorted(self._places.items(), key=lambda item: not Path(item[0]).is_symlink())
            for done, (path, place) in enumerate(links_first):  # a link is read before its file moves
                try:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    if not (marker := place.parent.parent / PREDICTED_NAME).exists():
                        marker.write_text(_PREDICTED, encoding="utf-8")
                    self._bring(Path(path), place)
                except OSError as error:
                    problem = f"cannot {self.by} {path} to {place}: {error.strerror}"
                    there = f"{done:,} of {len(self._places):,} files are there, as {self.list_path} lists"
                    fix = "make room or correct the rights, and give a new --sort_into for the others"
                    raise ResourceError(f"{problem}; {there}", fix) from error
                table.row((path, str(place)))
                table.flush()
        reporter.line(f"{files} {_DONE[self.by]} (by prediction), listed in {shlex.quote(str(self.list_path))}")

    def _bring(self, source: Path, place: Path) -> None:
        if self.by == "link":
            place.symlink_to(source.absolute())
            return
        if self.by == "move" and not source.is_symlink():
            try:
                name_new_file(source, place)
                return
            except OSError as error:
                if error.errno != errno.EXDEV:  # another disk
                    raise
        partial = partial_name(place)
        try:
            shutil.copy2(source, partial)
            name_new_file(partial, place)
        finally:
            partial.unlink(missing_ok=True)
        if self.by == "move":
            source.unlink()
