"""Predictions in parts: any number of processes compute parts of one manifest, and each part is whole or absent

The manifest has every image in order, in row groups of one part each, and what decides the rows. A worker reads the row
group of its part alone, so that its memory does not grow with the number of images. A process holds the lock of the
part that it computes. The lock of a killed process is free, and another process takes the part. Nothing else is shared,
so that workers may begin and end at any time.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain, zip_longest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from vit.atomic_files import atomic_write, remove_partial
from vit.checkpoints.locking import alone, hold
from vit.errors import DAMAGE, DataError, ResourceError, UsageError, explained, first_line
from vit.inference.prediction import Prediction
from vit.inference.rows import ParquetWriter, parquet_text
from vit.layout import PartsLayout

_KEY = b"vit"
_MODEL, _FIRST, _COUNT = "vit.model", "vit.first_row", "vit.rows"
_POLL = 1.0  # seconds between two looks at parts that other processes compute
_BATCH = 4096  # rows in memory when parts are read


@dataclass(frozen=True)
class RowsAsked:
    """What decides the rows of a prediction in parts. All workers have the same."""

    images: tuple[str, ...]  # IMAGES as given
    folder: str  # folder that relative IMAGES are in; "" where all are absolute
    model: str  # SHA-256 of the model's file
    options: dict[str, str]  # {option: its value as text} of those that change a row
    rows_per_part: int  # number of rows of each part but the last

    def check_equal(self, other: "RowsAsked", where: Path) -> None:
        """Raise UsageError with the first difference to what another command asked for."""
        for name, ours, theirs in (
            ("IMAGES", self.images, other.images),
            ("the folder that IMAGES are relative to", self.folder, other.folder),
            ("MODEL (by its SHA-256)", self.model, other.model),
            ("--rows_per_part", self.rows_per_part, other.rows_per_part),
            *((f"--{name}", self.options.get(name), other.options.get(name)) for name in self.options | other.options),
        ):
            if ours != theirs:
                before, now = (" ".join(value) if isinstance(value, tuple) else value for value in (theirs, ours))
                problem = f"--parts {where} was begun with another value of {name}: {before}, and now {now}"
                raise UsageError(problem, "give the same command again, or another folder")


class Manifest:
    """The images of a prediction in parts. DataError: it is damaged, or not a manifest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        problem = f"{path} is not a manifest of 'vit predict --parts'"
        with explained(DataError, problem, "give another folder", (pa.ArrowException, *DAMAGE)):
            self._file = pq.ParquetFile(path)
            content = json.loads((self._file.schema_arrow.metadata or {})[_KEY])
            self.asked = RowsAsked(**{**content, "images": tuple(content["images"])})
        self.num_rows, self.num_parts = self._file.metadata.num_rows, self._file.num_row_groups

    def paths(self, part: int) -> list[str]:
        """Paths of the images of a part; bytes in the file, because names of files need not be UTF-8."""
        column = self._file.read_row_group(part).column("path")
        return [os.fsdecode(path) for path in column.to_pylist()]

    def num_rows_of(self, part: int) -> int:
        """Number of images of a part."""
        return int(self._file.metadata.row_group(part).num_rows)

    def check_images(self, paths: Sequence[str], where: Path) -> None:
        """Raise UsageError with the first difference to the images that are there now."""
        known = chain.from_iterable(map(self.paths, range(self.num_parts)))
        pairs = enumerate(zip_longest(paths, known), start=1)
        changed = next(((number, now, then) for number, (now, then) in pairs if now != then), None)
        if changed is None:
            return
        number, now, then = changed
        first = f"{now} is new" if then is None else f"image {number:,} was {then}"
        more = len(paths) - self.num_rows
        than = f"{abs(more):,} {'more' if more > 0 else 'fewer'} than then" if more else "as then"
        raise UsageError(
            f"IMAGES have changed since --parts {where} was begun: they are {len(paths):,} images now, {than}; {first}",
            "give another folder to --parts, or restore IMAGES until all parts are there",
        )


@contextmanager
def open_manifest(files: PartsLayout, asked: RowsAsked, list_paths: Callable[[], Sequence[str]]) -> Iterator[Manifest]:
    """The manifest of a folder; written by the first of several processes, which lists the images.

    The images of an existing manifest are listed again and compared. A folder of many millions of files takes long, so
    one process does so for all that run at the same time: it holds a lock until the end of the block.

    UsageError: the folder has other files, or was begun with other values or images. DataError: there are no images, or
    the manifest is damaged.
    """
    _check_folder(files)
    with ExitStack() as held:
        with alone(files.lock_path):
            lock = hold(files.listing_lock_path, wait=False)
            if lock is not None:
                held.enter_context(lock)
                held.callback(files.listing_lock_path.unlink, missing_ok=True)
            is_new = not files.manifest_path.is_file()
            if is_new:
                _write(files.manifest_path, asked, _without_own(list_paths(), files))
            manifest = Manifest(files.manifest_path)
            asked.check_equal(manifest.asked, files.path)
            if lock is not None and not is_new:
                manifest.check_images(_without_own(list_paths(), files), files.path)
        yield manifest


def _check_folder(files: PartsLayout) -> None:
    """Make the folder. Raise UsageError if it exists with files of others."""
    with explained(ResourceError, f"cannot make the folder --parts {files.path}", "give another"):
        files.path.mkdir(parents=True, exist_ok=True)
        locks = (files.lock_path, files.listing_lock_path)
        others = [path for path in files.path.iterdir() if not path.name.startswith(".") and path not in locks]
    if others and not files.manifest_path.is_file():
        problem = f"--parts {files.path} holds other files, such as {min(others).name}"
        raise UsageError(problem, "give a new or an empty folder")


def _without_own(paths: Sequence[str], files: PartsLayout) -> Sequence[str]:
    """The images without files of the folder of parts, which may lie in a folder of images."""
    parts = files.path.resolve()
    others = [path for path in paths if parts.name not in path or not Path(path).parent.resolve().is_relative_to(parts)]
    if not others:
        raise DataError(f"IMAGES name no file outside of --parts {files.path}", "give files, folders or patterns")
    return others


def _write(path: Path, asked: RowsAsked, paths: Sequence[str]) -> None:
    schema, size = pa.schema([("path", pa.binary())], metadata={_KEY: json.dumps(asdict(asked))}), asked.rows_per_part
    with atomic_write(path) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for start in range(0, len(paths), size):
            column = pa.array([os.fsencode(one) for one in paths[start : start + size]], pa.binary())
            writer.write_table(pa.table([column], schema=schema), row_group_size=size)


def claimed(files: PartsLayout, manifest: Manifest) -> Iterator[int]:
    """Numbers of parts to compute. This process alone holds each of them until it asks for the next one.

    The numbers end when all parts are there. While other processes compute the last ones, this process waits, and
    takes over the part of a process that was killed.
    """
    while True:
        there = files.finished()
        left = [number for number in range(manifest.num_parts) if files.part_path(number).name not in there]
        if not left:
            return
        has_found = False
        for number in left:
            lock = files.part_lock_path(number)
            file = hold(lock, wait=False)
            if file is None:
                continue
            with file:
                try:
                    if not files.part_path(number).is_file():
                        has_found = True
                        yield number
                finally:
                    lock.unlink(missing_ok=True)
        if not has_found:
            time.sleep(_POLL)


def write_part(
    files: PartsLayout,
    manifest: Manifest,
    number: int,
    rows: Iterable[Prediction],
    open_rows: Callable[[Path], ParquetWriter],
) -> None:
    """Write a part, whole or not at all, by the writer that `open_rows` makes. The caller holds its lock."""
    path = files.part_path(number)
    remove_partial(files.path, path.name)  # of a killed process that held the lock before
    with atomic_write(path) as partial:
        writer = open_rows(partial)
        first, count = str(number * manifest.asked.rows_per_part), str(manifest.num_rows_of(number))
        writer.metadata = {_MODEL: manifest.asked.model, _FIRST: first, _COUNT: count}
        with writer:
            for row in rows:
                writer.write(row)


@dataclass
class PartsCheck:
    """What is wrong with the parts of a manifest. Nothing, if every image has exactly one row."""

    num_rows: int = 0  # that were compared with the manifest
    missing: list[int] = field(default_factory=list)  # numbers of parts that are not there
    damaged: dict[str, str] = field(default_factory=dict)  # {file name: reason} of parts that are not the manifest's
    foreign: list[str] = field(default_factory=list)  # names of parts with numbers that the manifest does not have
    statuses: Counter[str] = field(default_factory=Counter)  # {status: number of rows}

    @property
    def is_whole(self) -> bool:
        """Whether every image of the manifest has exactly one row."""
        return not (self.missing or self.damaged or self.foreign)


def check_parts(files: PartsLayout, manifest: Manifest, progress: Callable[[int, int], None]) -> PartsCheck:
    """Compare every row of every part with the manifest."""
    check, there = PartsCheck(), files.finished()
    check.foreign = sorted(there - {files.part_path(number).name for number in range(manifest.num_parts)})
    for number in range(manifest.num_parts):
        path = files.part_path(number)
        if path.name not in there:
            check.missing.append(number)
            continue
        try:
            problem = _problem(path, manifest, number, check)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            problem = first_line(error)
        if problem:
            check.damaged[path.name] = problem
        progress(number + 1, manifest.num_parts)
    return check


def _problem(path: Path, manifest: Manifest, number: int, check: PartsCheck) -> str:
    """Why a part is not that of the manifest; "" if it is. Its rows are counted."""
    file = pq.ParquetFile(path)
    metadata = file.schema_arrow.metadata or {}
    if metadata.get(_MODEL.encode(), b"").decode() != manifest.asked.model:
        return "it is of another model"
    wanted = [parquet_text(one) for one in manifest.paths(number)]
    if file.metadata.num_rows != len(wanted):
        return f"it has {file.metadata.num_rows:,} rows, and the manifest has {len(wanted):,}"
    start = 0
    for batch in file.iter_batches(_BATCH):
        paths, statuses = (batch.column(name).to_pylist() for name in ("path", "status"))  # all columns were read
        for row, (path_there, expected) in enumerate(zip(paths, wanted[start:], strict=False), start):
            if path_there != expected:
                return f"row {row} is of {path_there}, and the manifest has {expected}"
        check.statuses.update(statuses)
        start += len(paths)
    check.num_rows += start
    return ""


def tables(files: PartsLayout, manifest: Manifest) -> Iterator[pa.Table]:
    """The rows of all parts in the order of the manifest, a few thousand at a time."""
    for number in range(manifest.num_parts):
        for batch in pq.ParquetFile(files.part_path(number)).iter_batches(_BATCH):
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None)
