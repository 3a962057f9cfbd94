"""The images that a run has learned from, in numbers that tell whether another run has learned from the same"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from vit.data.samples import Labels
from vit.data.split import SplitRow

_CHOOSING = ("validation", "calibration")  # splits that no seed of a training draws, and that choose or fit


@dataclass(frozen=True)
class ImageSet:
    """Images with their labels, in any order and any folder.

    Attributes:
        by_content: hash of their contents; "" where no content is known.
        by_path: hash of their paths.
    """

    by_content: str
    by_path: str

    @classmethod
    def of(cls, rows: Sequence[tuple[str, SplitRow]]) -> Self:
        """The images of rows, each with its split."""
        by_path = _hash(f"{split}\0{row.label}\0{row.path}" for split, row in rows)
        if not any(row.content_hash for _, row in rows):
            return cls("", by_path)
        return cls(_hash(f"{split}\0{row.label}\0{row.content_hash or row.path}" for split, row in rows), by_path)

    def is_same(self, other: "ImageSet") -> bool:
        """Whether both are the same images: by their contents where both know these, else by their paths."""
        return (
            self.by_content == other.by_content
            if self.by_content and other.by_content
            else self.by_path == other.by_path
        )


@dataclass(frozen=True)
class LearnedImages:
    """The training, validation and calibration images of a run.

    Attributes:
        num_train: number of training images.
        train: the training images.
        choosing: the validation and calibration images.
        paths: (n,) number of each training image's path, within this process.
        contents: (n,) number of each training image's content, within this process; 0: not known.
    """

    num_train: int
    train: ImageSet
    choosing: ImageSet
    paths: Labels
    contents: Labels

    @classmethod
    def of(cls, listed: Mapping[str, Sequence[SplitRow]]) -> Self:
        """The images of the rows of `splits.csv`."""
        train = listed.get("train", ())
        return cls(
            len(train),
            ImageSet.of([("train", row) for row in train]),
            ImageSet.of([(split, row) for split in _CHOOSING for row in listed.get(split, ())]),
            np.fromiter((hash(row.path) for row in train), dtype=np.int64, count=len(train)),
            np.fromiter((hash(row.content_hash) for row in train), dtype=np.int64, count=len(train)),
        )

    def is_same(self, other: "LearnedImages", is_same_draw: bool) -> bool:
        """Whether nothing but the draw of a subset tells the images of two runs apart.

        Args:
            is_same_draw: whether both runs use all training images, or subsets that the same seed has drawn. Subsets of
                other seeds are other images, and an image of both must have one content.
        """
        if not self.choosing.is_same(other.choosing):
            return False
        if is_same_draw:
            return self.train.is_same(other.train)
        _, mine, theirs = np.intersect1d(self.paths, other.paths, return_indices=True)
        pairs = self.contents[mine], other.contents[theirs]
        return not ((pairs[0] != pairs[1]) & (pairs[0] != 0) & (pairs[1] != 0)).any()


def _hash(lines: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for line in sorted(lines):
        digest.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()
