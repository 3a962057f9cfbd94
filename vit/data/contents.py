"""Every image of a source read once before it is used: what to know its content by, and whether it is an image.

A file is known by a hash of its bytes: its name and folder do not matter, and no pixel is decoded. A picture that was
saved again in another format or size has another hash; `vit data check` finds such pairs.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from vit.data.decode import ImageError, check_header, read_bytes
from vit.data.samples import Samples, Source
from vit.data.split import SPLITS
from vit.data.threads import decode_threads

_DIGEST_BYTES = 16
_AT_ONCE = 32  # images that a thread takes at a time


@dataclass(frozen=True)
class Contents:
    """What the images of a source hold.

    Attributes:
        digests: of each split, a hash for each image; "" for the unreadable ones.
        unreadable: of each split, {place: reason} of the files whose header is not that of an image within the limits.
    """

    digests: dict[str, list[str]]
    unreadable: dict[str, dict[int, str]]

    def by_path(self, source: Source) -> dict[str, str]:
        """{path: digest} of the images of the source that was read."""
        return {
            path: digest
            for split, digests in self.digests.items()
            for path, digest in zip(source.splits[split].paths, digests, strict=True)
        }

    def hashes(self, source: Source) -> dict[str, str]:
        """A hash of the names, labels and content of each split of the source that was read."""
        return {
            split: _digest(source.splits[split].fingerprint().encode(), *map(str.encode, digests))
            for split, digests in self.digests.items()
        }


def known_contents(source: Source, digests: Mapping[str, str]) -> Contents | None:
    """What images hold that were read before ({path: digest}), in another choice; None where one of them was not."""
    if any(path not in digests for samples in source.splits.values() for path in samples.paths):
        return None
    known = {split: [digests[path] for path in samples.paths] for split, samples in source.splits.items()}
    return Contents(known, {split: {} for split in known})


def read_contents(
    source: Source, progress: Callable[[int, int], None] | None = None, splits: Collection[str] = SPLITS
) -> Contents:
    """Read every image of some splits once, on all cores.

    Args:
        progress: told images done and images in all.
        splits: those to read, as far as the source has them.
    """
    chosen = {split: source.splits[split] for split in SPLITS if split in splits and split in source.splits}
    total, done = sum(map(len, chosen.values())), 0
    digests: dict[str, list[str]] = {split: [] for split in chosen}
    unreadable: dict[str, dict[int, str]] = {split: {} for split in chosen}
    with decode_threads() as parallel:
        for split, samples in chosen.items():
            parts = [range(start, min(start + _AT_ONCE, len(samples))) for start in range(0, len(samples), _AT_ONCE)]
            for part, found in zip(parts, parallel(_reader(samples), parts), strict=True):
                digests[split] += [digest for digest, _ in found]
                unreadable[split] |= {place: reason for place, (_, reason) in zip(part, found, strict=True) if reason}
                done += len(part)
                if progress is not None:
                    progress(done, total)
    return Contents(digests, unreadable)


def _reader(samples: Samples) -> Callable[[range], list[tuple[str, str]]]:
    """A function that gives (digest, reason why it is not an image) of some images."""
    return lambda part: [_array(samples, place) if samples.root is None else _file(samples, place) for place in part]


def _array(samples: Samples, place: int) -> tuple[str, str]:
    assert samples.arrays is not None
    pixels = np.ascontiguousarray(samples.arrays[place])
    return _digest(str(pixels.shape).encode(), pixels.tobytes()), ""


def _file(samples: Samples, place: int) -> tuple[str, str]:
    path = samples.file(place)
    try:
        data = read_bytes(path)
        check_header(data, path)
    except ImageError as error:
        return "", error.reason
    return _digest(data), ""


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
