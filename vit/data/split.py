"""Cut validation and test images from the training images where the source has none of its own."""

import math
import os
from pathlib import Path

import numpy as np

from vit.data.draws import uniform
from vit.data.samples import Labels, Source
from vit.errors import DataError
from vit.tables import new_table

SPLITS = ("train", "validation", "test")


def complete(source: Source, validation: float, test: float, seed: int) -> Source:
    """The source with all three splits; those it lacks are cut from train, stratified by class.

    The cut depends on the seed and on the sorted names alone, not on the order in which a file system lists them.

    Args:
        validation: share of all images that become validation images, if the source has none.
        test: the same for test images.
    """
    shares = {
        split: share
        for split, share in (("validation", validation), ("test", test))
        if split not in source.splits and share > 0
    }
    if not shares:
        return source
    train = source.splits["train"]
    order = np.array(sorted(range(len(train)), key=train.paths.__getitem__), dtype=np.int64)
    parts = stratified(train.labels[order], list(shares.values()), seed)
    splits = dict(source.splits)
    for split, rows in zip((*shares, "train"), parts, strict=True):
        splits[split] = train.select(np.sort(order[rows]))
    for split in (*shares, "train"):
        if len(splits[split]) == 0:
            raise DataError(
                f"{len(train)} images are too few to cut a {split} part",
                "add images, or lower --data.validation and --data.test",
            )
    cut = " and ".join(f"{len(splits[split]):,} for {split}" for split in shares)
    note = f"cut {cut} from the {len(train):,} training images (stratified, seed {seed})"
    return Source(source.name, source.classes, splits, [*source.notes, note])


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


def write_splits(source: Source, path: Path) -> None:
    """Every image with its label and split, as the CSV that `vit train` reads back."""
    with new_table(path, ("path", "label", "split"), mode="x") as table:
        for split in SPLITS:
            if split in source.splits:
                samples = source.splits[split]
                root = samples.root.resolve() if samples.root is not None else ""
                names = (source.classes[label] for label in samples.labels.tolist())
                for name, label in zip(samples.paths, names, strict=True):
                    table.row((os.path.join(root, name), label, split))
