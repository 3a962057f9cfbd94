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
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from PIL import Image

from vit.data.checks.contents import pixels_hash
from vit.data.core.dataset_names import INDEX_NAME
from vit.data.core.draws import seed_of
from vit.data.core.image_bytes import ImageError, content_hash
from vit.data.core.image_files import FORMATS_OF
from vit.data.core.image_header import image_format
from vit.data.core.samples import Samples, Source, label_names
from vit.data.loading.threads import decode_threads
from vit.data.pixels.decode import check_header
from vit.data.splits.split import SPLITS
from vit.extras.shards.index import IndexRow, write_index

_PER_PART = 256  # images that are read ahead of the tar file
_SHUFFLE = 0  # seed of the order of images in the shards


class LeftOut(NamedTuple):
    """An image that no shard holds: its path, its split, and why it cannot be read."""

    path: str
    split: str
    reason: str


def pack(source: Source, folder: Path, shard_bytes: int, progress: Callable[[int, int], None]) -> list[LeftOut]:
    """Write the shards of a source and their index into an empty folder; the images that cannot be read are left out.

    Args:
        shard_bytes: size after which the next shard begins.
        progress: called with the number of finished images and the number of all images.
    """
    writer = _ShardWriter(folder, shard_bytes)
    left_out: list[LeftOut] = []
    total, done = sum(map(len, source.splits.values())), 0
    taken: set[str] = set()
    written: list[IndexRow] = []
    for split in (name for name in SPLITS if name in source.splits):
        samples = source.splits[split]
        keys = [_new_key(path, taken) for path in samples.paths]
        texts = list(map(_text, label_names(samples, source.class_names)))
        groups = [""] * len(samples) if samples.groups is None else list(map(_text, samples.groups))
        rows: dict[int, IndexRow] = {}
        writer.begin(split)
        order = np.random.Generator(np.random.Philox(seed_of(_SHUFFLE, 0))).permutation(len(samples)).tolist()
        with decode_threads() as parallel:
            for start in range(0, len(order), _PER_PART):
                part = order[start : start + _PER_PART]
                samples.prepare(part)
                encoded = parallel(lambda row, images=samples: _encoded(images, row), part)  # type: ignore[misc]
                for row, one in zip(part, encoded, strict=True):
                    done += 1
                    if isinstance(one, ImageError):
                        left_out.append(LeftOut(samples.name(row), split, one.reason))
                        continue
                    data, ending, known_hash = one
                    if samples.task.is_exclusive:
                        beside = "cls", str(int(samples.labels[row])).encode()
                    else:
                        beside = "json", json.dumps({"labels": texts[row]}, sort_keys=True).encode()
                    shard, offset = writer.add(keys[row], (ending, data), beside)
                    place = (shard, offset, len(data), hashlib.sha256(data).digest(), known_hash)
                    rows[row] = IndexRow(keys[row], texts[row], split, groups[row], *place)
                progress(done, total)
        written += [rows[row] for row in sorted(rows)]
    writer.close()
    class_names = list(map(_text, source.class_names))
    write_index(written, writer.names, class_names, folder / INDEX_NAME, source.task)
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

    def add(self, key: str, image: tuple[str, bytes], beside: tuple[str, bytes]) -> tuple[int, int]:
        """Write the ending and content of an image, and of the file with its label; its shard and first byte."""
        if self._tar is not None and self._tar.offset >= self._shard_bytes:
            self.close()
        if self._tar is None:
            self.names.append(f"{self._split}-{self._count:06d}.tar")
            self._count += 1
            self._tar = tarfile.open(self._folder / self.names[-1], "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        ends = []
        for ending, data in (image, beside):
            entry = tarfile.TarInfo(f"{key}.{ending}")  # time and owner are 0: equal images give equal shards
            entry.size = len(data)
            self._tar.addfile(entry, io.BytesIO(data))
            self._tar.members = []  # type: ignore[attr-defined]  # tarfile keeps every entry otherwise
            ends.append(self._tar.offset)
        return len(self.names) - 1, ends[0] - -(-len(image[1]) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE

    def close(self) -> None:
        """Finish the current shard. Its bytes are on the disk then."""
        if self._tar is not None:
            self._tar.close()
            with open(self._folder / self.names[-1], "rb") as file:
                os.fsync(file.fileno())
            self._tar = None


def _encoded(samples: Samples, row: int) -> tuple[bytes, str, str] | ImageError:
    """Bytes, ending and content hash of one image; arrays become PNG files, which lose nothing."""
    if samples.arrays is not None:
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(samples.arrays[row])).save(buffer, "PNG")
        return buffer.getvalue(), "png", pixels_hash(samples.arrays[row])  # as in the run's splits.csv
    name = samples.name(row)
    try:
        data = samples.encoded(row)
        check_header(data, name)
    except ImageError as error:
        return error
    ending, held = PurePosixPath(name).suffix.lower(), image_format(data)
    if ending not in FORMATS_OF:
        ending = next(one for one, formats in FORMATS_OF.items() if held in formats)
    return data, ending[1:], content_hash(data)


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
