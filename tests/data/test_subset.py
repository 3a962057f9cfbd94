"""Class-balanced subsets, each inside the next."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.data.samples import Samples
from vit.data.subset import nested_order, subset
from vit.errors import DataError


def samples(labels):
    return Samples([f"image{place:03d}" for place in range(len(labels))], np.array(labels, dtype=np.int64))


labels_of_classes = st.lists(st.integers(0, 4), min_size=1, max_size=80)


@given(labels_of_classes, st.integers(0, 9))
def test_every_beginning_is_as_balanced_as_the_classes_allow(labels, seed):
    order = nested_order(np.array(labels), seed)
    assert sorted(order.tolist()) == list(range(len(labels)))
    available = np.bincount(labels, minlength=5)
    for count in range(1, len(labels) + 1):
        taken = np.bincount(np.array(labels)[order[:count]], minlength=5)
        unfinished = taken[taken < available]
        if len(unfinished):  # a class that has images left is at most one behind any other
            assert taken.max() - unfinished.min() <= 1


@given(labels_of_classes, st.integers(0, 9), st.data())
def test_a_smaller_subset_lies_inside_a_larger_one(labels, seed, data):
    large = data.draw(st.integers(1, len(labels)))
    small = data.draw(st.integers(1, large))
    everything = samples(labels)
    assert set(subset(everything, small, seed).paths) <= set(subset(everything, large, seed).paths)
    assert len(subset(everything, large, seed)) == large


def test_the_choice_follows_the_seed_and_the_names_not_their_order():
    everything = samples([0, 1, 2] * 20)
    turned = everything.select(np.arange(60)[::-1])
    assert set(subset(everything, 12, 1).paths) == set(subset(turned, 12, 1).paths)
    assert set(subset(everything, 12, 1).paths) != set(subset(everything, 12, 2).paths)


def test_more_than_there_are_is_refused():
    with pytest.raises(DataError, match="61 training images are asked for, there are 60"):
        subset(samples([0, 1, 2] * 20), 61, 0)
