"""The images of finished runs, as their splits.csv list them: test images by content, and the images learned from

A list of ImageNet has 1.3 million rows. So the bytes of the lists are compared first. Rows are read where these differ.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from vit.checkpoints.result import RunResult
from vit.checkpoints.run import RunDirectory
from vit.data.core.samples import Labels
from vit.data.splits.split import SplitRow, lists_groups, read_splits
from vit.inference.scores.image_groups import numbered
from vit.study.common_images import measured_rows

QUICK_BYTES = 2**25  # of a list of about 300,000 images, which is read in 1 to 3 seconds
_CHOOSING = ("validation", "calibration")  # splits that no seed of a training draws, and that choose or fit


@dataclass(frozen=True)
class ImageSet:
    """Images with their labels, in any order and any folder."""

    by_content: str  # hash of their contents; "" where no content is known
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
    """The training, validation and calibration images of a run."""

    num_train: int
    train: ImageSet
    choosing: ImageSet
    paths: Labels  # (n,) number of each training image's path, within this process
    contents: Labels  # (n,) number of each training image's content, within this process; 0: not known

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


@dataclass(frozen=True)
class StudyImages:
    """The images of a run. Everything is empty where the list is absent, or where all runs have the same list."""

    test: Sequence[str] = ()  # content hash of each measured test image; "" where it is not known
    groups: Labels | None = None  # (T,) number of each measured test image's group; None where images have none
    learned: LearnedImages | None = None  # images that the run has learned from; None: not read


def listed_images(runs: Sequence[tuple[RunDirectory, RunResult]]) -> list[StudyImages]:
    """What the list of each run says of images. Equal lists are read once, and only for their groups.

    Raises:
        DataError: a list is damaged, or does not fit the result of its run.
    """
    hashes = [_file_hash(run) for run, _ in runs]
    are_equal = len(set(hashes)) == 1
    known: dict[tuple[str, str], StudyImages] = {}
    found = []
    for (run, result), file_hash in zip(runs, hashes, strict=True):
        key = (file_hash, f"{result.left_out.get('test')} {result.num_images['test']}")
        if key not in known:
            is_read = file_hash and (not are_equal or lists_groups(run.splits_path))
            known[key] = _read(run, result) if is_read else StudyImages()
        found.append(known[key])
    return found


def changed_places(first: StudyImages, other: StudyImages) -> list[int]:
    """The places of test images whose contents differ between two runs. Where a hash is unknown, none is found."""
    pairs = enumerate(zip(first.test, other.test, strict=False))  # one of them is empty where no list is there
    return [place for place, (mine, theirs) in pairs if mine and theirs and mine != theirs]


def surely_share_test_images(runs: Sequence[tuple[RunDirectory, RunResult]]) -> bool:
    """Whether test images of the same names have no other contents. False for long lists that differ: it takes seconds.

    Raises:
        DataError: as for `listed_images`.
    """
    is_long = any(run.splits_path.is_file() and run.splits_path.stat().st_size > QUICK_BYTES for run, _ in runs)
    if is_long:
        return len({_file_hash(run) for run, _ in runs}) == 1
    first, *others = listed_images(runs)
    return not any(changed_places(first, other) for other in others)


def _file_hash(run: RunDirectory) -> str:
    """The hash of the list's bytes; "" where there is no list."""
    if not run.splits_path.is_file():
        return ""
    with open(run.splits_path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _read(run: RunDirectory, result: RunResult) -> StudyImages:
    listed = read_splits(run.splits_path)
    rows = measured_rows(run, result, listed.get("test", []))
    contents, groups = [row.content_hash for row in rows], numbered([row.group for row in rows])
    return StudyImages(contents, groups, LearnedImages.of(listed))


def _hash(lines: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for line in sorted(lines):
        digest.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()
