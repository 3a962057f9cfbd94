"""`vit predict RUN|CKPT IMAGES...`: a row per file."""

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from jsonargparse.typing import PositiveInt

from vit.commands.arguments import Parser, parse
from vit.console import ProgressReport, Reporter
from vit.errors import BadInputsError, UsageError


def predict(arguments: Sequence[str]) -> int:
    """Predict files, write their rows, and say what could not be read."""
    parser = Parser(
        "predict",
        "Label images with a trained model: one row per file, always, in a stable order.",
        "vit predict runs/photos/vit_tiny_patch16_224/20260101-120000 holiday/ --recursive true --gallery true",
    )
    parser.add_argument("model", metavar="RUN|CKPT", type=str, help="a run folder or a checkpoint")
    parser.add_argument("images", metavar="IMAGES", type=str, nargs="+", help="files, folders, patterns")
    parser.add_argument("--output", type=str | None, default=None, help=".csv, .jsonl or .parquet; null: predictions.csv, or predictions-2.csv, ...")
    parser.add_argument("--top_k", type=PositiveInt, default=5, help="classes in a row")
    parser.add_argument("--recursive", type=bool, default=False, help="read folders in folders")
    parser.add_argument("--gallery", type=bool, default=False, help="also write a page of thumbnails with their labels")
    parser.add_argument("--on_bad", type=Literal["report", "fail"], default="report", help="exit code for bad files: 0 or 5")
    parser.add_argument("--batch_size", type=PositiveInt, default=64, help="files computed at once")
    parser.add_argument("--device", type=str, default="auto", help="cpu, cuda, mps")
    parser.add_argument("--precision", type=Literal["auto", "32-true", "bf16-mixed"], default="auto", help="auto: as it was trained, where the hardware can")
    given = parse(parser, arguments)
    rank, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    reporter = Reporter(quiet=rank > 0)
    output = _output(given.output)

    from vit.prediction.files import list_files
    from vit.prediction.predictor import Prediction, load
    from vit.prediction.rows import JsonLinesWriter, merge, open_writer
    from vit.training.inference import distributed

    writer = open_writer(output, given.top_k)  # a wrong ending must show before the model is loaded
    predictor = load(given.model, given.device, given.precision)
    top_k = min(given.top_k, len(predictor.classes))
    writer.top_k = top_k
    files = list_files(given.images, given.recursive)
    reporter.notice(f"{len(files):,} files, {len(predictor.classes)} classes, {predictor.engine.device.type}, {predictor.engine.precision}")

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
    statuses, labels, bad = _write(rows, writer, output if given.gallery else None)
    if processes > 1:
        for path in parts:
            path.unlink()
    _summarise(reporter, output, given.gallery, statuses, labels, bad)
    if bad and given.on_bad == "fail":
        raise BadInputsError(f"{sum(statuses.values()) - statuses['ok']} files have no label", f"see the rows in {output}")
    reporter.next_command(f"vit evaluate {shlex.quote(given.model)} LABELLED_FOLDER")
    return 0


def _output(wanted: str | None) -> Path:
    from vit.prediction.files import free_name

    if wanted is None:
        return free_name(Path("predictions.csv"))
    path = Path(wanted).expanduser()
    if path.exists():
        raise UsageError(f"--output {path} exists", "give another name, or remove it")
    return path


def _watched(rows: Iterable, total: int, progress: ProgressReport) -> Iterator:  # type: ignore[type-arg]
    for done, row in enumerate(rows, start=1):
        yield row
        progress.update(done, total)
    progress.close()


def _write(rows: Iterable, writer, gallery_of: Path | None) -> tuple[Counter[str], Counter[str], list]:  # type: ignore[type-arg, no-untyped-def]
    from vit.report.gallery import Gallery

    statuses: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    bad = []
    with ExitStack() as stack:
        stack.enter_context(writer)
        gallery = stack.enter_context(Gallery(gallery_page(gallery_of), gallery_of.stem)) if gallery_of else None
        for row in rows:
            writer.write(row)
            statuses[row.status] += 1
            if row.status == "ok":
                labels[row.label] += 1
            elif len(bad) < 10:
                bad.append(row)
            if gallery is not None:
                gallery.add(row.path, row.status, row.label, row.probability, row.error)
    return statuses, labels, bad


def gallery_page(output: Path) -> Path:
    """Where the page of a predictions file goes."""
    return output.with_suffix(".html")


def _summarise(reporter: Reporter, output: Path, gallery: bool, statuses: Counter[str], labels: Counter[str], bad: list) -> None:  # type: ignore[type-arg]
    total = sum(statuses.values())
    reporter.table(("label", "files"), labels.most_common(20))
    if len(labels) > 20:
        reporter.line(f"... and {len(labels) - 20} more labels")
    if bad:
        words = ", ".join(f"{count:,} {status}" for status, count in statuses.items() if status != "ok")
        reporter.notice(f"\nWARNING: {total - statuses['ok']:,} of {total:,} files have no label: {words}")
        for row in bad:
            reporter.notice(f"  {row.path}: {row.error}")
        if total - statuses["ok"] > len(bad):
            reporter.notice("  ...")
    reporter.line(f"\n{total:,} rows in {output}" + (f", page in {gallery_page(output)}" if gallery else ""))
