"""Tar files of others, in WebDataset's layout -> an index; no tar file is changed or unpacked.

The class of KEY.jpg is in KEY.cls, in KEY.json ("label", "class", "class_name" or "cls"), or the folder of KEY. One of
these holds for all images: the first that every image has. The split of a shard is a word of its path: train, val, ...
"""

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from vit.data.dataset_names import SPLIT_SYNONYMS
from vit.data.decode import check_header
from vit.data.formats import has_image_extension
from vit.data.image_bytes import MAX_BYTES, ImageError, content_hash
from vit.data.shards.index import ShardIndex
from vit.errors import DataError

JSON_NAMES = ("label", "class", "class_name", "cls")  # of the label in a .json
MAX_LABEL_BYTES = 1 << 20
_SPLIT_OF = {name: split for split, names in SPLIT_SYNONYMS.items() for name in names}


@dataclass
class _Entry:
    """An image of a tar file, and what its other files say."""

    key: str
    shard: int
    offset: int = -1
    length: int = 0
    sha256: bytes = b""
    content_hash: str = ""
    cls: str = ""
    json_label: str = ""

    @property
    def folder(self) -> str:
        """Name of the folder of the key."""
        return PurePosixPath(self.key).parent.name


@dataclass(frozen=True)
class IndexedTars:
    """The index of some tar files, and what it does not hold.

    Attributes:
        index: the images.
        labels_from: where the labels stand: ".cls", ".json" or "folders".
        left_out: names of images that cannot be read, with the reason.
        num_others: number of files that are neither images nor labels.
    """

    index: ShardIndex
    labels_from: str
    left_out: list[str] = field(default_factory=list)
    num_others: int = 0


def index_tars(folder: Path, names: list[str], progress: Callable[[int, int], None]) -> IndexedTars:
    """Read every tar file once. Where two shards have the same key, the path of the shard comes before all keys.

    Args:
        folder: folder that the shards are relative to.
        names: paths of the tar files, relative to the folder.
        progress: called with the number of finished and of all tar files.

    Raises:
        DataError: a file is not a tar file or is cut, or an image has no label or shares its key.
    """
    rows: list[_Entry] = []
    left_out: list[str] = []
    others = 0
    for number, name in enumerate(names):
        entries: dict[str, _Entry] = {}
        others += _read_tar(folder / name, number, entries, left_out)
        rows += [entry for entry in entries.values() if entry.offset >= 0]
        progress(number + 1, len(names))
    if not rows:
        raise DataError(f"the {len(names)} tar files of {folder} hold no images", "give the folder of image shards")
    labels_from, labels = _labels(rows, names)
    splits = [_split_of(name) for name in names]
    is_unique = len({entry.key for entry in rows}) == len(rows)
    index = ShardIndex(
        keys=[entry.key if is_unique else f"{names[entry.shard][: -len('.tar')]}/{entry.key}" for entry in rows],
        labels=labels,
        splits=[splits[entry.shard] for entry in rows],
        groups=[""] * len(rows),
        shard_names=tuple(names),
        shards=np.array([entry.shard for entry in rows], dtype=np.int64),
        offsets=np.array([entry.offset for entry in rows], dtype=np.int64),
        lengths=np.array([entry.length for entry in rows], dtype=np.int64),
        sha256=[entry.sha256 for entry in rows],
        content_hashes=[entry.content_hash for entry in rows],
        class_names=_class_names(labels, [splits[entry.shard] for entry in rows]),
    )
    return IndexedTars(index, labels_from, left_out, others)


def _read_tar(path: Path, number: int, entries: dict[str, _Entry], left_out: list[str]) -> int:
    """Add the images of a tar file to `entries`, and return the number of other files."""
    others = 0
    try:
        with open(path, "rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # tarfile keeps every entry otherwise
                if not member.isreg() or member.issparse():
                    others += not member.isdir()
                    continue
                name = PurePosixPath(re.sub(r"^(\./|/)+", "", member.name))
                stem, _, ending = name.name.partition(".")
                key = str(name.parent / stem) if name.parent.name else stem
                entry = entries.setdefault(key, _Entry(key, number))
                if ending in ("cls", "json"):
                    _add_label(entry, ending, _member_bytes(file, member, MAX_LABEL_BYTES), f"{path}: {name}")
                elif stem and has_image_extension(name):
                    _add_image(entry, file, member, f"{path}: {name}", left_out)
                else:
                    others += 1
    except (tarfile.TarError, OSError, EOFError) as error:
        packed = " (compressed shards cannot be read in any order)" if path.name.endswith(("gz", "xz", "bz2")) else ""
        raise DataError(
            f"{path} is not a whole tar file: {error}{packed}", "restore it, or unpack and pack it again without gzip"
        ) from error
    return others


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


def _add_image(entry: _Entry, file: IO[bytes], member: tarfile.TarInfo, where: str, left_out: list[str]) -> None:
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


def _add_label(entry: _Entry, ending: str, data: bytes, where: str) -> None:
    try:
        if ending == "cls":
            entry.cls = data.decode("utf-8").strip()
            return
        content = json.loads(data)
    except (UnicodeDecodeError, ValueError) as error:
        raise DataError(f"{where} is not UTF-8 text or JSON: {error}", "correct it, or remove it") from error
    if isinstance(content, dict):
        values = (content[name] for name in JSON_NAMES if name in content)
        entry.json_label = next((str(value).strip() for value in values if isinstance(value, str | int)), "")


def _labels(rows: list[_Entry], names: list[str]) -> tuple[str, list[str]]:
    """Where the labels stand, and the label of each image."""
    ways = {
        ".cls": [entry.cls for entry in rows],
        ".json": [entry.json_label for entry in rows],
        "folders": [entry.folder for entry in rows],
    }
    for way, labels in ways.items():
        if all(labels):
            return way, labels
    best = max(ways, key=lambda way: sum(map(bool, ways[way])))
    first = rows[next(place for place, label in enumerate(ways[best]) if not label)]
    has = sum(map(bool, ways[best]))
    raise DataError(
        f"{names[first.shard]}: {first.key!r} has no label ({has:,} of {len(rows):,} images have one in {best})",
        f"give every image KEY.cls, KEY.json with {' or '.join(map(repr, JSON_NAMES[:2]))}, or a folder",
    )


def _class_names(labels: list[str], splits: list[str]) -> tuple[str, ...]:
    """The classes of the training images; class numbers are sorted as numbers."""
    known = {label for label, split in zip(labels, splits, strict=True) if split == "train"}
    if all(re.fullmatch(r"[0-9]{1,9}", name) for name in known):
        return tuple(sorted(known, key=lambda name: (int(name), name)))
    return tuple(sorted(known))


def _split_of(name: str) -> str:
    """The split that a word of a shard's path names; "train" where none does."""
    words = re.split(r"[^a-z]+", os.fspath(name).casefold())
    return next((_SPLIT_OF[word] for word in reversed(words) if word in _SPLIT_OF), "train")
