"""A source -> tar shards in WebDataset's layout, with an index; the same images give the same bytes.

Each image is KEY.ENDING in a tar file. Beside it stands KEY.cls with the number of its class, or KEY.json with its
labels. The images of a split have shards of their own. They are shuffled before they are divided, because a training
mixes only images of neighboring shards. The index lists them in the order of the source.
"""

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from PIL import Image

from vit.data.checks.contents import pixels_hash
from vit.data.core.dataset_names import INDEX_NAME
from vit.data.core.draws import seed_of
from vit.data.core.formats import FORMATS_OF
from vit.data.core.image_bytes import ImageError, content_hash
from vit.data.core.image_header import image_format
from vit.data.core.samples import Samples, Source, label_names
from vit.data.loading.threads import decode_threads
from vit.data.pixels.decode import check_header
from vit.data.splits.split import SPLITS
from vit.extras.shards.index import ShardIndex, write_index

_BLOCK = tarfile.BLOCKSIZE
_PER_PART = 256  # images that are read ahead of the tar file
_SHUFFLE = 0  # seed of the order of images in the shards


class LeftOut(NamedTuple):
    """An image that no shard holds: its path, its split, and why it cannot be read."""

    path: str
    split: str
    reason: str


@dataclass(frozen=True)
class _Encoded:
    """An image on its way into a shard."""

    row: int
    data: bytes
    ending: str
    sha256: bytes
    content_hash: str


@dataclass(frozen=True)
class _Row:
    """An image in its shard."""

    key: str
    shard: int
    offset: int
    length: int
    sha256: bytes
    content_hash: str


def pack(source: Source, folder: Path, shard_bytes: int, progress: Callable[[int, int], None]) -> list[LeftOut]:
    """Write the shards of a source and their index into an empty folder.

    Args:
        shard_bytes: size after which the next shard begins.
        progress: called with the number of finished images and the number of all images.

    Returns:
        Images that are left out, because they cannot be read.
    """
    writer = _ShardWriter(folder, shard_bytes)
    left_out: list[LeftOut] = []
    total, done = sum(map(len, source.splits.values())), 0
    names: set[str] = set()
    columns: dict[str, list[str]] = {"keys": [], "labels": [], "splits": [], "groups": []}
    found: list[_Row] = []
    for split in (name for name in SPLITS if name in source.splits):
        samples = source.splits[split]
        keys = [_new_key(path, names) for path in samples.paths]
        texts = label_names(samples, source.class_names)
        rows: dict[int, _Row] = {}
        writer.begin(split)
        order = np.random.Generator(np.random.Philox(seed_of(_SHUFFLE, 0))).permutation(len(samples)).tolist()
        with decode_threads() as parallel:
            for start in range(0, len(order), _PER_PART):
                part = order[start : start + _PER_PART]
                samples.prepare(part)
                for one in parallel(lambda row, images=samples: _encoded(images, row), part):  # type: ignore[misc]
                    done += 1
                    if isinstance(one, LeftOut):
                        left_out.append(one._replace(split=split))
                        continue
                    beside = _beside(samples, one.row, texts[one.row])
                    rows[one.row] = writer.add(keys[one.row], one, beside)
                progress(done, total)
        for row in sorted(rows):
            found.append(rows[row])
            columns["keys"].append(keys[row])
            columns["labels"].append(_text(texts[row]))
            columns["splits"].append(split)
            columns["groups"].append("" if samples.groups is None else _text(samples.groups[row]))
    writer.close()
    index = ShardIndex(
        **columns,
        shard_names=tuple(writer.names),
        shards=np.array([row.shard for row in found], dtype=np.int64),
        offsets=np.array([row.offset for row in found], dtype=np.int64),
        lengths=np.array([row.length for row in found], dtype=np.int64),
        sha256=[row.sha256 for row in found],
        content_hashes=[row.content_hash for row in found],
        class_names=tuple(map(_text, source.class_names)),
        task=source.task,
    )
    write_index(index, folder / INDEX_NAME)
    return left_out


class _ShardWriter:
    """Writes images into one tar file after another."""

    def __init__(self, folder: Path, shard_bytes: int) -> None:
        self.names: list[str] = []
        self._folder, self._shard_bytes = folder, shard_bytes
        self._split, self._count = "", 0
        self._tar: tarfile.TarFile | None = None

    def begin(self, split: str) -> None:
        """Let the next image begin the first shard of a split."""
        self.close()
        self._split, self._count = split, 0

    def add(self, key: str, image: _Encoded, beside: tuple[str, bytes]) -> _Row:
        """Write an image, and the file with its label."""
        if self._tar is not None and self._tar.offset >= self._shard_bytes:
            self.close()
        tar = self._tar or self._next()
        self._write(tar, f"{key}.{image.ending}", image.data)
        offset = tar.offset - -(-len(image.data) // _BLOCK) * _BLOCK
        self._write(tar, f"{key}.{beside[0]}", beside[1])
        return _Row(key, len(self.names) - 1, offset, len(image.data), image.sha256, image.content_hash)

    def close(self) -> None:
        """Finish the current shard. Its bytes are on the disk then."""
        if self._tar is not None:
            self._tar.close()
            with open(self._folder / self.names[-1], "rb") as file:
                os.fsync(file.fileno())
            self._tar = None

    def _next(self) -> tarfile.TarFile:
        self.names.append(f"{self._split}-{self._count:06d}.tar")
        self._count += 1
        self._tar = tarfile.open(self._folder / self.names[-1], "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        return self._tar

    @staticmethod
    def _write(tar: tarfile.TarFile, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(name)  # time and owner are 0: equal images give equal shards
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
        tar.members = []  # type: ignore[attr-defined]  # tarfile keeps every entry otherwise


def _encoded(samples: Samples, row: int) -> "_Encoded | LeftOut":
    """The bytes of one image; arrays become PNG files, which lose nothing."""
    name = samples.name(row)
    if samples.arrays is not None:
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(samples.arrays[row])).save(buffer, "PNG")
        data, ending, known = buffer.getvalue(), "png", pixels_hash(samples.arrays[row])  # as in the run's splits.csv
    else:
        try:
            data = samples.encoded(row)
            check_header(data, name)
        except ImageError as error:
            return LeftOut(name, "", error.reason)
        ending, known = _ending(name, data), content_hash(data)
    return _Encoded(row, data, ending, hashlib.sha256(data).digest(), known)


def _ending(name: str, data: bytes) -> str:
    """The ending of a file's name if it is one of images, else that of its format."""
    given = PurePosixPath(name).suffix.lower()
    if given in FORMATS_OF:
        return given[1:]
    held = image_format(data)
    return next(ending[1:] for ending, formats in FORMATS_OF.items() if held in formats)


def _beside(samples: Samples, row: int, text: str) -> tuple[str, bytes]:
    """Ending and content of the file with the label of an image."""
    if samples.task.is_exclusive:
        return "cls", str(int(samples.labels[row])).encode()
    return "json", json.dumps({"labels": _text(text)}, sort_keys=True).encode()


def _new_key(path: str, taken: set[str]) -> str:
    """The key of an image: its path without ending. WebDataset ends a key at the first dot of a name.

    Keys differ in more than the case of letters, so that shards can be unpacked on macOS and Windows.
    """
    folder, name = os.path.split(_text(path).replace(os.sep, "/"))
    stem = PurePosixPath(name).stem if PurePosixPath(name).suffix.lower() in FORMATS_OF else name
    parts = [re.sub(r"^\.+", "_", part) for part in folder.split("/") if part]
    base = "/".join([*parts, stem.replace(".", "_")])
    key, number = base, 1
    while key.casefold() in taken:
        number += 1
        key = f"{base}-{number}"
    taken.add(key.casefold())
    return key


def _text(name: str) -> str:
    """A name as UTF-8. Bytes that are not UTF-8 are written as \\xNN."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
