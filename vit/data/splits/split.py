"""Validation and test images cut from the training images, folds of all images, and `splits.csv`, which lists them"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vit.atomic_files import atomic_write
from vit.csv_files import new_table, read_table
from vit.data.core.draws import uniform
from vit.data.core.groups import UNDO
from vit.data.core.samples import Labels, Samples, Source, label_names
from vit.data.splits.stratified import describe_division, group_folds, iteratively_stratified, stratified
from vit.errors import DataError, UsageError, explained
from vit.tasks.task import Task, task_of_columns

SPLITS = ("train", "validation", "test", "calibration")
GROUP = "group"  # column of splits.csv, where images have groups
NAME = "name"  # its last column: the path below the folder of the images, as predictions/*.csv have it


def with_all_splits(source: Source, validation: float, test: float, seed: int, calibration: float = 0.0) -> Source:
    """The source with all splits. Missing splits are cut from the training images, stratified by class or by labels.

    A class has its proportion of each split to about one image, and keeps half of its images for training. Images with
    groups are cut by whole groups, stratified as well as these allow. The cut depends on the seed and the sorted names
    alone, and not on the order in which a file system lists files. DataError where a split is empty.

    Args:
        validation, test, calibration: fraction of all images for a split, if the source lacks it.
    """
    if empty := next((split for split, samples in source.splits.items() if not len(samples)), None):
        fix = f"add class folders with images, or move its folder elsewhere: then vit cuts {empty} images"
        raise DataError(f"the {empty} split of {source.name} has no images", fix)
    wanted = {"validation": validation, "test": test, "calibration": calibration}
    fractions = {split: part for split, part in wanted.items() if split not in source.splits and part > 0}
    if not fractions:
        return source
    train = source.splits["train"]
    order = np.array(sorted(range(len(train)), key=train.paths.__getitem__), dtype=np.int64)
    groups = None if train.groups is None else [train.groups[row] for row in order]
    if groups is None and not train.task.is_exclusive:
        parts = iteratively_stratified(train.labels[order], list(fractions.values()), seed)
    else:
        parts = stratified(train.labels[order], list(fractions.values()), seed, groups)
    splits = dict(source.splits)
    for split, rows in zip((*fractions, "train"), parts, strict=True):
        splits[split] = train.select(np.sort(order[rows]))
    task = source.task
    classes = f"{np.count_nonzero(train.class_counts(len(source.class_names))):,} {task.kinds}"
    fix = f"add images, so that most {task.kinds} have two or more, or give folders or a CSV with splits"
    for split in (*fractions, "train"):
        if len(splits[split]) == 0:
            problem = f"{len(train):,} images of {classes} are too few to cut a {split} split"
            if train.groups is not None:
                number = len(set(train.groups))
                problem += f" of whole groups: they are {number:,} group{'s' * (number != 1)}"
                fix = "add groups, check that the group is not the same for all images, or give a CSV with splits"
                if any(note.endswith(UNDO) for note in source.notes):
                    fix = "add images that are not near-duplicates of others, or divide these with --data.bursts split"
            raise DataError(problem, fix)
    gone = np.flatnonzero(splits["train"].class_counts(len(source.class_names)) == 0)
    if len(gone) and not task.is_exclusive:
        fix = "add images with it, remove the label, or give a CSV with the column split"
        raise DataError(f"no training image with the label {source.class_names[gone[0]]!r} is left after the cut", fix)
    cut = " and ".join(f"{len(splits[split]):,} for {split}" for split in fractions)
    note = f"cut {cut} from the {len(train):,} training images ({describe_division(train)}, seed {seed})"
    return replace(source, splits=splits, notes=[*source.notes, note])


def read_fold(text: str) -> tuple[int, int]:
    """(number of the fold from 1, number of folds) of a text like "2/5"; UsageError for another text."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or int(match[2]) < 2 or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"data.fold {text}", "give I/N with I from 1 to N, such as 2/5")
    return int(match[1]), int(match[2])


def with_fold(source: Source, fold: str, seed: int) -> Source:
    """All images of a source in new splits: the test split is the fold "I/N", and the training split is all others.

    UsageError for another text, DataError where the images cannot be divided into so many folds.
    """
    number, folds = read_fold(fold)
    samples = pooled(source)
    is_test = fold_numbers(samples, source.class_names, folds, seed) == number - 1
    splits = {"train": samples.select(np.flatnonzero(~is_test)), "test": samples.select(np.flatnonzero(is_test))}
    note = f"fold {number} of {folds} is the test part ({describe_division(samples)}, seed {seed})"
    return replace(source, splits=splits, notes=[*source.notes, note])


def pooled(source: Source) -> Samples:
    """The images of all splits in one list. DataError where only some splits have groups."""
    grouped = {split: samples.groups is not None for split, samples in source.splits.items() if len(samples)}
    if len(set(grouped.values())) > 1:
        having, lacking = (", ".join(split for split in grouped if grouped[split] is flag) for flag in (True, False))
        problem = f"{source.name} has groups for {having} images and none for {lacking} images, and a fold needs all"
        raise DataError(problem, "fill them in, or leave the groups out")
    return reduce(Samples.followed_by, list(source.splits.values()))


def fold_numbers(samples: Samples, class_names: tuple[str, ...], folds: int, seed: int) -> Labels:
    """The fold (n,) of each image, from 0.

    Each class is divided evenly: its numbers of images in two folds differ by one at most, and so do the sizes of the
    folds. Groups stay whole, and the division is then as even as they allow. It depends on the seed and the sorted
    names alone. DataError where images or groups are too few, or a class would be in one fold only.
    """
    order = np.array(sorted(range(len(samples)), key=samples.paths.__getitem__), dtype=np.int64)
    labels, result = samples.labels[order], np.empty(len(samples), dtype=np.int64)
    units = len(samples) if samples.groups is None else len(set(samples.groups))
    unit = "image" if samples.groups is None else "group"
    if units < folds:
        raise DataError(f"too few {unit}s for {folds} folds: {units:,}", f"give fewer folds, or add {unit}s")
    if samples.groups is None:
        drawn = uniform(1, seed, labels, np.arange(len(labels)))[:, 0]
        result[order[np.lexsort((drawn, labels))]] = np.arange(len(labels)) % folds
    else:
        result[order] = group_folds(labels, [samples.groups[row] for row in order], folds, seed)
    counts = np.zeros((folds, len(class_names)), dtype=np.int64)
    np.add.at(counts, (result, samples.labels), 1)
    alone = np.flatnonzero((counts > 0).sum(axis=0) == 1)
    if len(alone):
        of_groups = range(len(samples)) if samples.groups is None else samples.groups
        units_of = {label: {of_groups[row] for row in np.flatnonzero(samples.labels == label)} for label in alone[:5]}
        whole = [class_names[label] for label in alone if len(units_of.get(label, ())) == 1]
        names = whole or [class_names[label] for label in alone]
        where, fix = (f"one {unit}", "or leave the classes out") if whole else ("one fold", "or give fewer folds")
        shown = f"{', '.join(map(repr, names[:5]))}{', ...' * (len(names) > 5)}"
        shown = f"there is only {where} of {shown}" if where == "one image" else f"all images of {shown} are in {where}"
        raise DataError(f"{shown}: their test would have no training images", f"add {unit}s with these classes, {fix}")
    return result


class SplitRow(NamedTuple):
    """One image of splits.csv."""

    path: str  # absolute path of the file; a name for an image of a data set without files
    label: str  # class name; the text of `label_text` where an image may have several labels
    content_hash: str  # hash of the file's bytes, or of the pixels; "" for unreadable files
    group: str = ""  # the image's group; "" where images have none
    name: str = ""  # path below the folder of the images, which may have moved since; else as `path`


def write_splits(source: Source, path: Path, hashes: Mapping[str, Sequence[str]]) -> None:
    """Write `splits.csv`: every image with its label, split and content hash, and its group where images have some."""
    has_groups = any(samples.groups is not None for samples in source.splits.values())
    with atomic_write(path) as partial, new_table(partial, _columns(source.task, has_groups)) as table:
        for split, rows in split_rows(source, hashes).items():
            for row in rows:
                table.row((row.path, row.label, split, row.content_hash, *[row.group] * has_groups, row.name))


def _columns(task: Task, has_groups: bool) -> list[str]:
    return ["path", task.column, "split", "content", *[GROUP] * has_groups, NAME]


def split_rows(source: Source, hashes: Mapping[str, Sequence[str]] | None = None) -> dict[str, list[SplitRow]]:
    """The rows of each split, as `write_splits` writes them; without `hashes`, no content hash is known."""
    rows_of: dict[str, list[SplitRow]] = {}
    for split in (split for split in SPLITS if split in source.splits):
        samples = source.splits[split]
        root = "" if samples.root is None else samples.root.resolve()
        names = label_names(samples, source.class_names)
        contents = repeat("", len(samples)) if hashes is None else hashes[split]
        groups = repeat("", len(samples)) if samples.groups is None else samples.groups
        rows_of[split] = [
            SplitRow(os.path.join(root, path), label, content, group, path)
            for path, label, content, group in zip(samples.paths, names, contents, groups, strict=True)
        ]
    return rows_of


def listed_task(path: Path) -> Task:
    """The task of a readable `splits.csv`."""
    return task_of_columns(_header(path))


def lists_groups(path: Path) -> bool:
    """Whether there is a readable `splits.csv` that has the group of each image."""
    return path.is_file() and GROUP in _header(path)


def _header(path: Path) -> list[str]:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.readline().strip().split(",")


def groups_of(paths: Sequence[str], listed: Sequence[SplitRow]) -> list[str] | None:
    """(n,) groups that the rows of a split list for images, by name; None where they have none.

    LookupError for an image that is not listed.
    """
    if not paths or not any(row.group for row in listed):
        return None
    group_of = {row.name: row.group for row in listed}
    return [group_of[path] for path in paths]


def read_splits(path: Path) -> dict[str, list[SplitRow]]:
    """The rows of `splits.csv` by split, in the order of the file. DataError where it is missing or has changed."""
    rows_of: dict[str, list[SplitRow]] = {}
    with explained(DataError, f"{path} is damaged", "restore the file, or train again", (OSError, ValueError)):
        header, rows = read_table(path)
        task = task_of_columns(header)
        if header != (columns := _columns(task, GROUP in header)):
            raise ValueError(f"its columns are not {','.join(columns)}")
        for row in rows:
            cells = dict(zip(columns, row, strict=True))
            if cells["split"] not in SPLITS:
                raise ValueError(f"it has the split {cells['split']!r}")
            image = SplitRow(cells["path"], cells[task.column], cells["content"], cells.get(GROUP, ""), cells[NAME])
            rows_of.setdefault(cells["split"], []).append(image)
    return rows_of
