"""Which images are the same, exactly or nearly, without comparing every one with every other.

Nearly the same are two images whose perceptual hashes differ in at most MAX_DISTANCE of 64 bits and whose 16x16
pictures are so much alike (their correlation is so close to 1) that chance is no explanation. The first finds
candidates fast; the second decides, and how much is needed follows from how alike the pictures of the set are anyhow:
photographs of anything need less than white shirts on black ground (see `threshold`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit.data.fingerprint import SMALL, SMALL_SIDE, Bytes
from vit.data.samples import Labels

Hashes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float32]
Relation = Literal["across", "conflict", "within"]

MAX_DISTANCE = 6  # bits; always even, as half of the bits are set
MAX_DIFFERENCE = 0.02  # 1 - correlation
MIN_DIFFERENCE = 0.0005  # what saving anew as JPEG alone may change
CHANCE_PAIRS = 10  # of all pairs of the set, so many may be as close by chance, before the hashes are looked at
MIN_CONTRAST = 8.0  # gray levels, standard deviation of the 16x16 picture; below it all pictures look alike

_BANDS = 4
_BAND_VALUES = 2**16
_PAIRS_AT_ONCE = 2**20  # while they are bits
_PICTURES_AT_ONCE = 2**11
_SAMPLED_PAIRS = 2**16


@dataclass(frozen=True)
class Match:
    """An image, and an earlier one that it equals or resembles.

    Attributes:
        image, other: places in the list of all images; other < image.
        relation: "across" two splits; "conflict", under two classes; "within" one class of one split. A pair across
            splits and classes makes two matches; an image gives at most one of a relation, and none within where it
            has one across.
        difference: 1 - correlation of the small pictures; 0 for equal pixels.
    """

    image: int
    other: int
    relation: Relation
    difference: float = 0.0


def exact_matches(groups: Labels, splits: Labels, labels: Labels) -> Iterator[Match]:
    """Images of one group: each with the first earlier one of every relation.

    Args:
        groups: (n,) a number for each distinct image; negative for images to leave out.
        splits: (n,) number of the split.
        labels: (n,) number of the class.
    """
    counts = np.bincount(groups[groups >= 0], minlength=1)
    firsts: dict[int, dict[tuple[int, int], int]] = {}
    for image in np.flatnonzero((groups >= 0) & (counts[groups] > 1)).tolist():
        split, label = int(splits[image]), int(labels[image])
        seen = firsts.setdefault(int(groups[image]), {})
        across = min((other for (its, _), other in seen.items() if its != split), default=None)
        conflict = min((other for (_, its), other in seen.items() if its != label), default=None)
        if across is not None:
            yield Match(image, across, "across")
        elif (split, label) in seen:
            yield Match(image, seen[split, label], "within")
        if conflict is not None:
            yield Match(image, conflict, "conflict")
        seen.setdefault((split, label), image)


def near_matches(groups: Labels, splits: Labels, labels: Labels, hashes: Hashes, small: Bytes) -> Iterator[Match]:
    """Images that are nearly the same and not equal: each with the nearest earlier one of every relation.

    Args:
        groups, splits, labels: as above.
        hashes: (n,) perceptual hashes.
        small: (n, 768) 16x16 pictures.
    """
    pictures = Pictures(small)
    chosen = np.flatnonzero((groups >= 0) & (pictures.contrasts >= MIN_CONTRAST))
    places = (groups * (splits.max(initial=0) + 1) + splits) * (labels.max(initial=0) + 1) + labels
    _, firsts = np.unique(places[chosen], return_index=True)
    chosen = chosen[np.sort(firsts)]  # of equal images in one place, the first stands for all
    nearest: dict[Relation, _Nearest] = {
        "across": _Nearest(len(groups)), "conflict": _Nearest(len(groups)), "within": _Nearest(len(groups))
    }  # fmt: skip
    limit = threshold(groups, pictures, chosen)
    for left, right in close_pairs(hashes[chosen], MAX_DISTANCE):
        for start in range(0, len(left), _PICTURES_AT_ONCE):
            some = slice(start, start + _PICTURES_AT_ONCE)
            other, image = chosen[left[some]], chosen[right[some]]
            differences = pictures.difference(other, image)
            alike = (differences <= limit) & (groups[other] != groups[image])
            other, image, differences = other[alike], image[alike], differences[alike]
            same_split, same_label = splits[other] == splits[image], labels[other] == labels[image]
            nearest["across"].add(image, other, differences, ~same_split)
            nearest["conflict"].add(image, other, differences, ~same_label)
            nearest["within"].add(image, other, differences, same_split & same_label)
    has_across = nearest["across"].other >= 0
    nearest["within"].other[has_across] = -1
    for relation, found in nearest.items():
        for place in np.flatnonzero(found.other >= 0).tolist():
            yield Match(place, int(found.other[place]), relation, float(found.difference[place]))


class _Nearest:
    """For each image the most similar earlier one so far."""

    def __init__(self, count: int) -> None:
        self.other = np.full(count, -1, dtype=np.int64)
        self.difference = np.full(count, np.inf, dtype=np.float32)

    def add(self, image: Labels, other: Labels, differences: Floats, chosen: npt.NDArray[np.bool_]) -> None:
        """Take the chosen pairs in."""
        places = np.flatnonzero(chosen & (differences < self.difference[image]))
        places = places[np.lexsort((other[places], differences[places]))[::-1]]  # the smallest is written last
        self.other[image[places]] = other[places]
        self.difference[image[places]] = differences[places]


def threshold(groups: Labels, pictures: "Pictures", chosen: Labels) -> float:
    """The largest difference that chance does not explain in a set of these images.

    The closest hundredth and thousandth of random pairs say how fast pairs become rare as they come closer (a power
    law, whose exponent is half the intrinsic dimension of the pictures). Carried on to where only CHANCE_PAIRS of all
    pairs are left, it gives the limit; never beyond MIN_DIFFERENCE and MAX_DIFFERENCE.

    Args:
        groups: (n,) numbers of distinct images.
        pictures: of all n images.
        chosen: places of the images that are compared.
    """
    count = len(chosen)
    wanted = CHANCE_PAIRS / max(count * (count - 1) / 2, 1)
    if wanted >= 0.001:
        return MAX_DIFFERENCE
    generator = np.random.default_rng(0)
    one = generator.integers(0, count, _SAMPLED_PAIRS)
    other = (one + generator.integers(1, count, _SAMPLED_PAIRS)) % count
    one, other = chosen[one], chosen[other]
    parts = [slice(start, start + _PICTURES_AT_ONCE) for start in range(0, _SAMPLED_PAIRS, _PICTURES_AT_ONCE)]
    differences = np.concatenate([pictures.difference(one[part], other[part]) for part in parts])
    differences = differences[groups[one] != groups[other]]
    if len(differences) == 0:
        return MIN_DIFFERENCE
    hundredth, thousandth = np.maximum(np.quantile(differences, (0.01, 0.001)), 1e-9)
    rarer = np.log10(0.001 / wanted)
    limit = thousandth * (thousandth / hundredth) ** rarer
    return float(np.clip(limit, MIN_DIFFERENCE, MAX_DIFFERENCE))


class Pictures:
    """Small pictures (n, 768), and what is computed of each once.

    Attributes:
        contrasts: (n,) standard deviation about the means of the channels, in gray levels.
    """

    def __init__(self, small: Bytes) -> None:
        self._small = small
        self._means = np.empty((len(small), 3), dtype=np.float32)
        self.contrasts = np.empty(len(small), dtype=np.float32)
        for start in range(0, len(small), _PICTURES_AT_ONCE):
            some = slice(start, start + _PICTURES_AT_ONCE)
            channels = self._values(some).reshape(-1, 3, SMALL_SIDE**2)
            self._means[some] = channels.mean(axis=2)
            self.contrasts[some] = np.sqrt(channels.var(axis=2).mean(axis=1))

    def difference(self, one: Labels, other: Labels) -> Floats:
        """1 - correlation (m,) of the pictures at two lists of places, each channel about its mean.

        0 for pictures that are the same but for brightness and contrast, 1 for unrelated ones.
        """
        products = np.einsum("ij,ij->i", self._values(one), self._values(other)) / SMALL
        covariances = products - (self._means[one] * self._means[other]).mean(axis=1)
        scales = np.maximum(self.contrasts[one] * self.contrasts[other], np.float32(1e-3))
        return np.asarray(1 - covariances / scales, dtype=np.float32)

    def _values(self, places: Labels | slice) -> Floats:
        return self._small[places].astype(np.float32) - np.float32(128)  # small numbers keep the products exact


def close_pairs(hashes: Hashes, max_distance: int) -> Iterator[tuple[Labels, Labels]]:
    """Every pair of hashes (n,) at most `max_distance` bits apart, once: arrays (left, right) with left < right.

    Multi-index hashing (Norouzi, Punjani and Fleet, "Fast Search in Hamming Space with Multi-Index Hashing", CVPR
    2012): of four bands of 16 bits, at least one differs in max_distance // 4 bits or fewer, so only hashes that come
    together in a band are compared. Memory is n numbers and a block of pairs.
    """
    radius = max_distance // _BANDS
    flips = [value for value in range(_BAND_VALUES) if value.bit_count() <= radius]
    bands = np.ascontiguousarray(hashes).view(np.uint16).reshape(len(hashes), _BANDS)
    for band in range(_BANDS):
        order = np.argsort(bands[:, band], kind="stable")
        values = bands[order, band].astype(np.int64)
        bounds = np.searchsorted(values, np.arange(_BAND_VALUES + 1))
        for flip in flips:
            wanted = values ^ flip
            start, stop = bounds[wanted], bounds[wanted + 1]
            # each pair once: later places of the own value, or the greater one of two values
            own_later = np.arange(1, len(values) + 1)
            start = np.maximum(start, own_later) if flip == 0 else np.where(wanted > values, start, stop)
            for rows, places in _expanded(start, stop):
                one, two = order[rows], order[places]
                close = np.bitwise_count(hashes[one] ^ hashes[two]) <= max_distance
                one, two = one[close], two[close]
                gaps = np.bitwise_count(bands[one, :band] ^ bands[two, :band])
                new = (gaps > radius).all(axis=1)  # else an earlier band gave it already
                if new.any():
                    yield np.minimum(one, two)[new], np.maximum(one, two)[new]


def _expanded(start: Labels, stop: Labels) -> Iterator[tuple[Labels, Labels]]:
    """Every (row, place) with start[row] <= place < stop[row], in blocks."""
    counts = stop - start
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(_PAIRS_AT_ONCE, total, _PAIRS_AT_ONCE), side="left") + 1
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(start)], strict=True):
        inside = counts[first:last]
        rows = np.repeat(np.arange(first, last), inside)
        before = np.cumsum(inside) - inside
        places = np.arange(len(rows)) - np.repeat(before - start[first:last], inside)
        if len(rows):
            yield rows, places
