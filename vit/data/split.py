"""Cut validation and test images from the training images where the source has none of its own."""

import math
import os
from collections.abc import Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vit.csv_files import new_table, read_table
from vit.data.draws import uniform
from vit.data.samples import Labels, Source
from vit.errors import DataError

SPLITS = ("train", "validation", "test")
COLUMNS, CONTENT = ("path", "label", "split"), "content"  # of splits.csv


def complete(source: Source, validation: float, test: float, seed: int) -> Source:
    """The source with all three splits; those it lacks are cut from train, stratified by class.

    Where most classes have too few images for that, so that less than half of a share would come together, images are
    taken from all classes alike, and each class keeps at least one for training.

    The cut depends on the seed and on the sorted names alone, not on the order in which a file system lists them.

    Args:
        validation: share of all images that become validation images, if the source has none.
        test: the same for test images.
    """
    for split, samples in source.splits.items():
        if len(samples) == 0:
            raise DataError(
                f"the {split} part of {source.name} has no images",
                "add images, or remove its folder: the part is then cut from the training images",
            )
    shares = {
        split: share
        for split, share in (("validation", validation), ("test", test))
        if split not in source.splits and share > 0
    }
    if not shares:
        return source
    train = source.splits["train"]
    order = np.array(sorted(range(len(train)), key=train.paths.__getitem__), dtype=np.int64)
    labels, wanted = train.labels[order], list(shares.values())
    parts, how = stratified(labels, wanted, seed), "stratified"
    if any(2 * len(part) < math.floor(len(train) * share + 0.5) for part, share in zip(parts, wanted, strict=False)):
        parts, how = unstratified(labels, wanted, seed), "not stratified: most classes have too few images"
    splits = dict(source.splits)
    for split, rows in zip((*shares, "train"), parts, strict=True):
        splits[split] = train.select(np.sort(order[rows]))
    for split in (*shares, "train"):
        if len(splits[split]) == 0:
            raise DataError(
                f"{len(train)} images of {len(np.unique(labels))} classes are too few to cut a {split} part",
                "add images, so that most classes have two or more, or give folders or a CSV with splits",
            )
    cut = " and ".join(f"{len(splits[split]):,} for {split}" for split in shares)
    note = f"cut {cut} from the {len(train):,} training images ({how}, seed {seed})"
    return Source(source.name, source.class_names, splits, [*source.notes, note])


def stratified(labels: Labels, shares: list[float], seed: int) -> list[Labels]:
    """Rows of each share, then the rest; every class is divided alike, and its largest part is always the rest.

    A class of n images gives round(n * share) to each share, at least 1 where n is 3 or more, and keeps at least one.
    """
    parts: list[list[int]] = [[] for _ in range(len(shares) + 1)]
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        rows = rows[np.argsort(uniform(1, seed, int(label), np.arange(len(rows)))[:, 0], kind="stable")]
        start = 0
        for part, share in zip(parts, shares, strict=False):
            count = max(math.floor(len(rows) * share + 0.5), 1 if len(rows) > len(shares) else 0)
            count = min(count, len(rows) - 1 - start)
            part.extend(rows[start : start + count].tolist())
            start += count
        parts[-1].extend(rows[start:].tolist())
    return [np.array(sorted(part), dtype=np.int64) for part in parts]


def unstratified(labels: Labels, shares: list[float], seed: int) -> list[Labels]:
    """Rows of each share, then the rest, in an order that the seed decides; the rest has the first of each class."""
    order = np.argsort(uniform(1, seed, len(labels), np.arange(len(labels)))[:, 0], kind="stable")
    _, first = np.unique(labels[order], return_index=True)
    free = np.delete(order, first)
    ends = np.cumsum([math.floor(len(labels) * share + 0.5) for share in shares])
    parts = np.split(free, ends)
    parts[-1] = np.concatenate([parts[-1], order[first]])
    return [np.sort(part) for part in parts]


class SplitRow(NamedTuple):
    """One image of splits.csv.

    Attributes:
        path: of the file, absolute; a name for an image that its data set holds.
        label: name of its class.
        content: hash of its bytes or pixels; "" where it could not be read, and in files from before there were hashes.
    """

    path: str
    label: str
    content: str = ""


def write_splits(source: Source, path: Path, digests: Mapping[str, Sequence[str]] | None = None) -> None:
    """Every image with its label and split, as the CSV that `vit train` reads back.

    Args:
        digests: of each split, a hash for each image, for a fourth column; see `read_contents`.
    """
    with new_table(path, COLUMNS if digests is None else (*COLUMNS, CONTENT), mode="x") as table:
        for split, rows in split_rows(source, digests).items():
            for row in rows:
                table.row((row.path, row.label, split, *(() if digests is None else (row.content,))))


def split_rows(source: Source, digests: Mapping[str, Sequence[str]] | None = None) -> dict[str, list[SplitRow]]:
    """What `write_splits` writes of each split."""
    found: dict[str, list[SplitRow]] = {}
    for split in SPLITS:
        if split in source.splits:
            samples = source.splits[split]
            root = samples.root.resolve() if samples.root is not None else ""
            names = (source.class_names[label] for label in samples.labels.tolist())
            contents = repeat("", len(samples)) if digests is None else digests[split]
            found[split] = [
                SplitRow(os.path.join(root, path), name, content)
                for path, name, content in zip(samples.paths, names, contents, strict=True)
            ]
    return found


def read_splits(path: Path) -> dict[str, list[SplitRow]]:
    """What `write_splits` wrote, in its order.

    Raises:
        DataError: the file is not there, or not as it was written.
    """
    found: dict[str, list[SplitRow]] = {}
    try:
        header, rows = read_table(path)
        if tuple(header) not in (COLUMNS, (*COLUMNS, CONTENT)) or any(len(row) != len(header) for row in rows):
            raise ValueError(f"its columns are not {','.join((*COLUMNS, CONTENT))}")
        for name, label, split, *content in rows:
            found.setdefault(split, []).append(SplitRow(name, label, *content))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not as its run wrote it: {error}", "restore it, or train again") from error
    return found
