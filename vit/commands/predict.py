"""`vit predict RUN|CKPT IMAGES...`: a row per file."""

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jsonargparse.typing import PositiveInt

from vit.checkpoints.model_path import check_model
from vit.commands.arguments import Parser, new_file, parse
from vit.console import ProgressReport, Reporter, percent
from vit.errors import BadInputsError, UsageError
from vit.inference.files import check_output, free_name, list_files

if TYPE_CHECKING:
    from vit.inference.predictor import Prediction
    from vit.inference.rows import RowWriter

SHOWN_BAD = 10
SHOWN_FILES = 10  # more are counted by label
SHOWN_LABELS = 20


def predict(arguments: Sequence[str]) -> int:
    """Predict files, write their rows, and say what could not be read."""
    parser = Parser(
        "predict",
        "Label images with a trained model: one row per file, always, in a stable order.",
        "vit predict runs/photos/vit_tiny_patch16_224/20260101-120000 holiday/ --recursive --gallery",
    )
    parser.add_argument(
        "model", metavar="RUN|CKPT|ONNX", type=str, help="a run folder, a checkpoint, or an exported .onnx file"
    )
    parser.add_argument(
        "images",
        metavar="IMAGES",
        type=str,
        nargs="+",
        help="files, folders, patterns, or a list: a CSV with a column path, or a .txt",
    )
    parser.add_argument(
        "--output",
        type=str | None,
        default=None,
        help=".csv, .jsonl or .parquet; null: predictions.csv, or predictions-2.csv, ...",
    )
    parser.add_argument("--top_k", type=PositiveInt, default=5, help="classes in a row")
    parser.add_argument("--recursive", action="store_true", help="read folders in folders")
    parser.add_argument("--gallery", action="store_true", help="also write a page of thumbnails with their labels")
    parser.add_argument(
        "--on_bad",
        type=Literal["report", "fail"],
        default="report",
        help="exit code for bad files: 0, or 5; 5 always where all are bad",
    )
    parser.add_argument("--batch_size", type=PositiveInt, default=64, help="files computed at once")
    parser.add_argument("--device", type=str, default="auto", help="cpu, cuda, mps")
    parser.add_argument(
        "--precision",
        type=Literal["auto", "32-true", "bf16-mixed"],
        default="auto",
        help="auto: as it was trained, where the hardware can",
    )
    given = parse(parser, arguments)
    rank, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    reporter = Reporter(quiet=rank > 0)
    output = _output(given.output, given.gallery)
    check_model(given.model)
    files = list_files(given.images, given.recursive)

    from vit.inference.engine import distributed
    from vit.inference.predictor import load
    from vit.inference.rows import JsonLinesWriter, merge, open_writer

    writer = open_writer(output, given.top_k)  # a wrong ending must show before the model is loaded
    predictor = load(given.model, given.device, given.precision)
    top_k = min(given.top_k, len(predictor.class_names))
    writer.top_k = top_k
    reporter.notice(
        f"{len(files):,} files, {len(predictor.class_names)} classes, "
        f"{predictor.engine.device.type}, {predictor.engine.precision}"
    )

    own = files[rank::processes]
    rows: Iterable[Prediction] = predictor.predict_files(own, top_k, given.batch_size)
    progress = ProgressReport(reporter, "file")
    if processes > 1:
        parts = [output.with_name(f"{output.name}.part-{place}.jsonl") for place in range(processes)]
        with distributed(), JsonLinesWriter(parts[rank], top_k) as part:  # left when every process has written its part
            for row in _watched(rows, len(own), progress):
                part.write(row)
        if rank > 0:
            return 0
        rows = merge(parts)
    else:
        rows = _watched(rows, len(own), progress)
    tally = _write(rows, writer, gallery_page(output) if given.gallery else None)
    if processes > 1:
        for path in parts:
            path.unlink()
    _summarize(reporter, output, given.gallery, tally)
    if tally.without_label and (given.on_bad == "fail" or not tally.labels):
        raise BadInputsError(f"{tally.without_label} files have no label", f"see the rows in {output}")
    reporter.next_command(f"vit evaluate {shlex.quote(given.model)} LABELLED_FOLDER")
    return 0


def _output(wanted: str | None, gallery: bool) -> Path:
    if wanted is None:
        return free_name(Path("predictions.csv"), beside=(".html", ".csv.partial"))
    path = new_file(wanted)
    check_output(path)
    if gallery and gallery_page(path).exists():
        raise UsageError(f"the page {gallery_page(path)} exists", "give --output another name, or remove the page")
    return path


def _watched(rows: "Iterable[Prediction]", total: int, progress: ProgressReport) -> "Iterator[Prediction]":
    progress.update(0, total)
    for done, row in enumerate(rows, start=1):
        yield row
        progress.update(done, total)
    progress.close()


@dataclass
class _Tally:
    """What was predicted, counted while the rows go by."""

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
        elif len(self.bad) < SHOWN_BAD:
            self.bad.append(row)

    @property
    def without_label(self) -> int:
        return self.statuses.total() - self.statuses["ok"]


def _write(rows: "Iterable[Prediction]", writer: "RowWriter", page: Path | None) -> _Tally:
    from vit.report.gallery import Gallery

    tally = _Tally()
    with ExitStack() as stack:
        stack.enter_context(writer)
        gallery = stack.enter_context(Gallery(page, page.stem)) if page else None
        for row in rows:
            writer.write(row)
            tally.add(row)
            if gallery is not None:
                gallery.add(row.path, row.status, row.label, row.probability, row.error)
    return tally


def gallery_page(output: Path) -> Path:
    """Where the page of a predictions file goes."""
    return output.with_suffix(".html")


def _summarize(reporter: Reporter, output: Path, gallery: bool, tally: _Tally) -> None:
    if tally.statuses.total() <= SHOWN_FILES:
        good = [(row.path, row.label, percent(row.probability or 0.0)) for row in tally.first if row.status == "ok"]
        if good:
            reporter.table(("file", "label", "probability"), good)
    else:
        reporter.table(("label", "files"), tally.labels.most_common(SHOWN_LABELS))
    if len(tally.labels) > SHOWN_LABELS:
        reporter.line(f"... and {len(tally.labels) - SHOWN_LABELS} more labels")
    total, without = tally.statuses.total(), tally.without_label
    if without:
        words = ", ".join(f"{count:,} {status}" for status, count in tally.statuses.items() if status != "ok")
        reporter.notice(f"\nWARNING: {without:,} of {total:,} files have no label: {words}")
        for row in tally.bad:
            reporter.notice(f"  {row.path}: {row.error}")
        if without > len(tally.bad):
            reporter.notice("  ...")
    reporter.line(f"\n{total:,} rows in {output}" + (f", page in {gallery_page(output)}" if gallery else ""))
