"""Nested subsets of the training images, balanced or with the class proportions of all images."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.data.core.samples import Samples
from vit.data.splits.subset import balanced_order, natural_order, subset, subset_kind
from vit.errors import DataError

kinds = pytest.mark.parametrize("kind", ["balanced", "natural"])


def samples(labels):
    return Samples([f"image{place:03d}" for place in range(len(labels))], np.array(labels, dtype=np.int64))


labels_of_classes = st.lists(st.integers(0, 4), min_size=1, max_size=80)


@given(labels_of_classes, st.integers(0, 9))
def test_every_beginning_is_as_balanced_as_the_classes_allow(labels, seed):
    order = balanced_order(np.array(labels), seed)
    assert sorted(order.tolist()) == list(range(len(labels)))
    available = np.bincount(labels, minlength=5)
    for count in range(1, len(labels) + 1):
        taken = np.bincount(np.array(labels)[order[:count]], minlength=5)
        unfinished = taken[taken < available]
        if len(unfinished):  # a class with remaining images is at most one behind any other
            assert taken.max() - unfinished.min() <= 1


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(0, 9))
def test_every_beginning_has_the_shares_of_the_classes(counts, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    order = natural_order(labels, seed)
    assert sorted(order.tolist()) == list(range(len(labels)))
    taken = np.cumsum(np.eye(len(counts))[labels[order]], axis=0)  # after each image, of each class
    shares = np.outer(np.arange(1, len(labels) + 1), np.array(counts) / len(labels))
    assert np.abs(taken - shares).max() < 1 + 1e-9


@kinds
@given(labels_of_classes, st.integers(0, 9), st.data())
def test_a_smaller_subset_lies_inside_a_larger_one(kind, labels, seed, data):
    large = data.draw(st.integers(1, len(labels)))
    small = data.draw(st.integers(1, large))
    everything = samples(labels)
    assert set(subset(everything, small, seed, kind).paths) <= set(subset(everything, large, seed, kind).paths)
    assert len(subset(everything, large, seed, kind)) == large


@kinds
def test_the_choice_follows_the_seed_and_the_names_not_their_order(kind):
    everything = samples([0, 1, 2, 2] * 15)
    turned = everything.select(np.arange(60)[::-1])
    assert set(subset(everything, 12, 1, kind).paths) == set(subset(turned, 12, 1, kind).paths)
    assert set(subset(everything, 12, 1, kind).paths) != set(subset(everything, 12, 2, kind).paths)


@kinds
def test_more_than_there_are_is_refused(kind):
    with pytest.raises(DataError, match="61 training images are wanted, but there are 60"):
        subset(samples([0, 1, 2] * 20), 61, 0, kind)


def test_natural_is_for_classes_of_unlike_sizes():
    alike, unlike = np.repeat([0, 1, 2], [10, 5, 8]), np.repeat([0, 1, 2], [11, 5, 8])
    assert subset_kind(alike, "auto") == "balanced" and subset_kind(unlike, "auto") == "natural"
    assert subset_kind(unlike, "balanced") == "balanced" and subset_kind(alike, "natural") == "natural"
