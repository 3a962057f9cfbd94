"""`vit predict RUN|CKPT|EXPORT IMAGES...`: one row for each file"""

import os
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from vit.atomic_files import free_name, naming_file
from vit.commands.cli.arguments import (
    ExecutorOptions,
    ModelOrExport,
    Paths,
    PositiveInt,
    StrPath,
    leading_models,
    new_file,
    path_list,
)
from vit.commands.predicting.predicted_rows import (
    PredictionSummary,
    PredictionTally,
    SortBy,
    SortedFiles,
    check_labeled,
    show_predictions,
)
from vit.commands.predicting.prediction_setup import AnswerOptions, PredictionSetup
from vit.console import Reporter, tracked
from vit.csv_files import describe_escapes
from vit.data.core.dataset_names import TableColumns
from vit.errors import UsageError
from vit.inference.engines.engine_names import EngineName
from vit.inference.files import check_output, list_images
from vit.launch import is_launched
from vit.ranges import Fraction

if TYPE_CHECKING:
    from vit.inference.prediction import Prediction

ROWS = 50_000  # of a part


def predict(
    model: ModelOrExport = "",
    images: Paths = (),
    *,
    output: StrPath | None = None,
    top_k: PositiveInt = 5,
    probabilities: bool = False,
    recursive: bool = False,
    gallery: bool = False,
    reject_below: Fraction | None = None,
    target_accuracy: Fraction | None = None,
    coverage: Fraction | None = None,
    sets: Literal["lac", "aps", "class_conditional"] = "lac",
    reject_novel: bool = False,
    sort_into: StrPath | None = None,
    sort_by: SortBy = "copy",
    yes: bool = False,
    image_column: str | None = None,
    on_bad: Literal["report", "fail"] = "report",
    batch_size: PositiveInt = 64,
    device: str = "auto",
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto",
    engine: EngineName = "auto",
    parts: StrPath | None = None,
    rows_per_part: PositiveInt | None = None,
    merge: StrPath | None = None,
    unfinished: bool = False,
    **where: Annotated[Any, ExecutorOptions],
) -> PredictionSummary:
    """Label images with a trained model: one row for each file, in a stable order.

    Args:
        model: a run folder, a checkpoint, or an exported .onnx or .xml file
        images: further models first, whose probabilities are averaged; then files, folders, patterns, a list (a CSV
            with a column path, or a .txt), an index of shards, a parquet table, or hf:NAME
        output: new .csv, .jsonl or .parquet file; null: predictions.csv, or predictions-2.csv, ...
        top_k: number of classes in a row; a model that gives several labels writes those above their thresholds
        probabilities: also write the probability of every class or label, each in a column p_NAME
        recursive: also read the folders inside folders
        gallery: also write a page of thumbnails with their labels
        reject_below: images whose label has a smaller probability get no label, and the status unsure
        target_accuracy: accuracy of the images that get a label, such as 0.99; sets the smallest probability from the
            validation images of the model, so that the accuracy is reached with 95 % confidence. Where class names are
            paths such as animals/bird, the column answer has the group of classes if no class is sure enough
        coverage: also give each image a set of labels that has the true one with this probability, such as 0.9
        sets: method of the sets. lac: smallest on average. aps: larger for difficult images. class_conditional: the
            coverage holds in each class
        reject_novel: images that are unlike the training images get no label, and the status novel: those with a
            novelty of 0.95 or more, as at most 5 % of images like the validation images have
        sort_into: new folder that gets the files, in a folder for each class. Files without a label go to
            FOLDER-unsure and FOLDER-novel beside it; files that cannot be read stay
        sort_by: how a file comes there: copy, link, or move, which needs --yes and else shows what it would do
        yes: whether files may be moved
        image_column: column of images (parquet) or of paths (CSV); null: the only one, or one with a usual name
        on_bad: exit code where some files cannot be read: report is 0, fail is 5; where all files are bad: always 5
        batch_size: number of files computed at once
        device: cpu, cuda or mps; auto: an accelerator if there is one
        precision: auto: the precision of training, where the hardware has it. In bf16-mixed, the third digit of a
            probability depends on how many images are computed together
        engine: what computes a checkpoint; auto: torch
        parts: folder that gets the rows in parts, for many images. Any number of processes may run the same command at
            the same time, and a stopped one may run again: only missing parts are computed
        rows_per_part: number of rows of a part; null: 50,000
        merge: folder of --parts, in place of a model and images. Checks that every image has exactly one row, and
            writes all rows to --output, if it is given
        unfinished: whether a model whose training is not finished may be used, as it is
        where: executor="slurm", jobs=4, cluster={"time": "2h"}, with `parts`: tasks of a cluster compute the parts

    Returns:
        The file with the rows, and counts of files and labels. With `parts`, counts of what this process computed.

    Raises:
        BadInputsError: no file can be read; or some files cannot, and `on_bad` is "fail".

    Example:
        vit predict runs/photos/vit_tiny_patch16_224/20260101-120000 holiday/ --recursive --gallery
    """
    given, defaults = {**locals()}, predict.__kwdefaults__ or {}
    model, (others, inputs) = os.fspath(model), leading_models(path_list(images))
    if others and parts is not None:
        raise UsageError(f"--parts takes one model, and {1 + len(others)} are given", "give one, or leave --parts out")
    if merge is not None:
        of_rows = defaults.keys() - {"output", "on_bad", "merge"}  # the rows of the parts are as they are
        is_usual = ExecutorOptions(**where) == ExecutorOptions()
        if model or inputs or not is_usual or any(given[name] != defaults[name] for name in of_rows):
            fix = "give no other option than --output and --on_bad, as in 'vit predict --merge parts/'"
            raise UsageError("--merge takes a folder of --parts alone", fix)

        from vit.commands.predicting.predict_parts import merge_parts  # imports pyarrow

        return merge_parts(Path(merge).expanduser(), None if output is None else new_file(output), on_bad == "fail")
    if not model or not inputs:
        needed = "IMAGES after its models" if others else "IMAGES" if model else "MODEL and IMAGES"
        raise UsageError(f"vit predict needs {needed}", "as in 'vit predict RUN photos/'")
    on = ExecutorOptions(**where)
    _check_where(on, parts is not None)
    if parts is None and is_launched() and os.environ["WORLD_SIZE"] != "1":
        raise UsageError("several processes of vit predict need --parts", "give --parts FOLDER, which all of them see")
    if parts is None and rows_per_part is not None:
        raise UsageError("--rows_per_part without --parts", "give --parts FOLDER, or leave it out")
    if parts is not None and (output is not None or gallery):
        raise UsageError("--parts writes a folder, and takes no --output and no --gallery", "leave them out")
    rows_file, page = Path(), Path()
    if parts is None:
        default = Path("predictions.csv")
        rows_file = free_name(default, (".html", ".csv.partial")) if output is None else new_file(output)
        check_output(rows_file)
        page = rows_file.with_suffix(".html")
        if gallery:
            new_file(page, "--output: the page")
    if sort_into is None and (sort_by != "copy" or yes):
        raise UsageError("--sort_by and --yes need --sort_into", "give --sort_into FOLDER")
    if sort_into is not None and (parts is not None or (gallery and sort_by == "move")):
        option = "--gallery where files move" if parts is None else "--parts"
        raise UsageError(f"--sort_into does not go with {option}", "leave one out")
    to_sort = None if sort_into is None else SortedFiles(Path(sort_into).expanduser(), sort_by, rows_file)
    wanted = AnswerOptions(reject_below, target_accuracy, coverage, sets, reject_novel)
    columns = TableColumns(image_column)
    setup = PredictionSetup(model, wanted, top_k, probabilities, device, precision, engine, unfinished, others)
    setup.check()
    if parts is not None:
        from vit.commands.predicting.predict_parts import PartsJob, predict_in_parts  # imports pyarrow

        job = PartsJob(setup, inputs, Path(parts).expanduser(), recursive, rows_per_part or ROWS, batch_size, columns)
        return predict_in_parts(job, on, on_bad == "fail")
    listed = list_images(inputs, recursive, columns)

    from vit.inference.rows import check_separator, open_writer

    writer = open_writer(rows_file, top_k)  # a wrong ending must show before the model is loaded
    reporter = Reporter()
    reporter.notice(listed.remarks)
    predictor = setup.load(reporter, len(listed.paths))
    setup.configure(writer, predictor)
    if to_sort is not None:
        to_sort.check(predictor, listed)
    if rows_file.suffix.lower() == ".csv":
        reporter.notice(describe_escapes(predictor.class_names, f"{rows_file} has"))
        if writer.has_sets or not writer.task.is_exclusive:
            check_separator(predictor.class_names, ".jsonl or .parquet")
    rows = predictor.predict_files(listed.paths, setup.num_ranked(predictor), batch_size, listed.reader)
    tally = PredictionTally(writer.task, predictor.can_tell_unlike)
    rules = predictor.multilabel
    thresholds = {} if rules is None else dict(zip(predictor.class_names, rules.thresholds.tolist(), strict=True))
    with naming_file(writer.partial), ExitStack() as stack:
        outputs: list[Callable[[Prediction], None]] = [stack.enter_context(writer).write, tally.add]
        if to_sort is not None:
            outputs.append(to_sort.add)
        if gallery:
            from vit.report.picture_page import Gallery  # imports jinja2

            names, seen_as = ", ".join((model, *others)), predictor.preprocess
            pictures = Gallery(page, names, listed.reader, seen_as, predictor.lacks, thresholds)
            outputs.append(stack.enter_context(pictures).add)
        for row in tracked(rows, len(listed.paths), reporter, "file"):
            for add in outputs:
                add(row)
    summary = tally.summary(rows_file, page if gallery else None)
    reporter.notice(predictor.first_frames.warning)
    show_predictions(reporter, summary, tally)
    if to_sort is not None:
        to_sort.carry_out(reporter, yes)
    check_labeled(summary, on_bad == "fail")
    more = " --unfinished" * bool(predictor.lacks)
    reporter.next_command(f"vit evaluate {shlex.join((model, *others))} {predictor.task.example}{more}")
    return summary


def _check_where(where: ExecutorOptions, has_parts: bool) -> None:
    """Raise UsageError where the options for a cluster do not fit each other or this machine."""
    where.check()
    if where.executor == "local":
        if where.jobs is not None:
            raise UsageError("--jobs without a cluster", "give --parts, and the same command several times")
    elif not has_parts:
        raise UsageError(f"--executor {where.executor} without --parts", "give --parts FOLDER, which all machines see")
    elif where.jobs is None:
        raise UsageError(f"--executor {where.executor} without --jobs", "give --jobs N, the number of tasks")
    elif where.cluster_options.cells_per_task:
        raise UsageError("--cluster.cells_per_task with vit predict", "give --jobs N, the number of tasks")
