"""Content hashes of all images of a source, and which files are not images; no pixel is decoded.

The content hash of a file is a hash of its bytes. Its name and folder do not matter. A picture that was saved again in
another format or size has another hash; `vit data check` finds such pairs.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vit.data.decode import check_header
from vit.data.image_bytes import ImageError, content_hash
from vit.data.samples import Samples, Source
from vit.data.split import SPLITS
from vit.data.threads import decode_threads

_PER_TASK = 32  # images that a thread takes at a time


@dataclass(frozen=True)
class Contents:
    """Content hashes of the images of a source.

    Attributes:
        hashes: {split: a content hash of each image}; "" for unreadable images.
        unreadable: {split: {index: reason}} for files without the header of an image within the limits.
    """

    hashes: dict[str, list[str]]
    unreadable: dict[str, dict[int, str]]

    def by_path(self, source: Source) -> dict[str, str]:
        """{path: content hash} of all images. `source` is the one that was read."""
        return {
            path: found
            for split, hashes in self.hashes.items()
            for path, found in zip(source.splits[split].paths, hashes, strict=True)
        }

    def split_hashes(self, source: Source) -> dict[str, str]:
        """{split: hash of its names, labels, contents, and groups, where images have some}. `source` is as it was read.

        Groups decide intervals and tests. So a study whose images get other groups is another study.
        """
        found = {}
        for split, hashes in self.hashes.items():
            samples = source.splits[split]
            groups = [] if samples.groups is None else ["\0".join(samples.groups).encode("utf-8", "surrogateescape")]
            found[split] = content_hash(samples.fingerprint().encode(), *map(str.encode, hashes), *groups)
        return found


def known_contents(source: Source, hashes: Mapping[str, str]) -> Contents | None:
    """The contents of images that were read before, possibly in other splits.

    Args:
        source: the images.
        hashes: {path: content hash}, as `Contents.by_path` gives them.

    Returns:
        None if a path of the source is not among the hashes.
    """
    if any(path not in hashes for samples in source.splits.values() for path in samples.paths):
        return None
    known = {split: [hashes[path] for path in samples.paths] for split, samples in source.splits.items()}
    return Contents(known, {split: {} for split in known})


def read_contents(
    source: Source, progress: Callable[[int, int], None] | None = None, splits: Collection[str] = SPLITS
) -> Contents:
    """Read every image of some splits once, on all cores.

    Args:
        source: the images.
        progress: called with the number of finished images and the number of all images.
        splits: splits to read, where the source has them.
    """
    chosen = {split: source.splits[split] for split in SPLITS if split in splits and split in source.splits}
    total, done = sum(map(len, chosen.values())), 0
    hashes: dict[str, list[str]] = {split: [] for split in chosen}
    unreadable: dict[str, dict[int, str]] = {split: {} for split in chosen}
    with decode_threads() as parallel:
        for split, samples in chosen.items():
            parts = [range(start, min(start + _PER_TASK, len(samples))) for start in range(0, len(samples), _PER_TASK)]
            for part, results in zip(parts, parallel(_reader(samples), parts), strict=True):
                hashes[split] += [found for found, _ in results]
                unreadable[split] |= {index: why for index, (_, why) in zip(part, results, strict=True) if why}
                done += len(part)
                if progress is not None:
                    progress(done, total)
    return Contents(hashes, unreadable)


def _reader(samples: Samples) -> Callable[[range], list[tuple[str, str]]]:
    """A function from indices to pairs: content hash, and the reason why the file is not an image."""

    def read(part: range) -> list[tuple[str, str]]:
        if samples.arrays is not None:
            return [(pixels_hash(samples.arrays[index]), "") for index in part]
        known = {index: samples.known_hash(index) for index in part}
        samples.prepare([index for index, found in known.items() if not found])
        return [(found, "") if found else _encoded(samples, index) for index, found in known.items()]

    return read


def current_hash(samples: Samples, index: int) -> str:
    """The content hash of one image as it is now.

    Raises:
        ImageError: the image cannot be read.
        DataError: images of shards or other machines cannot be read at all.
    """
    if samples.arrays is not None:
        return pixels_hash(samples.arrays[index])
    return samples.known_hash(index) or content_hash(samples.encoded(index))


def pixels_hash(pixels: npt.NDArray[np.generic]) -> str:
    """The content hash of an image that is an array in memory: of its shape and its pixels."""
    return content_hash(str(pixels.shape).encode(), np.ascontiguousarray(pixels).tobytes())


def _encoded(samples: Samples, index: int) -> tuple[str, str]:
    try:
        data = samples.encoded(index)
        check_header(data, samples.name(index))
    except ImageError as error:
        return "", error.reason
    return content_hash(data), ""
