"""Splits and subsets of images with several labels: every label has its proportion."""

from itertools import pairwise

import numpy as np
import pytest

from vit.data.core.samples import Samples, Source
from vit.data.splits.split import with_all_splits
from vit.data.splits.stratified import iteratively_stratified
from vit.data.splits.subset import nested_rows, subset, subset_kind
from vit.errors import DataError, UsageError

RATES = np.array([0.01, 0.02, 0.05, 0.1, 0.3, 0.6])


@pytest.fixture(scope="module")
def rows():
    drawn = np.random.default_rng(3).random((600, len(RATES)))
    labels = (drawn < RATES).astype(np.int8)
    labels[drawn > 0.95] = -1
    return labels


def test_every_label_is_divided_in_the_wanted_proportions(rows):
    fractions = [0.1, 0.2, 0.7]
    parts = iteratively_stratified(rows, fractions[:2], seed=0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(rows)))
    present = (rows == 1).sum(axis=0)
    for part, fraction in zip(parts, fractions, strict=True):
        assert np.abs((rows[part] == 1).sum(axis=0) - fraction * present).max() < 1.5
        assert abs(len(part) - fraction * len(rows)) < 0.02 * len(rows)


def test_a_cut_depends_on_seed_and_names_and_not_on_the_order_of_the_list(rows):
    samples = Samples([f"{number:03}.png" for number in range(len(rows))], rows)
    shuffled = samples.select(np.random.default_rng(0).permutation(len(rows)))
    one, same, other = (
        with_all_splits(Source("x", tuple("abcdef"), {"train": listed}), 0.1, 0.2, seed, calibration=0.1)
        for listed, seed in ((samples, 5), (shuffled, 5), (samples, 6))
    )
    names = [{split: set(part.paths) for split, part in cut.splits.items()} for cut in (one, same, other)]
    assert names[0] == names[1] != names[2] and len(names[0]) == 4
    assert sum(map(len, names[0].values())) == len(rows) == len(set.union(*names[0].values()))
    assert "stratified by labels" in one.notes[0]


def test_smaller_subsets_lie_inside_larger_ones_with_the_same_proportions(rows):
    samples = Samples([f"{number:03}.png" for number in range(len(rows))], rows)
    sizes = (1, 7, 60, 200, 599, 600)
    chosen = [subset(samples, size, 4, subset_kind(rows, "auto")) for size in sizes]
    assert [len(part) for part in chosen] == list(sizes)
    assert all(set(small.paths) <= set(large.paths) for small, large in pairwise(chosen))
    for size, part in zip(sizes[2:], chosen[2:], strict=True):
        wanted = size / len(rows) * (rows == 1).sum(axis=0)
        assert np.abs((part.labels == 1).sum(axis=0) - wanted).max() < 2.5
    assert nested_rows(np.ones((5, 2), dtype=np.int8), 3, seed=0).shape == (3,)


def test_what_cannot_be_cut_or_balanced_is_refused(rows):
    with pytest.raises(UsageError, match="several labels cannot have each label equally often"):
        subset_kind(rows, "balanced")
    few = Source("x", ("a", "b"), {"train": Samples(["1", "2"], np.eye(2, dtype=np.int8))})
    with pytest.raises(DataError, match="2 images of 2 labels are too few"):
        with_all_splits(few, 0.1, 0.2, 0)
    rare = np.array([[1, 0], *[[0, 1]] * 20], dtype=np.int8)
    lost = Source("x", ("a", "b"), {"train": Samples([f"{number:02}" for number in range(21)], rare)})
    with pytest.raises(DataError, match="label 'a' is left after the cut"):
        with_all_splits(lost, 0.6, 0.1, 0)
