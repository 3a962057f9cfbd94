"""Parts of the training images, each inside the next larger one: class-balanced, or with the classes' own shares."""

import heapq
from typing import Literal

import numpy as np

from vit.data.draws import uniform
from vit.data.samples import Labels, Samples
from vit.errors import DataError

Kind = Literal["balanced", "natural"]

IMBALANCED = 0.5  # images of the rarest class for each one of the commonest


def kind_of(labels: Labels, wanted: Literal["auto", "balanced", "natural"]) -> Kind:
    """The kind of subset; "auto" is natural where the rarest class has less than half the images of the commonest.

    Test images come as they are. Where the classes are unlike, a balanced subset would have other class shares than
    these, and the more so the smaller it is: a learning curve would show two things at a time.
    """
    if wanted != "auto":
        return wanted
    counts = np.unique(labels, return_counts=True)[1]
    return "natural" if counts.min() < IMBALANCED * counts.max() else "balanced"


def balanced_order(labels: Labels, seed: int) -> Labels:
    """All rows (n,) in an order whose every beginning is as balanced as the classes allow.

    First comes one image of every class, then a second one of every class that has two, and so on. Which image of a
    class comes when, and in which order the classes take their turns, is drawn from the seed.
    """
    turns = _turns(labels, seed)
    within = uniform(1, seed, labels, turns)[:, 0]
    return np.lexsort((within, turns))


def natural_order(labels: Labels, seed: int) -> Labels:
    """All rows (n,) in an order whose every beginning holds each class's share of it to within one image.

    The i-th image of a class with a share p is due after (i - 1) / p images, and at the latest as number i / p. Whoever
    must come first goes first, which keeps all of these dates (the proportionate fairness of Baruah et al. 1996).
    """
    turns, images = _turns(labels, seed), len(labels)
    drawn = uniform(1, seed, labels, turns)[:, 0].tolist()
    rows_of = {int(label): np.flatnonzero(labels == label) for label in np.unique(labels)}
    rows_of = {label: rows[np.argsort(turns[rows])] for label, rows in rows_of.items()}
    later = [(0, label) for label in rows_of]  # (images that come before, class)
    now: list[tuple[int, float, int]] = []  # (the latest place, drawn, class)
    taken = dict.fromkeys(rows_of, 0)
    order = np.empty(images, dtype=np.int64)
    for place in range(images):
        while later and later[0][0] <= place:
            _, label = heapq.heappop(later)
            latest = -(-(taken[label] + 1) * images // len(rows_of[label]))
            heapq.heappush(now, (latest, drawn[rows_of[label][taken[label]]], label))
        _, _, label = heapq.heappop(now)
        order[place] = rows_of[label][taken[label]]
        taken[label] += 1
        if taken[label] < len(rows_of[label]):
            heapq.heappush(later, (taken[label] * images // len(rows_of[label]), label))
    return order


def _turns(labels: Labels, seed: int) -> Labels:
    """Which image of its class each row is (n,), drawn from the seed."""
    turns = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        drawn = uniform(1, seed, int(label), np.arange(len(rows)))[:, 0]
        turns[rows[np.argsort(drawn, kind="stable")]] = np.arange(len(rows))
    return turns


def subset(samples: Samples, images: int, seed: int, kind: Kind) -> Samples:
    """`images` of the samples; of one seed and kind, smaller subsets lie inside larger ones.

    The choice depends on the seed and on the sorted names alone, not on the order in which a file system lists them.

    Raises:
        DataError: there are not so many images.
    """
    if images > len(samples):
        raise DataError(f"{images:,} training images are asked for, there are {len(samples):,}", "ask for fewer")
    by_name = np.array(sorted(range(len(samples)), key=samples.paths.__getitem__), dtype=np.int64)
    order = {"balanced": balanced_order, "natural": natural_order}[kind](samples.labels[by_name], seed)
    return samples.select(np.sort(by_name[order[:images]]))
