"""Predictions in parts: any number of processes compute parts of one manifest, and each part is whole or absent

A process holds the lock of the part that it computes. The lock of a killed process is free, and another process takes
the part. Nothing else is shared, so that workers may begin and end at any time.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from vit.atomic_files import atomic_write, remove_partial
from vit.checkpoints.locking import hold
from vit.errors import first_line
from vit.inference.manifest import Manifest
from vit.inference.prediction import Prediction
from vit.inference.rows import ParquetWriter, parquet_text
from vit.layout import PartsLayout

_POLL = 1.0  # seconds between two looks at parts that other processes compute
_MODEL, _FIRST, _COUNT = "vit.model", "vit.first_row", "vit.rows"
_BATCH = 4096  # rows in memory when parts are read


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
    """Write a part, whole or not at all. The caller holds its lock.

    Args:
        number: number of the part.
        rows: predictions for the images of the part, in their order.
        open_rows: function that makes the writer of a file, with the columns of this prediction.
    """
    path = files.part_path(number)
    remove_partial(files.path, path.name)  # of a killed process that held the lock before
    with atomic_write(path) as partial:
        writer = open_rows(partial)
        writer.metadata = {
            _MODEL: manifest.asked.model,
            _FIRST: str(manifest.first_row(number)),
            _COUNT: str(manifest.num_rows_of(number)),
        }
        with writer:
            for row in rows:
                writer.write(row)


@dataclass
class PartsCheck:
    """What is wrong with the parts of a manifest. Nothing, if every image has exactly one row."""

    num_rows: int = 0  # number of rows that were compared with the manifest
    missing: list[int] = field(default_factory=list)  # numbers of parts that are not there
    # {file name: reason} of parts that cannot be read, or that are not those of the manifest
    damaged: dict[str, str] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)  # names of parts with numbers that the manifest does not have
    statuses: dict[str, int] = field(default_factory=dict)  # {status: number of rows}

    @property
    def is_whole(self) -> bool:
        """Whether every image of the manifest has exactly one row."""
        return not (self.missing or self.damaged or self.foreign)


def check_parts(files: PartsLayout, manifest: Manifest, progress: Callable[[int, int], None]) -> PartsCheck:
    """Compare every row of every part with the manifest."""
    found = PartsCheck()
    there = files.finished()
    expected = {files.part_path(number).name for number in range(manifest.num_parts)}
    found.foreign = sorted(there - expected)
    for number in range(manifest.num_parts):
        path = files.part_path(number)
        if path.name not in there:
            found.missing.append(number)
            continue
        try:
            problem = _problem(path, manifest, number, found)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            problem = first_line(error)
        if problem:
            found.damaged[path.name] = problem
        progress(number + 1, manifest.num_parts)
    return found


def _problem(path: Path, manifest: Manifest, number: int, found: PartsCheck) -> str:
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
        expected = wanted[start : start + len(paths)]
        if paths != expected:
            row = next(place for place, pair in enumerate(zip(paths, expected, strict=True)) if pair[0] != pair[1])
            return f"row {start + row} is of {paths[row]}, and the manifest has {expected[row]}"
        for status in statuses:
            found.statuses[status] = found.statuses.get(status, 0) + 1
        start += len(paths)
    found.num_rows += start
    return ""


def tables(files: PartsLayout, manifest: Manifest) -> Iterator[pa.Table]:
    """The rows of all parts in the order of the manifest, a few thousand at a time."""
    for number in range(manifest.num_parts):
        for batch in pq.ParquetFile(files.part_path(number)).iter_batches(_BATCH):
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None)
