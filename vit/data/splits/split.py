"""Validation and test images cut from the training images, and `splits.csv`, which lists them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vit.csv_files import new_table, read_table
from vit.data.core.groups import UNDO
from vit.data.core.samples import Labels, Samples, Source, label_names
from vit.data.splits.iterative_stratification import iteratively_stratified
from vit.data.splits.stratified import describe_division, stratified
from vit.errors import DataError
from vit.tasks.task import MULTI_LABEL, Task, task_of_columns

SPLITS = ("train", "validation", "test", "calibration")
COLUMNS, CONTENT, GROUP = ("path", "label", "split"), "content", "group"  # columns of splits.csv
NAME = "name"  # its last column: the path below the folder of the images, as predictions/*.csv have it


def with_all_splits(source: Source, validation: float, test: float, seed: int, calibration: float = 0.0) -> Source:
    """The source with all splits. Missing splits are cut from the training images, stratified by class or by labels.

    A class has its proportion of each split to within one image, and keeps half of its images for training. Images with
    groups are cut by whole groups, stratified as well as these allow.

    The cut depends on the seed and the sorted names alone, and not on the order in which a file system lists files.

    Args:
        validation: fraction of all images for validation, if the source has no validation images.
        test: fraction of all images for testing, if the source has no test images.
        seed: seed of the cut.
        calibration: fraction of all images for calibration.

    Raises:
        DataError: a split is empty, or too few images are there to cut it.
    """
    for split, samples in source.splits.items():
        if len(samples) == 0:
            raise DataError(
                f"the {split} split of {source.name} has no images",
                f"add images, or move its folder elsewhere: vit then cuts the {split} split from the training images",
            )
    fractions = {
        split: fraction
        for split, fraction in (("validation", validation), ("test", test), ("calibration", calibration))
        if split not in source.splits and fraction > 0
    }
    if not fractions:
        return source
    train = source.splits["train"]
    order = np.array(sorted(range(len(train)), key=train.paths.__getitem__), dtype=np.int64)
    parts = _parts(train, order, list(fractions.values()), seed)
    splits = dict(source.splits)
    for split, rows in zip((*fractions, "train"), parts, strict=True):
        splits[split] = train.select(np.sort(order[rows]))
    task = source.task
    classes = f"{np.count_nonzero(train.class_counts(len(source.class_names)))} {task.kinds}"
    fix = f"add images, so that most {task.kinds} have two or more, or give folders or a CSV with splits"
    for split in (*fractions, "train"):
        if len(splits[split]) == 0:
            words = f"{len(train)} images of {classes} are too few to cut a {split} split"
            if train.groups is not None:
                number = len(set(train.groups))
                words += f" of whole groups: they are {number:,} group{'s' * (number != 1)}"
                fix = "add groups, check that the group is not the same for all images, or give a CSV with splits"
                if any(note.endswith(UNDO) for note in source.notes):
                    fix = "add images that are not near-duplicates of others, or divide these with --data.bursts split"
            raise DataError(words, fix)
    _check_labels_left(splits["train"], source.class_names)
    cut = " and ".join(f"{len(splits[split]):,} for {split}" for split in fractions)
    note = f"cut {cut} from the {len(train):,} training images ({describe_division(train)}, seed {seed})"
    return replace(source, splits=splits, notes=[*source.notes, note])


def _check_labels_left(train: Samples, class_names: tuple[str, ...]) -> None:
    """Raise DataError if the cut left no training image with a label."""
    if train.task.is_exclusive:
        return
    gone = [class_names[number] for number in np.flatnonzero(train.class_counts(len(class_names)) == 0)]
    if gone:
        raise DataError(
            f"no training image with the label {gone[0]!r} is left after the cut",
            "add images with it, remove the label, or give a CSV with the column split",
        )


def _parts(train: Samples, order: Labels, fractions: list[float], seed: int) -> list[Labels]:
    """The rows of each part and of the rest, as places in `order`."""
    if train.groups is None and not train.task.is_exclusive:
        return iteratively_stratified(train.labels[order], fractions, seed)
    groups = None if train.groups is None else [train.groups[row] for row in order]
    return stratified(train.labels[order], fractions, seed, groups)


class SplitRow(NamedTuple):
    """One image of splits.csv."""

    path: str  # absolute path of the file; a name for an image of a data set without files
    label: str  # class name; the text of `label_text` where an image may have several labels
    content_hash: str = ""  # hash of the file's bytes, or of the pixels; "" for unreadable files
    group: str = ""  # the image's group; "" where images have none


def write_splits(source: Source, path: Path, hashes: Mapping[str, Sequence[str]] | None = None) -> None:
    """Write `splits.csv`: every image with its label and split, and its group where images have one.

    Args:
        hashes: {split: content hash of each image} for a fourth column; see `read_contents`.
    """
    columns = ("path", source.task.column, "split")
    more = {} if hashes is None else {CONTENT: "content_hash"}
    if any(samples.groups is not None for samples in source.splits.values()):
        more[GROUP] = "group"
    with new_table(path, (*columns, *more, NAME), mode="x") as table:
        for split, rows in split_rows(source, hashes).items():
            for row, name in zip(rows, source.splits[split].paths, strict=True):
                table.row((row.path, row.label, split, *(getattr(row, one) for one in more.values()), name))


def split_rows(source: Source, hashes: Mapping[str, Sequence[str]] | None = None) -> dict[str, list[SplitRow]]:
    """The rows of each split, as `write_splits` writes them."""
    found: dict[str, list[SplitRow]] = {}
    for split in SPLITS:
        if split in source.splits:
            samples = source.splits[split]
            root = samples.root.resolve() if samples.root is not None else ""
            names = label_names(samples, source.class_names)
            contents = repeat("", len(samples)) if hashes is None else hashes[split]
            groups = repeat("", len(samples)) if samples.groups is None else samples.groups
            found[split] = [
                SplitRow(os.path.join(root, path), *others)
                for path, *others in zip(samples.paths, names, contents, groups, strict=True)
            ]
    return found


def listed_task(path: Path) -> Task:
    """The task of a readable `splits.csv`."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return task_of_columns(file.readline().strip().split(",")[: len(COLUMNS)])


def lists_groups(path: Path) -> bool:
    """Whether there is a readable `splits.csv` that has the group of each image."""
    if not path.is_file():
        return False
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return GROUP in file.readline().strip().split(",")[len(COLUMNS) :]


def groups_of(paths: Sequence[str], listed: Sequence[SplitRow]) -> list[str] | None:
    """(n,) groups that splits.csv has for images of a split, in its order; None where it has none.

    Args:
        paths: (n,) paths below the folder of the images, without those of images that could not be read.
        listed: rows of the split, with whole paths.

    Raises:
        ValueError: an image is not listed.
    """
    if not paths or not any(row.group for row in listed):
        return None
    group_of = {row.path: row.group for row in listed}
    roots = (row.path.removesuffix(paths[0]) for row in listed if f"/{row.path}".endswith(f"/{paths[0]}"))
    for root in sorted(roots, key=len):
        if all(os.path.join(root, path) in group_of for path in paths):
            return [group_of[os.path.join(root, path)] for path in paths]
    raise ValueError(f"splits.csv does not list {paths[0]} and the other images in one folder")


def read_splits(path: Path) -> dict[str, list[SplitRow]]:
    """The rows of `splits.csv` by split, in the order of the file.

    Raises:
        DataError: the file is missing or has changed.
    """
    found: dict[str, list[SplitRow]] = {}
    try:
        header, rows = read_table(path)
        more = [name for name in (CONTENT, GROUP, NAME) if name in header]
        if header not in ([*COLUMNS, *more], [COLUMNS[0], MULTI_LABEL.column, COLUMNS[2], *more]):
            raise ValueError(f"its columns are not {','.join((*COLUMNS, CONTENT))}")
        for name, label, split, *others in rows:
            if split not in SPLITS:
                raise ValueError(f"it has the split {split!r}")
            cells = dict(zip(more, others, strict=True))
            row = SplitRow(name, label, cells.get(CONTENT, ""), cells.get(GROUP, ""))
            found.setdefault(split, []).append(row)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is damaged: {error}", "restore the file, or train again") from error
    return found
