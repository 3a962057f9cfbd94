"""Nested subsets of the training images: class-balanced, or with the class proportions of all images."""

import heapq
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from vit.data.core.draws import uniform
from vit.data.core.samples import Labels, Samples
from vit.data.splits.stratified import class_turns, iteratively_stratified
from vit.errors import DataError, UsageError
from vit.tasks.label_text import LabelRows

SubsetKind = Literal["balanced", "natural"]

IMBALANCED = 0.5  # images of the smallest class, divided by those of the largest


def subset_kind(labels: npt.NDArray[Any], wanted: Literal["auto", "balanced", "natural"]) -> SubsetKind:
    """The kind of subset. "auto" means "natural" if the smallest class has less than half the images of the largest.

    Test images keep their class proportions. A balanced subset of uneven classes has others, which change with its
    size. A learning curve would then show two effects at once.
    """
    if labels.ndim == 2 and wanted == "balanced":
        problem = "--data.subset balanced: images with several labels cannot have each label equally often"
        raise UsageError(problem, "give --data.subset auto")
    if wanted != "auto" or labels.ndim == 2:
        return "balanced" if wanted == "balanced" else "natural"
    counts = np.unique(labels, return_counts=True)[1]
    return "natural" if counts.min() < IMBALANCED * counts.max() else "balanced"


def balanced_order(labels: Labels, seed: int) -> Labels:
    """All rows (n,) in an order of which every prefix is as balanced as the classes allow.

    One image of every class comes first, then a second image of every class that has two, and so on.
    """
    turns = class_turns(labels, seed)
    within = uniform(1, seed, labels, turns)[:, 0]
    return np.lexsort((within, turns))


def natural_order(labels: Labels, seed: int, wanted: int | None = None) -> Labels:
    """The first `wanted` rows, or all. Every prefix has the proportion of each class to within one image.

    The i-th image of a class with proportion p comes after at least (i - 1) / p images. Its deadline is position i / p.
    The image with the earliest deadline comes first, which meets all deadlines (the proportionate fairness of
    Baruah et al. 1996).
    """
    turns, num_images = class_turns(labels, seed), len(labels)
    by_class = np.lexsort((turns, labels))
    rows, sizes = by_class.tolist(), np.bincount(labels).tolist()
    drawn = uniform(1, seed, labels, turns)[by_class, 0].tolist()
    next_row = (np.cumsum(sizes) - sizes).tolist()  # of each class
    taken = [0] * len(sizes)
    waiting = [(0, label) for label, size in enumerate(sizes) if size]  # (first position, class)
    ready: list[tuple[int, float, int]] = []  # (last position, drawn number, class)
    order = []
    for position in range(num_images if wanted is None else wanted):
        while waiting and waiting[0][0] <= position:
            _, label = heapq.heappop(waiting)
            deadline = -(-(taken[label] + 1) * num_images // sizes[label])
            heapq.heappush(ready, (deadline, drawn[next_row[label]], label))
        label = heapq.heappop(ready)[2]
        order.append(rows[next_row[label]])
        next_row[label] += 1
        taken[label] += 1
        if taken[label] < sizes[label]:
            heapq.heappush(waiting, (taken[label] * num_images // sizes[label], label))
    return np.array(order, dtype=np.int64)


def nested_rows(labels: LabelRows, num_images: int, seed: int) -> Labels:
    """The rows of a subset in which every label has about its proportion; a smaller one lies inside each larger one.

    All rows are halved by iterative stratification, and each half again. The subset is the first `num_images` rows in
    the order of these halves, so only the halves at its end are computed.
    """
    parts: list[Labels] = []
    rows, depth = np.arange(len(labels)), 0
    while len(rows) > num_images > 0:
        first, second = (rows[half] for half in iteratively_stratified(labels[rows], [0.5], seed * 64 + depth))
        if not (len(first) and len(second)):  # a pair of which both went to one half
            first, second = rows[:1], rows[1:]
        if num_images >= len(first):
            parts.append(first)
            num_images -= len(first)
            rows = second
        else:
            rows = first
        depth += 1
    if num_images:
        parts.append(rows)
    return np.sort(np.concatenate(parts))


def subset(samples: Samples, num_images: int, seed: int, kind: SubsetKind) -> Samples:
    """A subset of the samples. With one seed and kind, a smaller subset lies inside each larger one.

    The choice depends on the seed and the sorted names alone.
    """
    if num_images > len(samples):
        raise DataError(f"{num_images:,} training images are wanted, but there are {len(samples):,}", "ask for fewer")
    by_name = np.array(sorted(range(len(samples)), key=samples.paths.__getitem__), dtype=np.int64)
    labels = samples.labels[by_name]
    if not samples.task.is_exclusive:
        order = nested_rows(labels, num_images, seed)
    else:
        order = balanced_order(labels, seed) if kind == "balanced" else natural_order(labels, seed, num_images)
    return samples.select(np.sort(by_name[order[:num_images]]))
