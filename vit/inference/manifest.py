"""The manifest of predictions in parts: every image in order, in row groups of one part each, and what decides the rows

A worker reads the row group of its part alone, so that its memory does not grow with the number of images. Paths are
bytes, because names of files need not be UTF-8.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from vit.atomic_files import atomic_write
from vit.checkpoints.locking import alone, hold
from vit.errors import DataError, ResourceError, UsageError, first_line
from vit.layout import PartsLayout

_KEY = b"vit"
_SCHEMA = pa.schema([("path", pa.binary())])


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
        for name, own, theirs in (
            ("IMAGES", self.images, other.images),
            ("the folder that IMAGES are relative to", self.folder, other.folder),
            ("MODEL (by its SHA-256)", self.model, other.model),
            ("--rows_per_part", self.rows_per_part, other.rows_per_part),
            *((f"--{name}", self.options.get(name), other.options.get(name)) for name in self.options | other.options),
        ):
            if own != theirs:
                raise UsageError(
                    f"--parts {where} was begun with another value of {name}: {_text(theirs)}, and now {_text(own)}",
                    "give the same command again, or another folder",
                )


class Manifest:
    """The images of a prediction in parts.

    Raises:
        DataError: it is damaged, or not a manifest.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = pq.ParquetFile(path)
            found = json.loads((self._file.schema_arrow.metadata or {})[_KEY])
            self.asked = RowsAsked(**{**found, "images": tuple(found["images"])})
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path} is not a manifest of 'vit predict --parts': {first_line(error)}", "give another folder"
            ) from error
        self.num_rows, self.num_parts = self._file.metadata.num_rows, self._file.num_row_groups

    def paths(self, part: int) -> list[str]:
        """Paths of the images of a part."""
        column = self._file.read_row_group(part).column("path")
        return [os.fsdecode(path) for path in column.to_pylist()]

    def num_rows_of(self, part: int) -> int:
        """Number of images of a part."""
        return int(self._file.metadata.row_group(part).num_rows)

    def first_row(self, part: int) -> int:
        """Number of images in the parts before this one."""
        return part * self.asked.rows_per_part


@contextmanager
def open_manifest(files: PartsLayout, asked: RowsAsked, list_paths: Callable[[], Sequence[str]]) -> Iterator[Manifest]:
    """The manifest of a folder; written by the first of several processes, which lists the images.

    The images of an existing manifest are listed again and compared. A folder of many millions of files takes long, so
    one process does so for all that run at the same time: it holds a lock until the end of the block.

    Args:
        asked: what decides the rows.
        list_paths: function that lists the images.

    Raises:
        UsageError: the folder has other files, or was begun with other values or images.
        DataError: there are no images, or the manifest is damaged.
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
                _check_same_images(manifest, _without_own(list_paths(), files), files.path)
        yield manifest


def _without_own(paths: Sequence[str], files: PartsLayout) -> Sequence[str]:
    """The images without files of the folder of parts, which may lie in a folder of images."""
    own = files.path.resolve()
    kept = [path for path in paths if own.name not in path or not Path(path).parent.resolve().is_relative_to(own)]
    if not kept:
        raise DataError(f"IMAGES name no file outside of --parts {files.path}", "give files, folders or patterns")
    return kept


def _check_same_images(manifest: Manifest, paths: Sequence[str], where: Path) -> None:
    """Raise UsageError with the first difference between the images of a manifest and those that are there now."""
    start = 0
    for part in range(manifest.num_parts):
        known = manifest.paths(part)
        now = paths[start : start + len(known)]
        if list(now) != known:
            place = next((i for i, (one, other) in enumerate(zip(known, now, strict=False)) if one != other), len(now))
            raise _changed(manifest, paths, where, f"image {start + place + 1:,} was {known[place]}")
        start += len(known)
    if start < len(paths):
        raise _changed(manifest, paths, where, f"{paths[start]} is new")


def _changed(manifest: Manifest, paths: Sequence[str], where: Path, first: str) -> UsageError:
    count, before = len(paths), manifest.num_rows
    more = (
        f"{abs(count - before):,} {'more' if count > before else 'fewer'} than then" if count != before else "as then"
    )
    return UsageError(
        f"IMAGES have changed since --parts {where} was begun: they are {count:,} images now, {more}; {first}",
        "give another folder to --parts, or restore IMAGES until all parts are there",
    )


def _check_folder(files: PartsLayout) -> None:
    """Make the folder. Raise UsageError if it exists with files of others."""
    try:
        files.path.mkdir(parents=True, exist_ok=True)
        own = (files.lock_path, files.listing_lock_path)
        others = [path for path in files.path.iterdir() if not path.name.startswith(".") and path not in own]
    except OSError as error:
        raise ResourceError(f"cannot make the folder --parts {files.path}: {error.strerror}", "give another") from error
    if others and not files.manifest_path.is_file():
        raise UsageError(
            f"--parts {files.path} holds other files, such as {min(others).name}", "give a new or an empty folder"
        )


def _write(path: Path, asked: RowsAsked, paths: Sequence[str]) -> None:
    schema = _SCHEMA.with_metadata({_KEY: json.dumps(asdict(asked))})
    size = asked.rows_per_part
    with atomic_write(path) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for start in range(0, len(paths), size):
            column = pa.array([os.fsencode(one) for one in paths[start : start + size]], pa.binary())
            writer.write_table(pa.table([column], schema=schema), row_group_size=size)


def _text(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)
