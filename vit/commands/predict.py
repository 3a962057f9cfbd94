"""`vit predict RUN|CKPT|ONNX IMAGES...`: one row for each file"""

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vit.checkpoints.model_path import check_model
from vit.commands.answer_options import AnswerOptions, check_separator
from vit.commands.arguments import ModelOrOnnx, Paths, PositiveInt, StrPath, new_file, path_list
from vit.console import ProgressReport, Reporter, percent
from vit.errors import BadInputsError, UsageError
from vit.inference.files import check_output, free_name, list_files
from vit.launch import is_first

if TYPE_CHECKING:
    from vit.inference.predictor import Prediction
    from vit.inference.rows import RowWriter
    from vit.report.gallery import Gallery

SHOWN_BAD = 10
SHOWN_FILES = 10  # more files are counted by label
SHOWN_LABELS = 20


@dataclass(frozen=True)
class PredictionSummary:
    """Files and counts of `vit.predict`. Of several processes, the first one has the counts, and others have zeros.

    Attributes:
        output: file with one row for each predicted file.
        page: gallery; None where none was asked for.
        num_files: number of rows.
        num_unlabeled: number of files that could not be read.
        num_unsure: number of images without a label, because its probability is too low.
        label_counts: number of files for each predicted label.
    """

    output: Path
    page: Path | None
    num_files: int
    num_unlabeled: int
    num_unsure: int
    label_counts: dict[str, int]


def predict(
    model: ModelOrOnnx,
    images: Paths,
    *,
    output: StrPath | None = None,
    top_k: PositiveInt = 5,
    recursive: bool = False,
    gallery: bool = False,
    reject_below: float | None = None,
    target_accuracy: float | None = None,
    coverage: float | None = None,
    sets: Literal["lac", "aps", "class_conditional"] = "lac",
    on_bad: Literal["report", "fail"] = "report",
    batch_size: PositiveInt = 64,
    device: str = "auto",
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto",
) -> PredictionSummary:
    """Label images with a trained model: one row for each file, in a stable order.

    Args:
        model: a run folder, a checkpoint, or an exported .onnx file
        images: files, folders, patterns, or a list: a CSV with a column path, or a .txt
        output: new .csv, .jsonl or .parquet file; null: predictions.csv, or predictions-2.csv, ...
        top_k: number of classes in a row
        recursive: also read the folders inside folders
        gallery: also write a page of thumbnails with their labels
        reject_below: images whose label has a smaller probability get no label, and the status unsure
        target_accuracy: accuracy of the images that get a label, such as 0.99; sets the smallest probability from the
            validation images of the model, so that the accuracy is reached with 95 % confidence
        coverage: also give each image a set of labels that has the true one with this probability, such as 0.9
        sets: method of the sets. lac: smallest on average. aps: larger for difficult images. class_conditional: the
            coverage holds in each class
        on_bad: exit code where some files cannot be read: report is 0, fail is 5; where all files are bad: always 5
        batch_size: number of files computed at once
        device: cpu, cuda or mps; auto: an accelerator if there is one
        precision: auto: the precision of training, where the hardware has it

    Returns:
        The file with the rows, and counts of files and labels.

    Raises:
        VitError: the model, the images or the output cannot be used, or validation images are missing for a rule.
        BadInputsError: no file can be read; or some files cannot, and `on_bad` is "fail".

    Example:
        vit predict runs/photos/vit_tiny_patch16_224/20260101-120000 holiday/ --recursive --gallery
    """
    model = os.fspath(model)
    rows_file = _rows_file(output, gallery)
    wanted = AnswerOptions.checked(reject_below, target_accuracy, coverage, sets)
    check_model(model)
    files = list_files(path_list(images), recursive)

    from vit.inference.predictor import load
    from vit.inference.rows import open_writer

    writer = open_writer(rows_file, top_k)  # a wrong ending must show before the model is loaded
    predictor = load(model, device, precision)
    writer.top_k = min(top_k, len(predictor.class_names))
    reporter = Reporter(quiet=not is_first())
    writer.has_sets = coverage is not None
    predictor.rule = wanted.rule(predictor, reporter)
    check_separator(writer, predictor.class_names)
    reporter.notice(
        f"{len(files):,} files, {len(predictor.class_names)} classes, "
        f"{predictor.engine.device.type}, {predictor.engine.precision}"
    )
    own = files[_rank() :: _num_processes()]
    rows = _watched(predictor.predict_files(own, writer.top_k, batch_size), len(own), reporter)
    with _of_all_processes(rows, writer) as all_rows:
        tally = _write(all_rows, writer, gallery_page(rows_file) if gallery else None) if is_first() else _Tally()
    summary = tally.summary(rows_file, gallery)
    if is_first():
        _show(reporter, summary, tally)
        if summary.num_unlabeled and (on_bad == "fail" or summary.num_unlabeled == summary.num_files):
            raise BadInputsError(f"{summary.num_unlabeled} files have no label", f"see the rows in {rows_file}")
        reporter.next_command(f"vit evaluate {shlex.quote(model)} LABELED_FOLDER")
    return summary


def gallery_page(output: Path) -> Path:
    """The page of a file of predictions."""
    return output.with_suffix(".html")


def _rows_file(output: StrPath | None, gallery: bool) -> Path:
    if output is None:
        return free_name(Path("predictions.csv"), beside=(".html", ".csv.partial"))
    path = new_file(output)
    check_output(path)
    if gallery and gallery_page(path).exists():
        raise UsageError(f"the page {gallery_page(path)} exists", "give --output another name, or remove the page")
    return path


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))


def _num_processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def _of_all_processes(rows: "Iterable[Prediction]", writer: "RowWriter") -> "Iterator[Iterable[Prediction]]":
    """The rows of all processes in the order of the files, for the first process.

    Each process writes its rows to a file beside the output. The files are removed when the block ends.
    """
    from vit.inference.engine import distributed
    from vit.inference.rows import JsonLinesWriter, merge

    if _num_processes() == 1:
        yield rows
        return
    parts = [writer.path.with_name(f"{writer.path.name}.part-{rank}.jsonl") for rank in range(_num_processes())]
    with distributed(), JsonLinesWriter(parts[_rank()], writer.top_k) as part:  # ends when all parts are written
        for row in rows:
            part.write(row)
    yield merge(parts)
    if is_first():
        for path in parts:
            path.unlink()


def _watched(rows: "Iterable[Prediction]", total: int, reporter: Reporter) -> "Iterator[Prediction]":
    with ProgressReport(reporter, "file") as progress:
        progress.update(0, total)
        for done, row in enumerate(rows, start=1):
            yield row
            progress.update(done, total)


@dataclass
class _Tally:
    """Counts and examples, gathered while the rows go by."""

    statuses: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    first: "list[Prediction]" = field(default_factory=list)
    bad: "list[Prediction]" = field(default_factory=list)

    def add(self, row: "Prediction") -> None:
        self.statuses[row.status] += 1
        if len(self.first) < SHOWN_FILES:
            self.first.append(row)
        if row.status == "ok":
            self.labels[row.label] += 1
        elif row.status != "unsure" and len(self.bad) < SHOWN_BAD:
            self.bad.append(row)

    def summary(self, output: Path, gallery: bool) -> PredictionSummary:
        total = self.statuses.total()
        page = gallery_page(output) if gallery else None
        unsure = self.statuses["unsure"]
        unlabeled = total - self.statuses["ok"] - unsure
        return PredictionSummary(output, page, total, unlabeled, unsure, dict(self.labels))


def _write(rows: "Iterable[Prediction]", writer: "RowWriter", page: Path | None) -> _Tally:
    tally = _Tally()
    with ExitStack() as stack:
        stack.enter_context(writer)
        gallery = stack.enter_context(_gallery(page)) if page else None
        for row in rows:
            writer.write(row)
            tally.add(row)
            if gallery is not None:
                gallery.add(row.path, row.status, row.label, row.probability, row.error)
    return tally


def _gallery(page: Path) -> "Gallery":
    from vit.report.gallery import Gallery  # imports jinja2

    return Gallery(page, page.stem)


def _show(reporter: Reporter, summary: PredictionSummary, tally: _Tally) -> None:
    if summary.num_files <= SHOWN_FILES:
        good = [
            (row.path, row.label or row.status, percent(row.probability), " | ".join(row.labels))
            for row in tally.first
            if row.probability is not None
        ]
        if good:
            columns = ("file", "label", "probability", "set")
            count = 4 if any(row[3] for row in good) else 3
            reporter.table(columns[:count], [row[:count] for row in good])
    else:
        reporter.table(("label", "files"), tally.labels.most_common(SHOWN_LABELS))
    if len(tally.labels) > SHOWN_LABELS:
        reporter.line(f"... and {len(tally.labels) - SHOWN_LABELS} more labels")
    if summary.num_unsure:
        reporter.line(f"unsure: {summary.num_unsure:,} of {summary.num_files:,} images have no label")
    if summary.num_unlabeled:
        bad = {status: count for status, count in tally.statuses.items() if status not in ("ok", "unsure")}
        words = ", ".join(f"{count:,} {status}" for status, count in bad.items())
        total, without = summary.num_files, summary.num_unlabeled
        reporter.notice(f"\nWARNING: {without:,} of {total:,} files have no label: {words}")
        for row in tally.bad:
            reporter.notice(f"  {row.path}: {row.error}")
        if without > len(tally.bad):
            reporter.notice("  ...")
    page = f", page in {summary.page}" if summary.page else ""
    reporter.line(f"\n{summary.num_files:,} rows in {summary.output}{page}")
