"""Splits and nested subsets of images with several labels, by iterative stratification

Sechidis, Tsoumakas and Vlahavas 2011, "On the Stratification of Multi-Label Data" (ECML PKDD, algorithm 1): the label
with the fewest images that are left comes first. Each of its images goes to the part that lacks most images of this
label. So a rare label, which chance could leave out of a part, is divided while all parts still have room. Of parts
that lack about equally many, we take the one that lacks most of all labels of the image, where the paper takes the one
with most room. With 40 common labels this halves the deviation from the wanted proportions.

An unknown label counts as absent here. The result depends on the seed and on the order of the rows alone.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vit.data.core.draws import uniform
from vit.data.core.samples import Labels
from vit.tasks.label_text import PRESENT, LabelRows

TIE = 0.3  # images of the rarest label by which parts may differ and still count as equal


def iteratively_stratified(labels: LabelRows, fractions: Sequence[float], seed: int) -> list[Labels]:
    """Rows of each part, then the remaining rows, with every label divided in about the same proportions.

    Args:
        labels: (n, K) labels: 1 present, 0 absent, -1 unknown.
        seed: seed of the choice between equally good parts, and of the order of a label's images.
    """
    present = labels == PRESENT
    shares = np.array([*fractions, 1.0 - sum(fractions)])
    draws = uniform(1 + len(shares), seed, np.arange(len(labels)))
    order = np.argsort(draws[:, 0], kind="stable")
    wanted = shares[:, None] * present.sum(axis=0)  # (parts, K) images that a part still lacks
    room = shares * len(labels)  # (parts,)
    part_of = np.full(len(labels), -1, dtype=np.int64)
    left = present.sum(axis=0)  # (K,) images without a part

    def place(row: int, lacking: npt.NDArray[np.float64]) -> None:
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


def nested_rows(labels: LabelRows, num_images: int, seed: int) -> Labels:
    """The rows of a subset in which every label has about its proportion; a smaller one lies inside each larger one.

    All rows are halved by iterative stratification, and each half again. The subset is the first `num_images` rows in
    the order of these halves, so only the halves at its end are computed.
    """
    chosen: list[Labels] = []
    rows, depth = np.arange(len(labels)), 0
    while len(rows) > num_images > 0:
        first, second = (rows[half] for half in iteratively_stratified(labels[rows], [0.5], seed * 64 + depth))
        if not (len(first) and len(second)):  # a pair of which both went to one half
            first, second = rows[:1], rows[1:]
        if num_images >= len(first):
            chosen.append(first)
            num_images -= len(first)
            rows = second
        else:
            rows = first
        depth += 1
    if num_images:
        chosen.append(rows)
    return np.sort(np.concatenate(chosen))
