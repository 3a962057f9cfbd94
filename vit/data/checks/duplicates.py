"""Equal and nearly equal images, found without comparing every image with every other.

Images are nearly equal if their perceptual hashes differ in at most MAX_DISTANCE of 64 bits, which finds candidates
fast, and if their 16x16 thumbnails correlate more closely than chance explains. That limit depends on the data set (see
`threshold`): white shirts on black ground resemble each other, and need a higher correlation than other photographs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from vit.data.checks.scan import THUMBNAIL_SIDE, THUMBNAIL_SIZE, Bytes
from vit.data.core.samples import Labels, Samples, Source, label_names

Hashes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float32]
Relation = Literal["across", "conflict", "within"]

MAX_DISTANCE = 6  # bits; distances are even, because half of the bits of a hash are set
MAX_DIFFERENCE = 0.02  # 1 - correlation
MIN_DIFFERENCE = 0.0005  # saving a picture again as JPEG may change it by so much
CHANCE_PAIRS = 10  # expected number of pairs of the whole set that are as close by chance, before hashes are compared
MIN_CONTRAST = 8.0  # gray levels, standard deviation of a thumbnail; below it all pictures look alike

_FEWEST_PAIRS, _GROWTH = 10, 3.0  # of pairs in bursts, and of their number where the difference doubles
_BANDS = 4
_BAND_VALUES = 2**16
_PAIRS_PER_BLOCK = 2**20  # of hashes
_THUMBNAILS_PER_BLOCK = 2**11
_SAMPLED_PAIRS = 2**16


@dataclass(frozen=True)
class Match:
    """An image, and an earlier image that equals or resembles it.

    A pair across splits and classes makes two matches. An image has at most one match of each relation, and none
    "within" where it has one "across".
    """

    image: int  # index into the list of all images
    other: int  # index of the earlier image
    relation: Relation  # "across": two splits; "conflict": labels that differ; "within": neither
    difference: float = 0.0  # 1 - correlation of the thumbnails; 0 for equal pixels


def exact_matches(groups: Labels, splits: Labels, labels: npt.NDArray[Any]) -> Iterator[Match]:
    """Match each image with the first earlier equal image of every relation.

    Args:
        groups: (n,) a number that equal images share; negative for images to leave out.
        splits: (n,) split numbers.
        labels: (n,) class numbers, or (n, K) labels. Those that are not known (-1) do not differ.
    """
    counts, numbers = np.bincount(groups[groups >= 0], minlength=1), _label_numbers(labels)
    firsts: dict[int, dict[tuple[int, int], int]] = {}
    for image in np.flatnonzero((groups >= 0) & (counts[groups] > 1)).tolist():
        split = int(splits[image])
        seen = firsts.setdefault(int(groups[image]), {})
        others = np.array(list(seen.values()), dtype=np.int64)
        disputed = others[_differ(labels, np.full_like(others, image), others)].tolist()
        across = [other for (its, _), other in seen.items() if its != split]
        within = [other for (its, _), other in seen.items() if its == split and other not in disputed]
        if across:
            yield Match(image, min(across), "across")
        elif within:
            yield Match(image, min(within), "within")
        if disputed:
            yield Match(image, min(disputed), "conflict")
        seen.setdefault((split, int(numbers[image])), image)


def conflicts_note(source: Source, hashes: Mapping[str, Sequence[str]]) -> str:
    """How many images are copies of one with another label, by the content hashes of each split; "" where none is."""
    images = reduce(Samples.followed_by, source.splits.values())
    numbers: dict[str, int] = {"": -1}  # a million long texts are sorted in five times the time
    groups = np.array([numbers.setdefault(one, len(numbers)) for split in source.splits for one in hashes[split]])
    matches = exact_matches(groups, np.zeros_like(groups), images.labels)
    disputes = [(match.image, match.other) for match in matches if match.relation == "conflict"]
    if not disputes:
        return ""
    names = label_names(images.select(disputes[0]), source.class_names)
    pair = " and ".join(f"{images.name(place)} ({name})" for place, name in zip(disputes[0], names, strict=True))
    count = f"{len(disputes):,} image{'s are copies' if len(disputes) > 1 else ' is a copy'} of one with another label"
    return f"WARNING: {count}, such as {pair}: correct or leave out what 'vit data check' lists"


def near_matches(
    groups: Labels, splits: Labels, labels: npt.NDArray[Any], hashes: Hashes, pictures: Bytes
) -> Iterator[Match]:
    """Match each image with the most similar earlier image of every relation; equal images are left out.

    The first three arrays are as for `exact_matches`, then perceptual hashes (n,) and thumbnails (n, 768).
    """
    thumbnails, numbers = Thumbnails(pictures), _label_numbers(labels)
    chosen = np.flatnonzero((groups >= 0) & (thumbnails.contrasts >= MIN_CONTRAST))
    keys = (groups * (splits.max(initial=0) + 1) + splits) * (numbers.max(initial=0) + 1) + numbers
    _, firsts = np.unique(keys[chosen], return_index=True)
    chosen = chosen[np.sort(firsts)]  # the first of equal images of one split and class stands for all of them
    relations: tuple[Relation, ...] = ("across", "conflict", "within")
    # the most similar earlier image of each image, and its difference, among the pairs that were compared
    nearest = {relation: np.full(len(groups), -1, dtype=np.int64) for relation in relations}
    smallest = {relation: np.full(len(groups), np.inf, dtype=np.float32) for relation in relations}
    for other, image, differences in _similar(hashes, thumbnails, chosen, threshold(groups, thumbnails, chosen)):
        is_across, is_conflict = splits[other] != splits[image], _differ(labels, other, image)
        for relation, holds in zip(relations, (is_across, is_conflict, ~is_across & ~is_conflict), strict=True):
            closer = holds & (groups[other] != groups[image]) & (differences < smallest[relation][image])
            rows = np.flatnonzero(closer)
            rows = rows[np.lexsort((other[rows], differences[rows]))[::-1]]  # the smallest is written last
            nearest[relation][image[rows]], smallest[relation][image[rows]] = other[rows], differences[rows]
    nearest["within"][nearest["across"] >= 0] = -1
    for relation in relations:
        for index in np.flatnonzero(nearest[relation] >= 0).tolist():
            yield Match(index, int(nearest[relation][index]), relation, float(smallest[relation][index]))


def _label_numbers(labels: npt.NDArray[Any]) -> Labels:
    """(n,) class numbers; of several labels for an image (n, K) a number for each set of labels."""
    return labels if labels.ndim == 1 else np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)


def _differ(labels: npt.NDArray[Any], one: Labels, other: Labels) -> npt.NDArray[np.bool_]:
    """(n,) whether images have another class than others, or another label that is known of both."""
    rows = labels.reshape(len(labels), -1)
    differ: npt.NDArray[np.bool_] = ((rows[one] != rows[other]) & (rows[one] >= 0) & (rows[other] >= 0)).any(axis=1)
    return differ


def _similar(
    hashes: Hashes, thumbnails: "Thumbnails", chosen: Labels, limit: float
) -> Iterator[tuple[Labels, Labels, Floats]]:
    """Pairs of the chosen images with close hashes and a difference up to the limit, in blocks: earlier, later."""
    for left, right in close_pairs(hashes[chosen], MAX_DISTANCE):
        for some in _blocks(len(left)):
            earlier, later = chosen[left[some]], chosen[right[some]]
            differences = thumbnails.difference(earlier, later)
            similar = differences <= limit
            yield earlier[similar], later[similar], differences[similar]


def alike_pairs(hashes: Hashes, pictures: Bytes, chance: float) -> Labels:
    """(m, 2) pairs of images that are nearly the same, by perceptual hashes (n,) and thumbnails (n, 768).

    Equal pictures are paired with the first of them. `chance` pairs of the whole set are expected to be so close.
    """
    thumbnails = Thumbnails(pictures)
    detailed = np.flatnonzero(thumbnails.contrasts >= MIN_CONTRAST)
    rows = np.ascontiguousarray(pictures[detailed]).view(f"V{THUMBNAIL_SIZE}")[:, 0]
    _, firsts, numbers = np.unique(rows, return_index=True, return_inverse=True)
    equal = np.column_stack([detailed[firsts[numbers]], detailed])[firsts[numbers] != np.arange(len(detailed))]
    chosen = detailed[np.sort(firsts)]
    near, differences = [np.empty((0, 2), dtype=np.int64)], [np.empty(0, dtype=np.float32)]
    for earlier, later, values in _similar(hashes, thumbnails, chosen, MAX_DIFFERENCE):
        near.append(np.column_stack([earlier, later]))
        differences.append(values)
    values = np.concatenate(differences)
    limit = max(threshold(np.arange(len(hashes)), thumbnails, chosen, chance), _limit_of_bursts(values))
    return np.concatenate([equal, np.concatenate(near)[values <= limit]])


def _limit_of_bursts(differences: Floats) -> float:
    """The largest difference up to which close pairs are not those of chance; 0 where there is none.

    Where bursts have a thousandth of all pairs, `threshold` takes them for chance. But chance pairs multiply with the
    difference: in MNIST and Fashion-MNIST by 7 to 20 where it doubles, and frames of a moving camera by 1.4 to 2.2.
    """
    limit = MAX_DIFFERENCE
    while limit >= MIN_DIFFERENCE:
        count, half = int((differences <= limit).sum()), int((differences <= limit / 2).sum())
        if count >= _FEWEST_PAIRS and count <= _GROWTH * half:
            return limit
        limit /= 2
    return 0.0


def threshold(groups: Labels, thumbnails: "Thumbnails", chosen: Labels, chance: float = CHANCE_PAIRS) -> float:
    """The largest difference that chance does not explain among the chosen images. Equal images share their group (n,).

    Close pairs become rare by a power law, whose exponent is half the intrinsic dimension of the thumbnails. The
    closest hundredth and thousandth of random pairs give the law. The limit is the difference at which the law leaves
    `chance` of all pairs, between MIN_DIFFERENCE and MAX_DIFFERENCE.
    """
    count = len(chosen)
    wanted = chance / max(count * (count - 1) / 2, 1)
    if wanted >= 0.001:
        return MAX_DIFFERENCE
    generator = np.random.default_rng(0)
    one = generator.integers(0, count, _SAMPLED_PAIRS)
    other = (one + generator.integers(1, count, _SAMPLED_PAIRS)) % count
    one, other = chosen[one], chosen[other]
    differences = np.concatenate([thumbnails.difference(one[some], other[some]) for some in _blocks(len(one))])
    differences = differences[groups[one] != groups[other]]
    if len(differences) == 0:
        return MIN_DIFFERENCE
    hundredth, thousandth = np.maximum(np.quantile(differences, (0.01, 0.001)), 1e-9)
    limit = thousandth * (thousandth / hundredth) ** np.log10(0.001 / wanted)
    return float(np.clip(limit, MIN_DIFFERENCE, MAX_DIFFERENCE))


def _blocks(count: int) -> list[slice]:
    """Parts of so many rows, whose thumbnails are compared at a time."""
    return [slice(start, start + _THUMBNAILS_PER_BLOCK) for start in range(0, count, _THUMBNAILS_PER_BLOCK)]


class Thumbnails:
    """Thumbnails (n, 768), with the standard deviation of each about the means of its channels, in gray levels."""

    def __init__(self, pictures: Bytes) -> None:
        self._pictures = pictures
        self._means = np.empty((len(pictures), 3), dtype=np.float32)
        self.contrasts = np.empty(len(pictures), dtype=np.float32)
        for some in _blocks(len(pictures)):
            channels = self._values(some).reshape(-1, 3, THUMBNAIL_SIDE**2)
            self._means[some] = channels.mean(axis=2)
            self.contrasts[some] = np.sqrt(channels.var(axis=2).mean(axis=1))

    def difference(self, one: Labels, other: Labels) -> Floats:
        """1 - correlation (m,) of the thumbnails at two lists of indices, each channel about its mean.

        It is 0 for pictures that differ in brightness and contrast alone, and 1 for unrelated pictures.
        """
        products = np.einsum("ij,ij->i", self._values(one), self._values(other)) / THUMBNAIL_SIZE
        covariances = products - (self._means[one] * self._means[other]).mean(axis=1)
        scales = np.maximum(self.contrasts[one] * self.contrasts[other], np.float32(1e-3))
        return np.asarray(1 - covariances / scales, dtype=np.float32)

    def _values(self, rows: Labels | slice) -> Floats:
        return self._pictures[rows].astype(np.float32) - np.float32(128)  # small numbers keep the products exact


def close_pairs(hashes: Hashes, max_distance: int) -> Iterator[tuple[Labels, Labels]]:
    """Every pair of hashes (n,) at most `max_distance` bits apart, once: arrays (left, right) with left < right.

    The method is multi-index hashing (Norouzi, Punjani and Fleet, "Fast Search in Hamming Space with Multi-Index
    Hashing", CVPR 2012). Of four bands of 16 bits, at least one differs in max_distance // 4 bits or fewer. So only
    hashes that are close in one band are compared. Memory is n numbers and one block of pairs.
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
            # each pair once: later rows of the same value, or the greater of two values
            next_row = np.arange(1, len(values) + 1)
            start = np.maximum(start, next_row) if flip == 0 else np.where(wanted > values, start, stop)
            for one, two in _expanded(order, start, stop):
                close = np.bitwise_count(hashes[one] ^ hashes[two]) <= max_distance
                one, two = one[close], two[close]
                gaps = np.bitwise_count(bands[one, :band] ^ bands[two, :band])
                new = (gaps > radius).all(axis=1)  # else an earlier band gave the pair
                if new.any():
                    yield np.minimum(one, two)[new], np.maximum(one, two)[new]


def _expanded(order: Labels, start: Labels, stop: Labels) -> Iterator[tuple[Labels, Labels]]:
    """Every (order[row], order[column]) with start[row] <= column < stop[row], in blocks."""
    counts = stop - start
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(_PAIRS_PER_BLOCK, total, _PAIRS_PER_BLOCK), side="left") + 1
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(start)], strict=True):
        inside = counts[first:last]
        rows = np.repeat(np.arange(first, last), inside)
        columns = np.arange(len(rows)) - np.repeat(np.cumsum(inside) - inside - start[first:last], inside)
        yield order[rows], order[columns]
