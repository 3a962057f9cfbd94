"""`vit predict --parts` and `--merge`: predictions of many images in parts, by any number of processes"""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vit.commands.cli.arguments import StrPath
from vit.commands.predicting.prediction_setup import PredictionSetup
from vit.commands.predicting.prediction_tally import DECIDED, PredictionSummary, PredictionTally, show_predictions
from vit.console import ProgressReport, Reporter, count_of
from vit.data.core.dataset_names import HUB, TableColumns, is_far, is_parquet
from vit.errors import BadInputsError, DataError, ResourceError, UsageError, some_of
from vit.inference.engines.engine_names import OPENVINO
from vit.inference.files import ListedImages, list_images
from vit.layout import PartsLayout

if TYPE_CHECKING:
    from vit.data.core.image_bytes import ImageReader
    from vit.inference.parts import Manifest, RowsAsked
    from vit.inference.prediction import Prediction
    from vit.inference.rows import ParquetWriter

_SHOWN = 5  # missing or damaged parts in an error


@dataclass(frozen=True)
class PartsJob:
    """What `vit predict --parts` was asked for."""

    setup: PredictionSetup  # the model, and what was asked of it
    images: Sequence[StrPath]  # IMAGES; they are listed by the first of the processes that run at the same time
    folder: Path  # folder of the parts
    recursive: bool  # whether folders in folders are read
    rows_per_part: int  # number of rows of a part
    batch_size: int  # number of files computed at once
    columns: TableColumns  # columns of a table that are given by name

    def listed(self) -> ListedImages:
        """The images and what reads them. A notice counts the folders that are not read."""
        listed = list_images(self.images, self.recursive, self.columns)
        if listed.not_read:
            Reporter().notice(listed.not_read)
        return listed

    def open_manifest(self, list_paths: Callable[[], Sequence[str]]) -> "AbstractContextManager[Manifest]":
        """The manifest, written where there is none.

        Args:
            list_paths: function that lists the images. It is called where there is no manifest, or where no other
                process that runs now has compared the manifest with the images.
        """
        from vit.inference.parts import open_manifest

        return open_manifest(PartsLayout(self.folder), _asked(self), list_paths)


def predict_in_parts(job: PartsJob, fail_on_bad: bool) -> PredictionSummary:
    """Compute the parts that no other process has computed or computes now, until all are there.

    Args:
        fail_on_bad: whether files without a label are an error.

    Returns:
        Counts of what this process computed.
    """
    job.setup.check()
    readers: list[ImageReader | None] = []

    def list_paths() -> Sequence[str]:
        listed = job.listed()
        readers.append(listed.reader)
        return listed.paths

    with job.open_manifest(list_paths) as manifest:
        tally = _compute_parts(job, manifest, readers[0] if readers else _reader(job, manifest))
    reporter, summary = Reporter(), tally.summary(job.folder, gallery=False)
    if summary.num_files:
        show_predictions(reporter, summary, tally)
    check_labeled(summary, fail_on_bad)
    reporter.next_command(merge_command(job.folder))
    return summary


def _compute_parts(job: PartsJob, manifest: "Manifest", reader: "ImageReader | None") -> PredictionTally:
    """Compute the parts that no other process computes; counts of their rows.

    Args:
        reader: what reads the images; None for files.
    """
    from vit.inference.parts import claimed, write_part
    from vit.inference.rows import ParquetWriter

    setup, files, reporter = job.setup, PartsLayout(job.folder), Reporter()
    num_there = len(files.finished())
    reporter.notice(f"{num_there:,} of {manifest.num_parts:,} parts are there ({manifest.num_rows:,} images in all)")
    tally = PredictionTally()
    if num_there < manifest.num_parts:
        predictor = setup.load(reporter, manifest.num_rows, job.batch_size)
        tally.task, tally.first_frames = predictor.task, predictor.first_frames

        def open_rows(path: Path) -> "ParquetWriter":
            writer = ParquetWriter(path, setup.top_k)
            setup.configure(writer, predictor)
            return writer

        num_ranked = setup.num_ranked(predictor)
        with ProgressReport(reporter, "file") as progress:
            for number in claimed(files, manifest):
                before = _rows_there(files, manifest)
                found = predictor.predict_files(manifest.paths(number), num_ranked, job.batch_size, reader)
                watched = _watched(found, tally, progress, before, manifest.num_rows)
                write_part(files, manifest, number, watched, open_rows)
    return tally


def check_labeled(summary: PredictionSummary, fail_on_bad: bool) -> None:
    """Raise BadInputsError where no file has a label, or some have none and that is an error."""
    if summary.num_files and (summary.num_unlabeled if fail_on_bad else summary.num_unlabeled == summary.num_files):
        raise BadInputsError(f"{summary.num_unlabeled} files have no label", f"see the rows in {summary.output}")


def merge_command(folder: Path) -> str:
    """The command that merges the parts of a folder."""
    return f"vit predict --merge {shlex.quote(str(folder))} --output predictions.parquet"


def merge_parts(folder: Path, output: Path | None, fail_on_bad: bool) -> PredictionSummary:
    """Prove that every image of a manifest has exactly one row, and write all rows to one file.

    Args:
        folder: folder of the parts.
        output: new .parquet or .csv file; None writes none.
        fail_on_bad: whether files without a label are an error.

    Raises:
        UsageError: `output` has another ending.
        BadInputsError: no file has a label, or some have none and `fail_on_bad` is true. All rows are written before.
        DataError: a part is missing, damaged, or not of this manifest and model.
    """
    files, reporter = PartsLayout(folder), Reporter()
    if not files.manifest_path.is_file():
        raise DataError(f"{folder} is not a folder of 'vit predict --parts'", "give the folder of --parts")
    if output is not None and output.suffix.lower() not in (".parquet", ".csv"):
        raise UsageError(f"--output {output} ends in {output.suffix or 'nothing'}", "--merge writes .parquet or .csv")

    from pyarrow.parquet import read_schema

    from vit.inference.parts import Manifest, check_parts, tables
    from vit.inference.rows import PROBABILITIES, write_tables

    manifest = Manifest(files.manifest_path)
    with ProgressReport(reporter, "part") as progress:
        found = check_parts(files, manifest, progress.update)
    if not found.is_whole:
        names = [files.part_path(number).name for number in found.missing]
        problems = [
            *([f"{len(names):,} missing ({some_of(names)})"] if names else []),
            *(f"{name}: {reason}" for name, reason in list(found.damaged.items())[:_SHOWN]),
            *([f"{some_of(found.foreign)}: not in the manifest"] if found.foreign else []),
        ]
        raise DataError(
            f"{folder} does not have one row for each image: {'; '.join(problems)}",
            "move damaged parts elsewhere, and give the command with --parts again",
        )
    counts = ", ".join(f"{count:,} {status}" for status, count in sorted(found.statuses.items()))
    reporter.line(f"{found.num_rows:,} images, each with exactly one row, in {manifest.num_parts:,} parts: {counts}")
    unlabeled = sum(count for status, count in found.statuses.items() if status not in DECIDED)
    unsure = found.statuses.get("unsure", 0)
    summary = PredictionSummary(output or folder, None, found.num_rows, unlabeled, unsure, {})
    following = merge_command(folder)
    if output is not None:
        try:
            write_tables(output, tables(files, manifest))
        except FileExistsError as error:
            problem = f"another program has made {output} meanwhile; it is kept"
            raise ResourceError(problem, "give another --output") from error
        reporter.line(f"{count_of(found.num_rows, 'row')} in {output}")
        labeled = "LABELS.csv" if PROBABILITIES in read_schema(files.part_path(0)).names else "LABELED_FOLDER"
        following = f"vit evaluate MODEL {labeled}"
    check_labeled(summary, fail_on_bad)
    reporter.next_command(following)
    return summary


def _asked(job: PartsJob) -> "RowsAsked":
    from vit.inference.parts import RowsAsked

    setup = job.setup
    names = [os.fspath(one) if is_far(os.fspath(one)) else str(Path(one).expanduser()) for one in job.images]
    is_relative = any(not Path(name).is_absolute() and not is_far(name) and not name.startswith(HUB) for name in names)
    options = {
        **asdict(setup.wanted), "top_k": setup.top_k, "probabilities": setup.probabilities, "recursive": job.recursive,
        "precision": setup.precision, "engine": setup.engine, "image_column": job.columns.image,
    }  # fmt: skip
    return RowsAsked(
        images=tuple(names),
        folder=str(Path.cwd()) if is_relative else "",
        model=_model_hash(Path(setup.model)),
        options={name: str(value) for name, value in options.items()},
        rows_per_part=job.rows_per_part,
    )


def _model_hash(model: Path) -> str:
    """SHA-256 of the file that is computed; of a graph of OpenVINO with its weights."""
    from vit.checkpoints.io import file_hash
    from vit.checkpoints.run import checkpoint_of

    file = checkpoint_of(model)
    parts = [file, file.with_suffix(".bin")] if file.suffix == OPENVINO else [file]
    return "+".join(file_hash(part) for part in parts)


def _reader(job: PartsJob, manifest: "Manifest") -> "ImageReader | None":
    """What reads the images of a manifest that another process has written; None for files."""
    if any(is_parquet(os.fspath(one)) for one in job.images) or any(is_far(path) for path in manifest.paths(0)[:1]):
        return job.listed().reader
    return None


def _watched(
    rows: Iterable["Prediction"], tally: PredictionTally, progress: ProgressReport, before: int, total: int
) -> Iterator["Prediction"]:
    """The rows of a part; the progress counts them after the rows of the parts that are there."""
    for done, row in enumerate(rows, start=1):
        tally.add(row)
        yield row
        progress.update(before + done, total)


def _rows_there(files: PartsLayout, manifest: "Manifest") -> int:
    """Number of rows in the parts that are there."""
    there = files.finished()
    return sum(
        manifest.num_rows_of(number) for number in range(manifest.num_parts) if files.part_path(number).name in there
    )
