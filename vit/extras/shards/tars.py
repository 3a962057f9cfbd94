"""Tar files of others, in WebDataset's layout -> an index; no tar file is changed or unpacked.

KEY.jpg is an image, and the other files of KEY say what it shows: `tar_labels` has the rules for labels and splits.
"""

import hashlib
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from vit.data.core.formats import has_image_extension
from vit.data.core.image_bytes import MAX_BYTES, ImageError, content_hash
from vit.data.core.image_files import is_hidden
from vit.data.pixels.decode import check_header
from vit.errors import DataError
from vit.extras.shards.index import ShardIndex
from vit.extras.shards.index import write_index as write_index
from vit.extras.shards.tar_labels import JSON_NAMES, TarImage, find_labels, find_splits
from vit.tasks.label_text import sorted_classes

MAX_LABEL_BYTES = 1 << 20


@dataclass
class SkippedFiles:
    """Files of tar files that no index holds."""

    left_out: list[str] = field(default_factory=list)  # names of images that cannot be read, with the reason
    num_others: int = 0  # number of files that are neither images nor labels
    num_hidden: int = 0  # number of files of systems and programs, such as those in .thumbnails/


@dataclass(frozen=True)
class IndexedTars:
    """The index of some tar files, and what it does not hold."""

    index: ShardIndex  # the images
    labels_from: str  # where the labels stand: ".cls", ".json" or "folders"
    has_split_folders: bool  # whether folders inside the shards name the splits, and not the paths of the shards
    skipped: SkippedFiles  # the other files


def index_tars(folder: Path, names: list[str], progress: Callable[[int, int], None]) -> IndexedTars:
    """Read every tar file once. Where two shards have the same key, the path of the shard comes before all keys.

    Args:
        folder: folder that the shards are relative to.
        names: paths of the tar files, relative to the folder.
        progress: called with the number of finished and of all tar files.

    Raises:
        DataError: a file is not a tar file or is cut, or an image has no label or shares its key.
    """
    rows: list[TarImage] = []
    skipped = SkippedFiles()
    for number, name in enumerate(names):
        entries: dict[str, TarImage] = {}
        _read_tar(folder / name, number, entries, skipped)
        rows += [entry for entry in entries.values() if entry.offset >= 0]
        progress(number + 1, len(names))
    if not rows:
        hidden = f" ({skipped.num_hidden:,} hidden or system files)" if skipped.num_hidden else ""
        raise DataError(
            f"the {len(names)} tar files of {folder} hold no images{hidden}", "give the folder of image shards"
        )
    splits = find_splits(rows, names)
    labels_from, labels = find_labels(rows, names, splits.depth)
    is_unique = len({entry.key for entry in rows}) == len(rows)
    index = ShardIndex(
        keys=[entry.key if is_unique else f"{names[entry.shard][: -len('.tar')]}/{entry.key}" for entry in rows],
        labels=labels,
        splits=splits.of_images,
        groups=[""] * len(rows),
        shard_names=tuple(names),
        shards=np.array([entry.shard for entry in rows], dtype=np.int64),
        offsets=np.array([entry.offset for entry in rows], dtype=np.int64),
        lengths=np.array([entry.length for entry in rows], dtype=np.int64),
        sha256=[entry.sha256 for entry in rows],
        content_hashes=[entry.content_hash for entry in rows],
        class_names=sorted_classes(
            label for label, split in zip(labels, splits.of_images, strict=True) if split == "train"
        ),
    )
    return IndexedTars(index, labels_from, splits.depth > 0, skipped)


def _read_tar(path: Path, number: int, entries: dict[str, TarImage], skipped: SkippedFiles) -> None:
    """Add the images of a tar file to `entries`, and the others to `skipped`."""
    links: list[tarfile.TarInfo] = []
    try:
        with open(path, "rb") as file:
            for member in _members(file):
                name = _path_of(member.name)
                if member.isdir():
                    continue
                if any(is_hidden(part) for part in name.parts if part != ".."):
                    skipped.num_hidden += 1
                elif member.islnk():
                    links.append(member)
                elif member.isreg() and not member.issparse():
                    _add_file(path, number, name, file, member, entries, skipped)
                else:
                    _leave_out(path, name, member, skipped)
            targets = _targets(file, {_path_of(link.linkname) for link in links})
            for link in links:
                name, target = _path_of(link.name), targets.get(_path_of(link.linkname))
                if target is None:
                    _leave_out(path, name, link, skipped)
                else:
                    _add_file(path, number, name, file, target, entries, skipped)
    except (tarfile.TarError, OSError, EOFError) as error:
        packed = " (compressed shards cannot be read in any order)" if path.name.endswith(("gz", "xz", "bz2")) else ""
        raise DataError(
            f"{path} is not a whole tar file: {error}{packed}", "restore it, or unpack and pack it again without gzip"
        ) from error


def _members(file: IO[bytes]) -> Iterator[tarfile.TarInfo]:
    """The entries of a tar file, from its beginning."""
    file.seek(0)
    with tarfile.open(fileobj=file, mode="r:") as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # tarfile keeps every entry otherwise
            yield member


def _path_of(name: str) -> PurePosixPath:
    """The path of an entry, relative to the tar file."""
    return PurePosixPath(re.sub(r"^(\./|/)+", "", name))


def _targets(file: IO[bytes], wanted: AbstractSet[PurePosixPath]) -> dict[PurePosixPath, tarfile.TarInfo]:
    """The files that hard links stand for: a second file on a disk with the bytes of a first is such a link.

    The headers are read again for them, because most tar files have no links, and entries of a million files are large.
    """
    if not wanted:
        return {}
    files = (member for member in _members(file) if member.isreg() and not member.issparse())
    return {path: member for member in files if (path := _path_of(member.name)) in wanted}


def _leave_out(path: Path, name: PurePosixPath, member: tarfile.TarInfo, skipped: SkippedFiles) -> None:
    """Name an image that is only a link, and count other entries that are not files."""
    if (member.islnk() or member.issym()) and has_image_extension(name):
        skipped.left_out.append(f"{path}: {name}: a link inside the tar file, to {member.linkname}")
    else:
        skipped.num_others += 1


def _add_file(
    path: Path,
    number: int,
    name: PurePosixPath,
    file: IO[bytes],
    member: tarfile.TarInfo,
    entries: dict[str, TarImage],
    skipped: SkippedFiles,
) -> None:
    """Add an image, or what another file says of it.

    Args:
        path, number: the tar file.
        name: path of the file in it.
        file: the open tar file.
        member: the entry with the bytes.
        entries: images by their keys.
    """
    stem, _, ending = name.name.partition(".")
    key = str(name.parent / stem) if name.parent.name else stem
    entry = entries.setdefault(key, TarImage(key, number))
    if ending in ("cls", "json"):
        _add_label(entry, ending, _member_bytes(file, member, MAX_LABEL_BYTES), f"{path}: {name}")
    elif stem and has_image_extension(name):
        _add_image(entry, file, member, f"{path}: {name}", skipped.left_out)
    else:
        skipped.num_others += 1


def _member_bytes(file: IO[bytes], member: tarfile.TarInfo, limit: int) -> bytes:
    """The bytes of an entry.

    Raises:
        OSError: the entry is larger than the limit, or the file ends before.
    """
    if member.size > limit:
        raise OSError(f"{member.name} has {member.size:,} bytes; the limit is {limit:,}")
    file.seek(member.offset_data)
    data = file.read(member.size)
    if len(data) < member.size:
        raise OSError(f"it ends inside {member.name}")
    return data


def _add_image(entry: TarImage, file: IO[bytes], member: tarfile.TarInfo, where: str, left_out: list[str]) -> None:
    if entry.offset >= 0:
        raise DataError(f"{where}: the key {entry.key!r} has two images", "give each image a key of its own")
    data = _member_bytes(file, member, MAX_BYTES)
    try:
        if not data:
            raise ImageError(where, "not_image", "the file is empty")
        check_header(data, where)
    except ImageError as error:
        left_out.append(f"{where}: {error.reason}")
        return
    entry.offset, entry.length = member.offset_data, member.size
    entry.sha256, entry.content_hash = hashlib.sha256(data).digest(), content_hash(data)


def _add_label(entry: TarImage, ending: str, data: bytes, where: str) -> None:
    try:
        if ending == "cls":
            entry.cls = data.decode("utf-8").strip()
            return
        content = json.loads(data)
    except (UnicodeDecodeError, ValueError) as error:
        raise DataError(f"{where} is not UTF-8 text or JSON: {error}", "correct it, or move it elsewhere") from error
    if isinstance(content, dict):
        values = (content[name] for name in JSON_NAMES if name in content)
        entry.json_label = next((str(value).strip() for value in values if isinstance(value, str | int)), "")
