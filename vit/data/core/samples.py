"""`Samples`, a list of images with labels, and `Source`, the splits of a data set; no pixel is read."""

import hashlib
import os
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vit.console import count_of
from vit.data.core.image_bytes import ImageReader, read_bytes
from vit.errors import DataError, UsageError, some_of
from vit.tasks.task import Task, task_of

Labels = npt.NDArray[np.int64]

_SHOWN = 10  # class names in an error


@dataclass(frozen=True)
class Samples:
    """Images in a fixed order, with their labels."""

    paths: Sequence[str]  # path of each image, relative to `root`; a name where `arrays` holds the pixels
    # (n,) class numbers, -1 where unknown; with several labels (n, K) int8: 1 present, 0 absent, -1 unknown
    labels: npt.NDArray[Any]
    root: Path | None = None  # folder of the paths; None where `arrays` or `reader` has the images
    arrays: Sequence[npt.NDArray[np.uint8]] | None = None  # n arrays (H, W) or (H, W, 3) uint8; None for files
    # the group of each image, such as its patient: splits keep a group in one part; None: no groups
    groups: tuple[str, ...] | None = None
    reader: ImageReader | None = None  # reads images that are in shards or on other machines; None for files and arrays

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def task(self) -> Task:
        """Whether an image has one class, or any number of labels."""
        return task_of(self.labels)

    def file(self, index: int) -> Path:
        """The file of one image. ValueError where the images are not files."""
        if self.root is None:
            raise ValueError("these images are not files")
        return self.root / self.paths[index]

    def name(self, index: int) -> str:
        """The path of a file as the user would write it; the path alone of an image that is not a file."""
        return self.paths[index] if self.root is None else os.fspath(self.file(index))

    def encoded(self, index: int) -> bytes:
        """The encoded bytes of one image. ImageError where it cannot be read, DataError where none can be read."""
        return read_bytes(self.file(index)) if self.reader is None else self.reader.read(self.paths[index])

    def prepare(self, indices: Sequence[int]) -> None:
        """Fetch images that are read next, where they are on other machines."""
        if self.reader is not None:
            self.reader.prepare([self.paths[index] for index in indices])

    def known_hash(self, index: int) -> str:
        """The content hash of an image where it is known without reading the image, else ""."""
        return "" if self.reader is None else self.reader.content_hash(self.paths[index])

    def select(self, indices: npt.ArrayLike) -> "Samples":
        """The images at `indices`, in that order."""
        rows = np.asarray(indices, dtype=np.int64)
        arrays = None
        if self.arrays is not None:
            arrays = self.arrays[rows] if isinstance(self.arrays, np.ndarray) else [self.arrays[i] for i in rows]
        groups = None if self.groups is None else tuple(self.groups[i] for i in rows)
        return Samples([self.paths[i] for i in rows], self.labels[rows], self.root, arrays, groups, self.reader)

    def without(self, paths: Container[str]) -> "Samples":
        """The images whose paths are not among these."""
        return self.select([place for place, path in enumerate(self.paths) if path not in paths])

    def followed_by(self, other: "Samples") -> "Samples":
        """These images and then those of another split of the same data set."""
        arrays = None if self.arrays is None or other.arrays is None else [*self.arrays, *other.arrays]
        groups = None if self.groups is None or other.groups is None else (*self.groups, *other.groups)
        paths, labels = [*self.paths, *other.paths], np.concatenate([self.labels, other.labels])
        return Samples(paths, labels, self.root, arrays, groups, self.reader)

    def class_counts(self, num_classes: int) -> Labels:
        """(C,) number of images of each class, or with each label."""
        return self.task.counts(self.labels, num_classes)

    def fingerprint(self) -> str:
        """A hash of paths and labels in order. Two lists with one fingerprint name the same images."""
        digest = hashlib.sha256()
        for path, label in zip(self.paths, self.labels.tolist(), strict=True):
            digest.update(path.encode("utf-8", "surrogateescape") + b"\0" + str(label).encode() + b"\n")
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Source:
    """A data set: class names, and the images of each split."""

    name: str  # short name for run folders and tables
    # class names in the order of their numbers, or names of the K labels that an image may have. The training images
    # alone define them; those of all splits, where images are opened to be measured.
    class_names: tuple[str, ...]
    # {"train", and where present "validation" and "test": images}; "train" may be absent of images to be measured
    splits: dict[str, Samples]
    notes: list[str] = field(default_factory=list)  # for the user: skipped files, missing classes and so on
    origin: str | None = None  # DATA with the revision that was read, where DATA itself does not tell; else None
    # whether each image lists its labels, so that labels with other names than `class_names` are absent, not unknown
    has_label_lists: bool = False
    # whether it is a table of labels with a single 1 in each row; a model of several labels may be measured on it, too
    is_one_hot: bool = False

    def with_label_rows(self) -> "Source":
        """The same images with the labels of a one-hot table as it has them, (n, K)."""
        eye = np.eye(len(self.class_names), dtype=np.int8)
        splits = {split: replace(one, labels=eye[one.labels]) for split, one in self.splits.items()}
        return replace(self, splits=splits, is_one_hot=False)

    @property
    def task(self) -> Task:
        """Whether an image has one class, or any number of labels."""
        return next(iter(self.splits.values())).task

    def check_one_class(self, what: str) -> None:
        """Raise UsageError, which names what needs one class for each image, where an image may have several labels."""
        if not self.task.is_exclusive:
            problem = f"{what} needs one class for each image, and the images of {self.name} may have several labels"
            raise UsageError(problem, "see docs/guides/several_labels.md for what works with several labels")


def absent_notes(source: Source, splits: Iterable[str]) -> list[str]:
    """A sentence for each of some splits that has no image of some classes, or with some labels."""
    notes, number, task = [], len(source.class_names), source.task
    for split in splits:
        counts = source.splits[split].class_counts(number)
        if absent := [name for name, count in zip(source.class_names, counts, strict=True) if not count]:
            have = f"{number - len(absent):,} of {number:,} {task.kinds} have"
            images = f"{'training' if split == 'train' else split} images"
            without = f"{count_of(len(absent), task.kind, task.kinds)}: {some_of(absent)}"
            notes.append(f"{split} has no image {task.of} {without} ({have} {images})")
    return notes


def label_files(
    root: Path | None,
    rows: Sequence[tuple[str, str]],
    class_names: tuple[str, ...],
    where: str,
    groups: Sequence[str] = (),
    reader: ImageReader | None = None,
) -> Samples:
    """Paths with class names, and the classes of the training images in order -> samples; groups "" are none.

    DataError, which names the folder or table, where a row has a class that the training images lack.
    """
    numbers = {name: number for number, name in enumerate(class_names)}
    if unknown := sorted({name for _, name in rows} - numbers.keys()):
        names = f"{some_of(map(repr, unknown), _SHOWN)} (known: {some_of(map(repr, class_names), _SHOWN)})"
        fix = "rename them, move them elsewhere, or add training images"
        raise DataError(f"{where} has classes that the training images lack: {names}", fix)
    labels = np.fromiter((numbers[name] for _, name in rows), dtype=np.int64, count=len(rows))
    return Samples(
        [path for path, _ in rows], labels, root, groups=tuple(groups) if any(groups) else None, reader=reader
    )


def label_names(samples: Samples, class_names: Sequence[str]) -> list[str]:
    """The class name of each image, or all its labels in one text; "" for an image without a label (-1)."""
    return samples.task.names(samples.labels, class_names)
