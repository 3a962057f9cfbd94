"""Parts of a list of images with equal proportions of every class, where no group of images is divided.

Images with several labels and without groups are divided by `iteratively_stratified`. All others take two steps:

1. Groups of two or more images are placed by `assign`. So are all groups where most images are in such groups.
2. Each class gives images that stand alone, so that it has its proportion of every part to about one image. Classes
   with an image for each part are rounded by largest remainders, as in scikit-learn's StratifiedShuffleSplit. Rarer
   ones are rounded one after the other in the order of their sizes, so that each makes up for the one before
   (systematic sampling: Cochran 1977, "Sampling Techniques", chapter 8). Largest remainders would choose classes of 4
   images rather than of 2, and rounding each class alone loses the tail.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse

from vit.data.core.draws import uniform
from vit.data.core.samples import Labels, Samples
from vit.tasks.label_text import PRESENT, LabelRows

Floats = npt.NDArray[np.float64]

_STARTS, _MOVES = 48, 2000  # random assignments of groups that are compared; at most so many groups are placed in all
_PASSES = 5  # over all groups, to improve an assignment
TIE = 0.3  # images of the rarest label by which parts may differ and still count as equal
_TOLERANCE = 3e-4  # of the sum over parts of (fraction in a part - wanted)^2 / wanted: 0.3 points for a part of a tenth


def stratified(
    labels: Labels, fractions: Sequence[float], seed: int, groups: Sequence[str] | None = None
) -> list[Labels]:
    """Rows of each part, then the remaining rows, with every class divided in the same proportions.

    The remaining rows keep at least half of each class, or their own fraction where that is smaller, as far as groups
    allow. A class of one image, or of one group, is among them. No part is empty if there are images enough. With
    several labels (n, K) every image is a group or part of one.
    """
    sizes = np.maximum(1, np.floor(len(labels) * np.asarray(fractions, dtype=np.float64) + 1e-9)) / max(len(labels), 1)
    wanted = np.array([*sizes, max(0.0, 1 - sizes.sum())])
    part = _parts(labels, wanted, seed, groups, keeps_half=True)
    return [np.flatnonzero(part == number) for number in range(len(wanted))]


def group_folds(labels: Labels, groups: Sequence[str], folds: int, seed: int) -> Labels:
    """The fold (n,) of each row, from 0, where no group is divided. There are as many groups as folds, or more."""
    return _parts(labels, np.full(folds, 1 / folds), seed, groups, keeps_half=False)


def describe_division(samples: Samples) -> str:
    """How images are divided."""
    if samples.groups is None:
        return samples.task.divided
    several = sum(count > 1 for count in Counter(samples.groups).values())
    return f"stratified, {several:,} group{'s' * (several != 1)} of several images kept whole"


def class_turns(labels: Labels, seed: int) -> Labels:
    """The turn (n,) of each row: the position of the image among those of its class, drawn from the seed."""
    order, turns = np.argsort(labels, kind="stable"), np.empty(len(labels), dtype=np.int64)
    of_class = labels[order]
    firsts = np.flatnonzero(np.diff(of_class, prepend=-1))
    places = np.arange(len(labels)) - np.repeat(firsts, np.diff([*firsts, len(labels)]))  # 0, 1, 2, ... in each class
    drawn = uniform(1, seed, of_class, places)[:, 0]
    turns[order[np.lexsort((drawn, of_class))]] = places
    return turns


def _parts(labels: Labels, wanted: Floats, seed: int, groups: Sequence[str] | None, keeps_half: bool) -> Labels:
    """The part (n,) of each row; with `keeps_half` the last part keeps half of each class."""
    part = np.full(len(labels), -1, dtype=np.int64)
    if groups is not None:
        _, numbers, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
        is_whole = sizes[numbers] > 1
        if labels.ndim > 1 or is_whole.mean() > 0.5:
            is_whole[:] = True
        if is_whole.any():
            _, group_of = np.unique(numbers[is_whole], return_inverse=True)
            totals = _counts(labels, np.zeros(len(labels), dtype=np.int64)).toarray()[0]
            part[is_whole] = assign(_counts(labels[is_whole], group_of), totals, wanted, seed, keeps_half)[group_of]
    alone = np.flatnonzero(part < 0)
    if len(alone):
        part[alone] = _alone(labels, part, alone, wanted, seed, keeps_half)
    return part


def _alone(labels: Labels, part: Labels, alone: Labels, wanted: Floats, seed: int, keeps_half: bool) -> Labels:
    """The part (m,) of the rows that stand alone, beside rows with a part."""
    num_classes, last = int(labels.max()) + 1, len(wanted) - 1
    own, totals = labels[alone], np.bincount(labels, minlength=num_classes)
    free = np.bincount(own, minlength=num_classes)
    taken = np.zeros((len(wanted), num_classes))
    np.add.at(taken, (part[part >= 0], labels[part >= 0]), 1)
    by_size = np.lexsort((uniform(1, seed, np.arange(num_classes))[:, 0], -totals))  # rounding evens out in this order

    def rounded(numbers: Floats, limit: Labels, turn: int) -> Labels:
        """Numbers (C,) rounded up or down so that their sum is kept, and none is above its limit."""
        ends = np.cumsum(np.clip(numbers, 0, limit)[by_size]).round(9) + uniform(1, seed, num_classes, turn)[0]
        counts_of_class = np.empty(num_classes, dtype=np.int64)
        counts_of_class[by_size] = np.diff(np.floor(ends), prepend=0)
        return np.minimum(counts_of_class, limit)

    counts = np.zeros((len(wanted), num_classes), dtype=np.int64)
    left, upto = free.copy(), last
    if keeps_half:
        outside = wanted[:last].sum()
        limit = np.clip(_most_outside(totals, outside) - taken[:last].sum(axis=0), 0, free).astype(np.int64)
        is_common = totals * wanted[:last].min(initial=1) >= 1
        for number in range(last):
            ideal = np.where(is_common, totals * wanted[number] - taken[number], 0)
            counts[number] = _largest_remainders(ideal, limit - counts[:last].sum(axis=0), by_size)
        # the rare images of all parts but the last are chosen together, so that a limit is shared fairly
        left = rounded(np.where(is_common, 0, totals * outside - taken[:last].sum(axis=0)), limit, last)
        counts[last], upto = free - left - counts[:last].sum(axis=0), last - 1
    for number in range(upto):
        ahead = slice(number, upto + 1)
        share = wanted[number] / max(wanted[ahead].sum(), 1e-12)
        more = rounded((left + taken[ahead].sum(axis=0)) * share - taken[number], left, number)
        counts[number] += more
        left = left - more
    counts[upto] += left
    turns = class_turns(own, seed)
    return (turns[:, None] >= np.cumsum(counts, axis=0)[:-1].T[own]).sum(axis=1)


def _largest_remainders(numbers: Floats, limit: Labels, order: Labels) -> Labels:
    """Numbers (C,) rounded down, and those with the largest remainders up, so that their sum is kept.

    No result is above its limit (C,). Of equal remainders, those that come first in the order (C,) are rounded up.
    """
    numbers = np.clip(numbers, 0, limit).round(9)
    rounded = np.floor(numbers).astype(np.int64)
    more = round(float((numbers - rounded).sum()))
    rounded[order[np.argsort((rounded - numbers)[order], kind="stable")[:more]]] += 1
    return np.minimum(rounded, limit)


def _most_outside(totals: Labels, outside: float) -> Labels:
    """How many images (C,) of each class the last part may lack: half, or the fraction of the other parts."""
    most = np.maximum(totals // 2, np.floor(totals * outside + 1e-9).astype(np.int64))
    return np.minimum(most, np.maximum(totals - 1, 0))


def _counts(labels: Labels, numbers: Labels) -> scipy.sparse.csr_array:
    """(G, C) images of each group and class. Of several labels each is a class, and images without one are a class."""
    if labels.ndim == 2:
        present = labels == PRESENT
        rows, columns = np.nonzero(np.column_stack([present, ~present.any(axis=1)]))
        rows, num_classes = numbers[rows], labels.shape[1] + 1
    else:
        rows, columns, num_classes = numbers, labels, int(labels.max(initial=-1)) + 1
    shape = (int(numbers.max(initial=-1)) + 1, num_classes)
    return scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def assign(counts: scipy.sparse.csr_array, totals: Floats, wanted: Floats, seed: int, keeps_half: bool) -> Labels:
    """The part (G,) of each group, so that every part gets its fraction of each class, as far as groups allow.

    Each start draws a part for every group. Then each group in turn moves to the part where the sum over parts and
    classes of (fraction in the part - wanted)^2 / wanted is least, until none moves. The number of images counts as one
    more class. Of all starts that are about as good as the best one, the seed chooses one.

    Args:
        counts: (G, C) images of each group and class.
        totals: (C,) images of each class, also of those without a group; with groups alone no part stays empty.
        wanted: (P,) fraction of each part.
    """
    images = counts.sum(axis=1)
    columns = scipy.sparse.hstack([counts, images[:, None]], format="csr")
    sums = columns.sum(axis=0)
    columns = columns.multiply(1 / np.maximum(sums, 1)).tocsr()
    has_all_in_groups = counts.shape[1] == len(totals) and bool((counts.sum(axis=0) == totals).all())
    num_groups, floor = len(images), np.maximum(wanted, 1e-6)
    of_group = [slice(*ends) for ends in zip(columns.indptr, columns.indptr[1:], strict=False)]
    squares, is_divisible = columns.multiply(columns).sum(axis=1), (columns > 0).sum(axis=0) > 1
    of_parts = np.arange(len(wanted))[:, None]
    assignments: list[tuple[float, Labels]] = []

    def consider(part: Labels) -> None:
        """Add a copy of an assignment that obeys all rules, with its cost."""
        part = part.copy()
        if keeps_half:
            _give_back(part, counts, totals, wanted)
        if has_all_in_groups:
            _fill_empty(part, counts, wanted, drawn[:, 1], keeps_half)
        in_parts = (part == of_parts) @ columns  # (P, C + 1)
        cost = float((np.square(in_parts - wanted[:, None]) / floor[:, None])[:, sums > 0].sum() / (sums > 0).sum())
        in_one = int((((in_parts > 1 - 1e-9).any(axis=0)) & is_divisible).sum())
        assignments.append((cost + (0 if keeps_half else in_one), part))

    for start in range(min(_STARTS, max(1, _MOVES // num_groups))):
        drawn = uniform(2, seed, num_groups, start, np.arange(num_groups))
        part = np.minimum(np.searchsorted(np.cumsum(wanted), drawn[:, 0], side="right"), len(wanted) - 1)
        excess = (part == of_parts) @ columns - wanted[:, None] * (sums > 0)  # (P, C + 1)
        for _ in range(_PASSES):
            before = part.copy()
            for group in np.argsort(drawn[:, 1]).tolist():
                own, shares = columns.indices[of_group[group]], columns.data[of_group[group]]
                excess[part[group], own] -= shares
                growth = (squares[group] + 2 * excess[:, own] @ shares) / floor
                part[group] = growth.round(12).argmin()
                excess[part[group], own] += shares
            consider(part)
            if (part == before).all():
                break
    limit = 2 * min(cost for cost, _ in assignments) + _TOLERANCE
    good = np.unique([part for cost, part in assignments if cost <= limit], axis=0)
    return np.asarray(good[int(uniform(1, seed, num_groups)[0] * len(good))])


def _fill_empty(part: Labels, counts: scipy.sparse.csr_array, wanted: Floats, drawn: Floats, keeps_class: bool) -> None:
    """Give each part without a group one of the nearest size, from a part with several; the last keeps every class."""
    shares, last = counts.sum(axis=1) / counts.sum(), len(wanted) - 1
    for number in np.flatnonzero(np.bincount(part, minlength=len(wanted)) == 0):
        last_counts = counts[part == last].sum(axis=0) if keeps_class else np.full(counts.shape[1], np.inf)
        has_last = scipy.sparse.csr_array((counts.data >= last_counts[counts.indices], counts.indices, counts.indptr))
        is_needed = (part == last) & (has_last.sum(axis=1) > 0)
        movable = np.flatnonzero((np.bincount(part, minlength=len(wanted))[part] > 1) & ~is_needed)
        if len(movable):
            part[movable[np.lexsort((drawn[movable], abs(shares[movable] - wanted[number]).round(9)))[0]]] = number


def _give_back(part: Labels, counts: scipy.sparse.csr_array, totals: Floats, wanted: Floats) -> None:
    """Move groups to the last part until it keeps enough of each class: of those that suffice the smallest."""
    last, by_class = len(wanted) - 1, counts.tocsc()
    most = _most_outside(totals.astype(np.int64), float(wanted[:last].sum()))
    while True:
        excess = counts[part != last].sum(axis=0) - most[: counts.shape[1]]
        if (excess <= 0).all():
            return
        label = int(excess.argmax())
        column = slice(by_class.indptr[label], by_class.indptr[label + 1])
        groups, numbers = by_class.indices[column], by_class.data[column]
        outside = part[groups] != last
        groups, numbers = groups[outside], numbers[outside]
        part[groups[np.lexsort((numbers, numbers < excess[label]))[0]]] = last


def iteratively_stratified(labels: LabelRows, fractions: Sequence[float], seed: int) -> list[Labels]:
    """Rows of each part, then the remaining rows, with every label divided in about the same proportions.

    Sechidis, Tsoumakas and Vlahavas 2011, "On the Stratification of Multi-Label Data" (ECML PKDD, algorithm 1): the
    label with the fewest images that are left comes first. Each of its images goes to the part that lacks most images
    of this label. So a rare label is divided while all parts still have room. Of parts that lack about equally many,
    we take the one that lacks most of all labels of the image, where the paper takes the one with most room. With 40
    common labels this halves the deviation from the wanted proportions. An unknown label (-1) counts as absent.
    """
    present = labels == PRESENT
    shares = np.array([*fractions, 1.0 - sum(fractions)])
    draws = uniform(1 + len(shares), seed, np.arange(len(labels)))
    order = np.argsort(draws[:, 0], kind="stable")
    wanted = shares[:, None] * present.sum(axis=0)  # (parts, K) images that a part still lacks
    room = shares * len(labels)  # (parts,)
    part_of = np.full(len(labels), -1, dtype=np.int64)
    left = present.sum(axis=0)  # (K,) images without a part

    def place(row: int, lacking: Floats) -> None:
        """Give a row to the part that lacks most of one label. Of equal parts `ranks` decides, the last one first."""
        of_all = wanted[:, present[row]].sum(axis=1)
        # without the rounding errors of floats, so that equal numbers are equal
        ranks = (draws[row, 1:], room.round(9), of_all.round(9), lacking >= lacking.max() - TIE)
        part = np.lexsort(ranks)[-1]
        part_of[row] = part
        wanted[part] -= present[row]
        room[part] -= 1.0

    while left.any():
        rarest = int(np.where(left > 0, left, len(labels) + 1).argmin())
        for row in order[present[order, rarest] & (part_of[order] < 0)].tolist():
            place(row, wanted[:, rarest])
            left -= present[row]
    for row in order[part_of[order] < 0].tolist():  # images without labels
        place(row, room)
    return [np.flatnonzero(part_of == part) for part in range(len(shares))]
