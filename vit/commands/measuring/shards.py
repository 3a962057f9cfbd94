"""`vit data pack DATA OUT` and `vit data index SHARDS`: images in tar shards with an index"""

import os
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from vit.atomic_files import ABANDONED_SECONDS, atomic_write
from vit.commands.cli.arguments import PositiveInt, StrPath, path_text
from vit.console import ProgressReport, Reporter, count_of
from vit.csv_files import new_table
from vit.data.core.dataset_names import INDEX_NAME, TableColumns, check_data
from vit.errors import DataError, EmptyClassError, ResourceError, UsageError, explained, some_of
from vit.registry import SOURCES

LEFT_OUT = "left_out.csv"
_MEGABYTE = 10**6
_LeftOut = tuple[str, str, str]  # path and split of an image that cannot be read, and the reason


@dataclass(frozen=True)
class PackedShards:
    """What `vit data pack` or `vit data index` made."""

    index: Path  # the index
    num_images: int  # number of images in it
    num_shards: int  # number of shards
    num_left_out: int  # number of images that cannot be read, and are in no row


def pack(
    data: StrPath,
    out: StrPath,
    *,
    groups: str | None = None,
    root: StrPath | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    shard_mb: PositiveInt = 64,
) -> PackedShards:
    """Write the images of a data set into tar shards, with an index that vit and other programs read.

    The shards have WebDataset's layout. The same images give the same bytes. OUT is complete or absent.

    Args:
        data: DATA as for 'vit train'
        out: new folder for the shards and index.parquet
        groups: regular expression that finds the group in each path, as data.groups of 'vit train'
        root: folder of torchvision data sets
        image_column: column of images (parquet) or of paths (CSV); null: the only one, or one with a usual name
        label_column: column of labels in a parquet table or a CSV; null: the only one, or the one with a usual name
        shard_mb: size of a shard in megabytes; the last image may exceed it

    Returns:
        The index, and counts of images and shards.

    Example:
        vit data pack photos/ photos_shards/
    """
    name, root, folder = os.fspath(data), path_text(root), Path(out).expanduser()
    check_data(name)
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"OUT {folder} exists", "give a new folder; a pack is never added to")

    from vit.data.core.groups import with_groups
    from vit.data.sources.sources import open_source

    try:
        source = open_source(name, root, columns=TableColumns(image_column, label_column))
    except EmptyClassError as error:
        raise error.without_option() from None
    source = with_groups(source, groups, "--groups")
    reporter = Reporter()
    for note in source.notes:
        reporter.notice(note)
    total = sum(map(len, source.splits.values()))
    reporter.notice(f"{count_of(total, 'image')} of {source.name} ({', '.join(source.splits)})")
    with _whole_folder(folder) as partial, ProgressReport(reporter, "image") as progress:
        left_out: list[_LeftOut] = SOURCES["pack"].load()(source, partial, shard_mb * _MEGABYTE, progress.update)
        if len(left_out) == total:
            raise DataError(f"no image of {name} can be read", f"see vit data check {shlex.quote(name)}")
        if left_out:
            with new_table(partial / LEFT_OUT, ("path", "split", "reason")) as table:
                for row in left_out:
                    table.row(row)
        sizes = [shard.stat().st_size for shard in partial.glob("*.tar")]
    _say_left_out(reporter, [f"{path}: {reason}" for path, _, reason in left_out], f" (see {folder / LEFT_OUT})")
    packed = PackedShards(folder / INDEX_NAME, total - len(left_out), len(sizes), len(left_out))
    images, shards = count_of(packed.num_images, "image"), count_of(len(sizes), "shard")
    reporter.line(f"{images} in {shards}, {sum(sizes) / _MEGABYTE:,.1f} MB, in {folder}")
    reporter.next_command(f"vit train {shlex.quote(os.fspath(folder))}")
    return packed


def index(shards: StrPath, *, output: StrPath | None = None) -> PackedShards:
    """Make an index of tar shards in WebDataset's layout, so that 'vit train' can read them. No shard is changed.

    The class of KEY.jpg stands in KEY.cls or KEY.json, or is the folder of KEY. The split is the first folder of each
    image, if every first folder is named like a split, such as train/. Otherwise it is a word of the shard's path,
    such as train, val, dev or test.

    Args:
        shards: folder with .tar files, which may lie in folders in it
        output: new .parquet file, in SHARDS or in a folder above it; null: SHARDS/index.parquet

    Returns:
        The index, and counts of images and shards.

    Example:
        vit data index imagenet_shards/
    """
    folder = Path(shards).expanduser()
    if not folder.is_dir():
        raise DataError(f"SHARDS {folder} is not a folder", "give the folder that holds the .tar files")

    default = folder / INDEX_NAME
    file = default if output is None else Path(output).expanduser()
    if file.exists():
        fix = f"'vit train {shlex.quote(os.fspath(file))}' reads it; for a new index move it, or give another --output"
        raise UsageError(f"the index {file} exists", fix)
    base = file.resolve().parent
    if file.suffix != ".parquet" or not folder.resolve().is_relative_to(base):
        raise UsageError(f"--output {file} is not a .parquet file in {folder} or above it", f"give {default}")
    names = sorted(path.relative_to(base).as_posix() for path in folder.resolve().rglob("*.tar") if path.is_file())
    if not names:
        raise DataError(f"{folder} has no .tar files", "give the folder of the shards; unpack .tar.gz to .tar first")
    reporter = Reporter()
    with ProgressReport(reporter, "shard") as progress:
        shard_index = SOURCES["tars"].load()(base, names, progress.update)
    explain = explained(ResourceError, f"cannot write {file}", "give another --output above SHARDS")
    with explain, atomic_write(file) as partial:
        shard_index.write(partial)
    _say_left_out(reporter, shard_index.left_out, "")
    if shard_index.num_others:
        reporter.notice(f"{count_of(shard_index.num_others, 'file')} of the shards: neither image nor label")
    if shard_index.num_hidden:
        reporter.notice(f"skipped: {shard_index.num_hidden:,} hidden or system files of the shards")
    in_splits = Counter(row.split for row in shard_index.rows)
    counts = ", ".join(f"{in_splits[split]:,} {split}" for split in ("train", "validation", "test") if in_splits[split])
    counts += " by their folders" * shard_index.has_split_folders
    classes = f"{len({row.label for row in shard_index.rows}):,} classes from {shard_index.labels_from}"
    images, num_shards = count_of(len(shard_index.rows), "image"), count_of(len(names), "shard")
    reporter.line(f"{images} in {num_shards} ({counts}), {classes}, in {file}")
    reporter.next_command(f"vit train {shlex.quote(os.fspath(file))}")
    return PackedShards(file, len(shard_index.rows), len(names), len(shard_index.left_out))


@contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    """A folder that gets its name at the end of the block. What killed packs have left for an hour is removed first."""
    with explained(ResourceError, f"cannot write {folder}", "choose another OUT, or free space"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left in folder.parent.glob(f".{folder.name}.*.partial"):
            changed = max(path.stat().st_mtime for path in (left, *left.rglob("*")))
            if left.is_dir() and time.time() - changed >= ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        beginning = f".{folder.name}."
        with TemporaryDirectory(".partial", beginning, folder.parent, ignore_cleanup_errors=True) as partial:
            written = Path(partial) / folder.name
            written.mkdir()
            yield written
            written.rename(folder)


def _say_left_out(reporter: Reporter, lines: Sequence[str], where: str) -> None:
    if lines:
        images = count_of(len(lines), "image")
        reporter.warn(f"left out {images} that cannot be read{where}: {some_of(lines, 3, '; ')}")
