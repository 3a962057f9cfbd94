"""Class-balanced parts of the training images, each inside the next larger one."""

import numpy as np

from vit.data.draws import uniform
from vit.data.samples import Labels, Samples
from vit.errors import DataError


def nested_order(labels: Labels, seed: int) -> Labels:
    """All rows (n,) in an order whose every beginning is as balanced as the classes allow.

    First comes one image of every class, then a second one of every class that has two, and so on. Which image of a
    class comes when, and in which order the classes take their turns, is drawn from the seed.
    """
    turns = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        drawn = uniform(1, seed, int(label), np.arange(len(rows)))[:, 0]
        turns[rows[np.argsort(drawn, kind="stable")]] = np.arange(len(rows))
    within = uniform(1, seed, labels, turns)[:, 0]
    return np.lexsort((within, turns))


def subset(samples: Samples, images: int, seed: int) -> Samples:
    """`images` of the samples, class-balanced; of one seed, smaller subsets lie inside larger ones.

    The choice depends on the seed and on the sorted names alone, not on the order in which a file system lists them.

    Raises:
        DataError: there are not so many images.
    """
    if images > len(samples):
        raise DataError(f"{images:,} training images are asked for, there are {len(samples):,}", "ask for fewer")
    by_name = np.array(sorted(range(len(samples)), key=samples.paths.__getitem__), dtype=np.int64)
    chosen = by_name[nested_order(samples.labels[by_name], seed)[:images]]
    return samples.select(np.sort(chosen))
