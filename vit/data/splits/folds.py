"""Folds: all images divided into N parts, each of which is the test part of one training"""

import re
from dataclasses import replace
from functools import reduce

import numpy as np

from vit.data.core.draws import uniform
from vit.data.core.samples import Labels, Samples, Source
from vit.data.splits.stratified import describe_division, group_folds
from vit.errors import DataError, UsageError


def read_fold(text: str) -> tuple[int, int]:
    """(number of the fold from 1, number of folds) of a text like "2/5"; UsageError for another text."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or int(found[2]) < 2 or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"data.fold {text}", "give I/N with I from 1 to N, such as 2/5")
    return int(found[1]), int(found[2])


def with_fold(source: Source, fold: str, seed: int) -> Source:
    """All images of a source in new splits: the test split is one fold, and the training split is all others.

    Args:
        source: the images. Their own splits do not count.
        fold: "I/N".
        seed: seed of the folds.

    Raises:
        UsageError: `fold` is not "I/N".
        DataError: the images cannot be divided into so many folds.
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
        having, lacking = (", ".join(split for split in grouped if grouped[split] is own) for own in (True, False))
        raise DataError(
            f"{source.name} has groups for {having} images and none for {lacking} images, and a fold needs all",
            "fill them in, or leave the groups out",
        )
    return reduce(Samples.followed_by, list(source.splits.values()))


def fold_numbers(samples: Samples, class_names: tuple[str, ...], folds: int, seed: int) -> Labels:
    """The fold (n,) of each image, from 0.

    Each class is divided evenly: its numbers of images in two folds differ by one at most, and so do the sizes of the
    folds. Groups stay whole, and the division is then as even as they allow. It depends on the seed and the sorted
    names alone.

    Raises:
        DataError: there are too few images or groups, or a class would be in one fold only.
    """
    order = np.array(sorted(range(len(samples)), key=samples.paths.__getitem__), dtype=np.int64)
    labels, result = samples.labels[order], np.empty(len(samples), dtype=np.int64)
    if labels.ndim > 1:
        raise DataError("images with several labels cannot be divided into folds", "give data with one label per image")
    units = len(samples) if samples.groups is None else len(set(samples.groups))
    unit = "image" if samples.groups is None else "group"
    if units < folds:
        raise DataError(f"{units:,} {unit}s are too few for {folds} folds", f"give fewer folds, or add {unit}s")
    if samples.groups is None:
        drawn = uniform(1, seed, labels, np.arange(len(labels)))[:, 0]
        result[order[np.lexsort((drawn, labels))]] = np.arange(len(labels)) % folds
    else:
        result[order] = group_folds(labels, [samples.groups[row] for row in order], folds, seed)
    counts = np.zeros((folds, len(class_names)), dtype=np.int64)
    np.add.at(counts, (result, samples.labels), 1)
    alone = np.flatnonzero((counts > 0).sum(axis=0) == 1)
    if len(alone):
        of_groups = list(range(len(samples))) if samples.groups is None else samples.groups
        units_of = {label: {of_groups[row] for row in np.flatnonzero(samples.labels == label)} for label in alone[:5]}
        whole = [class_names[label] for label in alone if len(units_of.get(label, ())) == 1]
        names = whole or [class_names[label] for label in alone]
        where, fix = (f"one {unit}", "or leave the classes out") if whole else ("one fold", "or give fewer folds")
        raise DataError(
            f"all images of {', '.join(map(repr, names[:5]))}{', ...' * (len(names) > 5)} are in {where}: their test "
            "would have no training images",
            f"add {unit}s with these classes, {fix}",
        )
    return result
