"""`vit predict --parts` and `--merge`: predictions of many images in parts, by any number of processes or tasks"""

import math
import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq

from vit.checkpoints.io import file_hash
from vit.checkpoints.run import checkpoint_of
from vit.commands.cli.arguments import ExecutorOptions, StrPath
from vit.commands.predicting.predicted_rows import (
    PredictionSummary,
    PredictionTally,
    check_labeled,
    count_statuses,
    show_predictions,
)
from vit.commands.predicting.prediction_setup import PredictionSetup
from vit.console import ProgressReport, Reporter, count_of
from vit.data.core.dataset_names import HUB, TableColumns, is_far, is_parquet
from vit.errors import BadInputsError, DataError, UsageError, some_of
from vit.inference.engines.engine_names import OPENVINO
from vit.inference.files import ListedImages, list_images
from vit.inference.parts import Manifest, RowsAsked, check_parts, claimed, open_manifest, tables, write_part
from vit.inference.prediction import Prediction
from vit.inference.rows import LABELS, PROBABILITIES, ParquetWriter, write_tables
from vit.layout import PartsLayout
from vit.study.running.cluster import cluster_of
from vit.tasks.task import SINGLE_LABEL

_SHOWN = 5  # missing or damaged parts in an error
_POLL = 1.0  # seconds between two looks at the files
_GRACE = 20.0  # seconds in which the last files of a task may still appear on a shared file system


@dataclass(frozen=True)
class PartsJob:
    """What `vit predict --parts` was asked for, which is also a task of a cluster."""

    setup: PredictionSetup  # the model, and what was asked of it
    images: Sequence[StrPath]  # IMAGES; they are listed by the first of the processes that run at the same time
    folder: Path  # folder of the parts
    recursive: bool  # whether folders in folders are read
    rows_per_part: int  # number of rows of a part
    batch_size: int  # number of files computed at once
    columns: TableColumns  # columns of a table that are given by name
    home: Path = field(default_factory=Path.cwd)  # working folder of the command, from which its paths begin

    def __call__(self) -> None:
        """As a task of a cluster: compute the parts that no other task has computed or computes now."""
        os.chdir(self.home)
        self.setup.check()
        with suppress(BadInputsError):  # of images without a label, which the command counts over all tasks
            predict_in_parts(self, ExecutorOptions(), fail_on_bad=False)

    def saved(self) -> "PartsJob":
        """The same: parts that are there are passed over."""
        return self

    def listed(self) -> ListedImages:
        """The images and what reads them. A notice counts the folders that are not read."""
        listed = list_images(self.images, self.recursive, self.columns)
        Reporter().notice(listed.remarks)
        return listed

    def open_manifest(self, list_paths: Callable[[], Sequence[str]]) -> AbstractContextManager[Manifest]:
        """The manifest, written where there is none; `list_paths` runs unless a process has compared the images."""
        setup, file = self.setup, checkpoint_of(Path(self.setup.model))
        names = [os.fspath(one) if is_far(os.fspath(one)) else str(Path(one).expanduser()) for one in self.images]
        has_folder = [Path(name).is_absolute() or is_far(name) or name.startswith(HUB) for name in names]
        options = {
            **asdict(setup.wanted), "top_k": setup.top_k, "probabilities": setup.probabilities,
            "recursive": self.recursive, "precision": setup.precision, "engine": setup.engine,
            "image_column": self.columns.image,
        }  # fmt: skip
        # of the file that is computed; of a graph of OpenVINO with its weights
        model = "+".join(map(file_hash, [file, file.with_suffix(".bin")] if file.suffix == OPENVINO else [file]))
        folder, texts = "" if all(has_folder) else str(Path.cwd()), {name: str(one) for name, one in options.items()}
        asked = RowsAsked(tuple(names), folder, model, texts, self.rows_per_part)
        return open_manifest(PartsLayout(self.folder), asked, list_paths)


def predict_in_parts(job: PartsJob, where: ExecutorOptions, fail_on_bad: bool) -> PredictionSummary:
    """Compute the parts that no other process has computed or computes now, until all are there, and count its images.

    Raises:
        BadInputsError: files have no label, or the tasks ended before all parts were there.
        StoppedError: Ctrl-C ended the waiting for SLURM; the tasks go on.
    """
    reporter = Reporter()
    summary = _predict_here(job, reporter) if where.executor == "local" else _predict_on_cluster(job, where, reporter)
    check_labeled(summary, fail_on_bad)
    reporter.next_command(_merge_command(job.folder))
    return summary


def _predict_here(job: PartsJob, reporter: Reporter) -> PredictionSummary:
    setup, files, listed = job.setup, PartsLayout(job.folder), cache(job.listed)
    tally = PredictionTally(SINGLE_LABEL)
    with job.open_manifest(lambda: listed().paths) as manifest:
        if _num_missing(files, manifest, reporter):
            is_table = any(is_parquet(os.fspath(one)) for one in job.images)
            reader = listed().reader if is_table or any(map(is_far, manifest.paths(0)[:1])) else None
            predictor = setup.load(reporter, manifest.num_rows)
            num_ranked = setup.num_ranked(predictor)
            tally = PredictionTally(predictor.task, predictor.can_tell_unlike)

            def open_rows(path: Path) -> ParquetWriter:
                writer = ParquetWriter(path, setup.top_k)
                setup.configure(writer, predictor)
                return writer

            def predictions(number: int) -> Iterator[Prediction]:
                there = files.finished()
                before = [part for part in range(manifest.num_parts) if files.part_path(part).name in there]
                num_before = sum(map(manifest.num_rows_of, before))
                rows = predictor.predict_files(manifest.paths(number), num_ranked, job.batch_size, reader)
                for done, row in enumerate(rows, start=1):
                    tally.add(row)
                    yield row
                    progress.update(num_before + done, manifest.num_rows)

            with ProgressReport(reporter, "file") as progress:
                for number in claimed(files, manifest):
                    write_part(files, manifest, number, predictions(number), open_rows)
            reporter.notice(predictor.first_frames.warning)
    summary = tally.summary(job.folder)
    if summary.num_files:
        show_predictions(reporter, summary, tally)
    return summary


def _num_missing(files: PartsLayout, manifest: Manifest, reporter: Reporter) -> int:
    num_there = len(files.finished())
    reporter.notice(f"{num_there:,} of {manifest.num_parts:,} parts are there ({manifest.num_rows:,} images in all)")
    return manifest.num_parts - num_there


def _merge_command(folder: Path) -> str:
    return f"vit predict --merge {shlex.quote(str(folder))} --output predictions.parquet"


def merge_parts(folder: Path, output: Path | None, fail_on_bad: bool) -> PredictionSummary:
    """Prove that each image of a manifest has one row, and write all rows to `output`; DataError for a wrong part."""
    files, reporter = PartsLayout(folder), Reporter()
    if not files.manifest_path.is_file():
        raise DataError(f"{folder} is not a folder of 'vit predict --parts'", "give the folder of --parts")
    if output is not None and output.suffix.lower() not in (".parquet", ".csv"):
        raise UsageError(f"--output {output} ends in {output.suffix or 'nothing'}", "--merge writes .parquet or .csv")

    manifest = Manifest(files.manifest_path)
    with ProgressReport(reporter, "part") as progress:
        checked = check_parts(files, manifest, progress.update)
    if not checked.is_whole:
        names = [files.part_path(number).name for number in checked.missing]
        problems = [f"{len(names):,} missing ({some_of(names)})"] * bool(names)
        problems += [f"{name}: {reason}" for name, reason in list(checked.damaged.items())[:_SHOWN]]
        problems += [f"{some_of(checked.foreign)}: not in the manifest"] * bool(checked.foreign)
        problem = f"{folder} does not have one row for each image: {'; '.join(problems)}"
        raise DataError(problem, "move damaged parts elsewhere, and give the command with --parts again")
    counts = ", ".join(f"{count:,} {status}" for status, count in sorted(checked.statuses.items()))
    reporter.line(f"{checked.num_rows:,} images, each with exactly one row, in {manifest.num_parts:,} parts: {counts}")
    summary = PredictionSummary(output or folder, None, *count_statuses(checked.statuses), {})
    following = _merge_command(folder)
    if output is not None:
        write_tables(output, tables(files, manifest))
        reporter.line(f"{count_of(checked.num_rows, 'row')} in {output}")
        labeled = "LABELS.csv" if PROBABILITIES in pq.read_schema(files.part_path(0)).names else "LABELED_FOLDER"
        following = f"vit evaluate MODEL {labeled}"
    check_labeled(summary, fail_on_bad)
    reporter.next_command(following)
    return summary


def _predict_on_cluster(job: PartsJob, where: ExecutorOptions, reporter: Reporter) -> PredictionSummary:
    files = PartsLayout(job.folder.absolute())
    with job.open_manifest(lambda: job.listed().paths) as manifest:  # tasks do not list the images while this runs
        before, num_parts = files.finished(), manifest.num_parts
        tasks = [job] * min(where.jobs or 1, _num_missing(files, manifest, reporter))
        if tasks:
            started = f"{count_of(len(tasks), 'task')} of {where.executor.upper()}"
            reporter.notice(f"{started}; their logs are in {files.jobs_dir}")
            files.jobs_dir.mkdir(exist_ok=True)
            with (
                cluster_of(where.executor).started(files.jobs_dir, tasks, where.cluster_options) as (names, alive),
                ProgressReport(reporter, "part") as progress,
            ):
                ended_at = math.inf
                while (num_there := len(files.finished())) < num_parts and time.monotonic() <= ended_at + _GRACE:
                    progress.update(num_there, num_parts)
                    ended_at = math.inf if alive(names) else min(ended_at, time.monotonic())
                    time.sleep(_POLL)
        summary = _summary(files, manifest, before)
        if num_missing := num_parts - len(files.finished()):
            problem = f"the tasks have ended, and {num_missing:,} of {num_parts:,} parts are missing"
            fix = f"see the logs in {files.jobs_dir}; the same command computes what is missing"
            raise BadInputsError(problem, fix)
    reporter.line(f"{count_of(summary.num_files, 'row')} in {job.folder}")
    return summary


def _summary(files: PartsLayout, manifest: Manifest, before: Collection[str]) -> PredictionSummary:
    """Counts of the parts that were not there before."""
    statuses, labels = Counter[str](), Counter[str]()
    for path in map(files.part_path, range(manifest.num_parts)):
        if path.name in before or not path.is_file():
            continue
        answer = "label" if "label" in pq.read_schema(path).names else LABELS  # one class, or a list of labels
        table = pq.read_table(path, columns=["status", answer])
        statuses.update(table["status"].to_pylist())
        for answers in filter(None, table[answer].to_pylist()):
            labels.update([answers] if isinstance(answers, str) else answers)
    return PredictionSummary(files.path, None, *count_statuses(statuses), dict(labels))
