"""Content hashes of all images of a source, and which files are not images; no pixel is decoded.

The content hash of a file is a hash of its bytes, whatever its name. A picture that was saved again has another hash;
`vit data check` finds such pairs. Hashes are kept in the cache folder, so that the next command reads only images that
have changed. Beside them stand the near-duplicates of a data set (see `bursts`).

VIT_HASHES    folder; default ~/.cache/vit-lightning/hashes (XDG_CACHE_HOME counts); "off" keeps nothing
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vit.atomic_files import atomic_write
from vit.data.core.image_bytes import HASH_BYTES, ImageError, content_hash
from vit.data.core.image_files import FORMATS
from vit.data.core.image_header import MAX_ASPECT, MAX_PIXELS, Frames, holds_frames
from vit.data.core.samples import Samples, Source
from vit.data.loading.threads import decode_threads
from vit.data.pixels.decode import check_header
from vit.data.splits.split import SPLITS
from vit.layout import cache_folder
from vit.registry import LIBRARIES, has_extra

_PER_TASK = 32  # images that a thread takes at a time
_SETTLED_SECONDS = 10.0  # since the last change of a file: a later change surely has another time, on any file system
_SAVE_SECONDS = 60.0  # between two saves of hashes: a reading that is killed goes on there
_MAX_FOLDER = 512 * 2**20  # bytes of all hashes that are kept: 16 million images

Progress = Callable[[int, int], None]  # takes the number of finished images, and that of all images
R = TypeVar("R")


@dataclass(frozen=True)
class Contents:
    """Content hashes of the images of a source."""

    hashes: dict[str, list[str]]  # {split: a content hash of each image}; "" for unreadable images
    # {split: {index: reason}} for files without the header of an image within the limits
    unreadable: dict[str, dict[int, str]]
    frames: Frames = field(default_factory=Frames)  # but for images of shards with a known hash, which are not read

    def by_path(self, source: Source) -> dict[str, str]:
        """{path: content hash} of all images. `source` is the one that was read."""
        pairs = (zip(source.splits[split].paths, hashes, strict=True) for split, hashes in self.hashes.items())
        return dict(chain.from_iterable(pairs))

    def split_hashes(self, source: Source) -> dict[str, str]:
        """{split: hash of its names, labels, contents and groups, which decide intervals}; `source` as it was read."""
        by_split = {}
        for split, hashes in self.hashes.items():
            samples = source.splits[split]
            groups = [] if samples.groups is None else ["\0".join(samples.groups).encode("utf-8", "surrogateescape")]
            by_split[split] = content_hash(samples.fingerprint().encode(), *map(str.encode, hashes), *groups)
        return by_split


def known_contents(source: Source, hashes: Mapping[str, str]) -> Contents | None:
    """The contents of images that were read before, by `Contents.by_path`; None if the hash of a path is missing."""
    if any(path not in hashes for samples in source.splits.values() for path in samples.paths):
        return None
    known = {split: [hashes[path] for path in samples.paths] for split, samples in source.splits.items()}
    return Contents(known, {split: {} for split in known})


def read_contents(source: Source, progress: Progress | None = None, splits: Collection[str] = SPLITS) -> Contents:
    """Read every image of some splits once, on all cores, but for unchanged files that were read before."""
    names = [split for split in SPLITS if split in splits and split in source.splits]
    several = [source.splits[split] for split in names]
    contents = Contents({split: [] for split in names}, {split: {} for split in names})
    for number, part, results in read_in_parts(several, KnownHashes.contents, progress):
        split = names[number]
        contents.hashes[split].extend(content for content, *_ in results)
        contents.unreadable[split] |= {index: why for index, (_, why, _) in zip(part, results, strict=True) if why}
        framed = [index for index, (*_, has_frames) in zip(part, results, strict=True) if has_frames]
        contents.frames.update(map(several[number].name, framed))
    return contents


def read_in_parts(
    several: Sequence[Samples], read: "Callable[[KnownHashes, range], R]", progress: Progress | None
) -> Iterator[tuple[int, range, R]]:
    """(place of the samples in the list, indices of some images, what `read` gives for them), in order, on all cores.

    Content hashes that `read` finds are kept; of arrays they are not.
    """
    done, total = 0, sum(map(len, several))
    with decode_threads() as parallel:
        for number, samples in enumerate(several):
            known = KnownHashes(samples)
            parts = [range(first, min(first + _PER_TASK, len(samples))) for first in range(0, len(samples), _PER_TASK)]
            for part, result in zip(parts, parallel(partial(read, known), parts), strict=True):
                yield number, part, result
                done += len(part)
                if progress is not None:
                    progress(done, total)
                known.save(_SAVE_SECONDS)
            known.save()


class KnownHashes:
    """Content hashes of images, in the cache folder: of files by path, size, inode and both times of a change.

    A file that changed a moment ago is not kept: a second change might have the same time. The time of the last change
    of its status (ctime) shows what copies with an old time of modification. Images of shards, tables and other
    machines have versions (see `ImageReader`). Where all caches together are too large, the oldest are removed.
    """

    def __init__(self, samples: Samples) -> None:
        self.samples, self._folder = samples, hash_folder()
        first = "".join(samples.paths[:1]) if samples.root is None else os.fspath(samples.root.resolve())
        self._base = first.encode("utf-8", "surrogateescape")
        limits = (FORMATS, MAX_PIXELS, MAX_ASPECT, list(map(has_extra, LIBRARIES)))  # which decide what is an image
        self._name = content_hash(self._base, repr(limits).encode())
        self._new: list[bytes] = []
        self._with_frames = set[int]()  # indices of files with several frames, which are read again by each command
        self._saved_at = time.monotonic()
        self._rows = self._load()

    def contents(self, part: Sequence[int]) -> list[tuple[str, str, bool]]:
        """The content hash of each image, or "" and why it is not an image; whether it has frames. Few are read."""
        samples = self.samples
        if samples.arrays is not None:
            return [(pixels_hash(samples.arrays[index]), "", False) for index in part]
        hashes = {index: samples.known_hash(index) for index in part}
        unknown = [index for index, content in hashes.items() if not content]
        if samples.reader is not None:
            samples.reader.versions([samples.paths[index] for index in unknown])  # asked for at the same time
        hashes |= {index: self._kept(self._key(index)) for index in unknown}
        samples.prepare([index for index, content in hashes.items() if not content])
        results = []
        for index, content in hashes.items():
            try:
                results.append((content or content_hash(self.encoded(index)), "", index in self._with_frames))
            except ImageError as error:
                results.append(("", error.reason, False))
        return results

    def encoded(self, index: int) -> bytes:
        """The bytes of an image. Their hash is kept. ImageError where they are not an image within the limits."""
        before, data = self._key(index), self.samples.encoded(index)
        if self.samples.known_hash(index) or self._kept(before):  # its header was checked then
            return data
        check_header(data, self.samples.name(index))
        if holds_frames(data):
            self._with_frames.add(index)
        elif before is not None and before[1] and self._key(index) == before:
            self._new.append(before[0] + bytes.fromhex(content_hash(data)))  # atomic: other threads append too
        return data

    def _kept(self, key: tuple[bytes, bool] | None) -> str:
        """The content hash of a file that was read before; "" where it was not."""
        if key is None:
            return ""
        first = np.frombuffer(key[0], "<u8", 1)  # an int below 2^63 would turn all rows into floats, for each image
        place = int(np.searchsorted(self._rows[:, 0], first)[0])
        is_known = place < len(self._rows) and self._rows[place, :2].tobytes() == key[0]
        return self._rows[place, 2:].tobytes().hex() if is_known else ""

    def save(self, pause: float = 0.0) -> None:
        """Keep what is new, if the last save was so many seconds ago. A cache that cannot be written keeps nothing."""
        if self._folder is None or not self._new or time.monotonic() - self._saved_at < pause:
            return
        self._saved_at = time.monotonic()
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            old = self._load()
            new = np.frombuffer(b"".join(self._new), dtype="<u8").reshape(-1, 4)
            rows = np.concatenate([old if old.nbytes < _MAX_FOLDER else old[:0], new])
            with atomic_write(self._folder / self._name) as partial:
                rows[np.unique(rows[:, 0], return_index=True)[1]].tofile(partial)
            self._new.clear()
            files = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self._folder.glob("[!.]*"))
            excess = sum(size for _, size, _ in files) - _MAX_FOLDER
            for _, size, path in files:
                if excess > 0 and path.name != self._name:
                    path.unlink(missing_ok=True)
                    excess -= size

    def _key(self, index: int) -> tuple[bytes, bool] | None:
        """(key of a file as it is now, whether it has not changed for some time); None without a file."""
        path, reader = self.samples.paths[index], self.samples.reader
        if reader is not None:
            (version,) = reader.versions([path])
            return (bytes.fromhex(content_hash(version.encode())), True) if version else None
        try:
            status = os.stat(self.samples.file(index))
        except (OSError, ValueError):
            return None
        facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        changed = max(status.st_mtime, status.st_ctime)
        key = content_hash(self._base, b"\0", path.encode("utf-8", "surrogateescape"), repr(facts).encode())
        return bytes.fromhex(key), changed < time.time() - _SETTLED_SECONDS

    def _load(self) -> npt.NDArray[np.uint64]:
        """The rows of a file, sorted by the first number: two numbers of the key, two of the content hash."""
        with suppress(OSError):
            path = None if self._folder is None else self._folder / self._name
            if path is not None and path.stat().st_size % (2 * HASH_BYTES) == 0:  # else it is not of ours
                rows: npt.NDArray[np.uint64] = np.fromfile(path, dtype="<u8").reshape(-1, 4)
                os.utime(path)
                return rows
        return np.empty((0, 4), dtype=np.uint64)


def hash_folder() -> Path | None:
    """The folder that keeps what was found out about files; None where nothing is kept."""
    wanted = os.environ.get("VIT_HASHES")
    return None if wanted == "off" else Path(wanted).expanduser() if wanted else cache_folder("hashes")


def current_hash(samples: Samples, index: int) -> str:
    """The content hash of one image as it is now. ImageError or DataError as of `Samples.encoded`."""
    if samples.arrays is not None:
        return pixels_hash(samples.arrays[index])
    return samples.known_hash(index) or content_hash(samples.encoded(index))


def pixels_hash(pixels: npt.NDArray[np.generic]) -> str:
    """The content hash of an image that is an array in memory: of its shape and its pixels."""
    return content_hash(str(pixels.shape).encode(), np.ascontiguousarray(pixels).tobytes())
