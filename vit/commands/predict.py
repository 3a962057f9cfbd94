"""`vit predict RUN|CKPT|EXPORT IMAGES...`: one row for each file"""

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vit.checkpoints.model_path import check_model
from vit.commands.answer_options import AnswerOptions, check_separator, no_novelty
from vit.commands.arguments import ModelOrExport, Paths, PositiveInt, StrPath, new_file, path_list
from vit.commands.prediction_tally import DECIDED, PredictionSummary, PredictionTally, gallery_page, show_predictions
from vit.commands.tta_options import say_uncalibrated, warn_of_mirror
from vit.console import ProgressReport, Reporter
from vit.data.dataset_names import TableColumns
from vit.errors import BadInputsError, UsageError
from vit.inference.engines.engine_names import EngineName, check_engine
from vit.inference.files import check_output, free_name, list_images
from vit.launch import is_first

if TYPE_CHECKING:
    from vit.data.image_bytes import ImageReader
    from vit.inference.predictor import Prediction
    from vit.inference.rows import RowWriter
    from vit.report.gallery import Gallery


def predict(
    model: ModelOrExport,
    images: Paths,
    *,
    output: StrPath | None = None,
    top_k: PositiveInt = 5,
    probabilities: bool = False,
    recursive: bool = False,
    gallery: bool = False,
    reject_below: float | None = None,
    target_accuracy: float | None = None,
    coverage: float | None = None,
    sets: Literal["lac", "aps", "class_conditional"] = "lac",
    reject_novel: bool = False,
    tta: Literal["flip", "crops"] | None = None,
    image_column: str | None = None,
    on_bad: Literal["report", "fail"] = "report",
    batch_size: PositiveInt = 64,
    device: str = "auto",
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto",
    engine: EngineName = "auto",
) -> PredictionSummary:
    """Label images with a trained model: one row for each file, in a stable order.

    Args:
        model: a run folder, a checkpoint, or an exported .onnx or .xml file
        images: files, folders, patterns, a list (a CSV with a column path, or a .txt), an index of shards, a parquet
            table, or hf:NAME
        output: new .csv, .jsonl or .parquet file; null: predictions.csv, or predictions-2.csv, ...
        top_k: number of classes in a row; a model that gives several labels writes those above their thresholds
        probabilities: also write the probability of every class or label, each in a column p_NAME
        recursive: also read the folders inside folders
        gallery: also write a page of thumbnails with their labels
        reject_below: images whose label has a smaller probability get no label, and the status unsure
        target_accuracy: accuracy of the images that get a label, such as 0.99; sets the smallest probability from the
            validation images of the model, so that the accuracy is reached with 95 % confidence
        coverage: also give each image a set of labels that has the true one with this probability, such as 0.9
        sets: method of the sets. lac: smallest on average. aps: larger for difficult images. class_conditional: the
            coverage holds in each class
        reject_novel: images that are unlike the training images get no label, and the status novel: those with a
            novelty of 0.95 or more, as at most 5 % of images like the validation images have
        tta: test-time augmentation, which averages several views of each image. flip: the image and its mirror image.
            crops: the middle and the corners; null: one view
        image_column: column of images in a parquet table; null: the only one, or the one with a usual name
        on_bad: exit code where some files cannot be read: report is 0, fail is 5; where all files are bad: always 5
        batch_size: number of files computed at once
        device: cpu, cuda or mps; auto: an accelerator if there is one
        precision: auto: the precision of training, where the hardware has it
        engine: what computes a checkpoint; auto: openvino for much work on a CPU where it is installed and was measured
            to be faster, torch otherwise

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
    wanted = AnswerOptions.checked(reject_below, target_accuracy, coverage, sets, reject_novel, tta)
    check_model(model)
    check_engine(engine, Path(model), device)
    listed = list_images(path_list(images), recursive, TableColumns(image_column))
    files = listed.paths

    from vit.inference.predictor import load
    from vit.inference.rows import open_writer

    writer = open_writer(rows_file, top_k)  # a wrong ending must show before the model is loaded
    computes_features: EngineName = "torch" if reject_novel and engine == "auto" else engine
    predictor = load(model, device, precision, computes_features, len(files), tta)
    writer.top_k = min(top_k, len(predictor.class_names))
    writer.is_multilabel = predictor.multilabel is not None
    writer.all_of = predictor.class_names if probabilities else ()
    of_interest = len(predictor.class_names) if probabilities or writer.is_multilabel else writer.top_k
    reporter = Reporter(quiet=not is_first())
    writer.has_sets = coverage is not None
    predictor.rule = wanted.rule(predictor, reporter)
    check_separator(writer, predictor.class_names)
    warn_of_mirror(model, tta, reporter)
    if tta is not None:
        say_uncalibrated(model, predictor, tta, reporter)
    elif predictor.novelty is None:
        reporter.notice(f"the column novelty stays empty: {no_novelty(predictor)}")
    reporter.notice(
        f"{len(files):,} files, {len(predictor.class_names)} {'labels' if writer.is_multilabel else 'classes'}, "
        f"{predictor.engine.device.type}, {predictor.engine.precision}, {predictor.engine.name}"
    )
    own = files[_rank() :: _num_processes()]
    found = predictor.predict_files(own, of_interest, batch_size, listed.reader)
    rows = _watched(found, len(own), reporter)
    with _of_all_processes(rows, writer) as all_rows:
        tally = (
            _write(all_rows, writer, _gallery(rows_file, model, listed.reader) if gallery else None)
            if is_first()
            else PredictionTally()
        )
    summary = tally.summary(rows_file, gallery)
    if is_first():
        show_predictions(reporter, summary, tally)
        if summary.num_unlabeled and (on_bad == "fail" or summary.num_unlabeled == summary.num_files):
            raise BadInputsError(f"{summary.num_unlabeled} files have no label", f"see the rows in {rows_file}")
        labeled = "LABELS.csv" if writer.is_multilabel else "LABELED_FOLDER"
        reporter.next_command(f"vit evaluate {shlex.quote(model)} {labeled}")
    return summary


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


def _write(rows: "Iterable[Prediction]", writer: "RowWriter", gallery: "Gallery | None") -> PredictionTally:
    tally = PredictionTally(is_multilabel=writer.is_multilabel)
    with ExitStack() as stack:
        stack.enter_context(writer)
        if gallery is not None:
            stack.enter_context(gallery)
        for row in rows:
            writer.write(row)
            tally.add(row)
            if gallery is not None:
                labels = row.labels if writer.is_multilabel and row.status in DECIDED else None
                gallery.add(row.path, row.status, row.label, row.probability, row.error, labels)
    return tally


def _gallery(rows_file: Path, model: str, reader: "ImageReader | None") -> "Gallery":
    from vit.report.gallery import Gallery  # imports jinja2

    return Gallery(gallery_page(rows_file), model, reader)
