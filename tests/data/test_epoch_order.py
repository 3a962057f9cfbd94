"""Drawing by class: the length of an epoch, the share of each class, and no image much oftener than another."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.data.core.samples import Samples
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.sampler import EpochOrder, Key, Sampling, TrainSampler, drawn_shares
from vit.data.pixels.augment import Augment, ImageAugment
from vit.data.pixels.preprocess import Preprocess

COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(any)
SAMPLINGS = st.sampled_from(["natural", "balanced", "sqrt"])


def labels_of(counts: list[int]) -> np.ndarray:
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))


@given(COUNTS, SAMPLINGS, st.integers(0, 2**40), st.integers(0, 1000))
def test_an_epoch_has_its_length_and_every_class_its_share(
    counts: list[int], sampling: Sampling, seed: int, epoch: int
) -> None:
    labels = labels_of(counts)
    indices, repeats = EpochOrder(labels, seed, sampling).drawn(epoch)
    assert len(indices) == len(repeats) == len(labels)
    expected = drawn_shares(np.array(counts), sampling) * len(labels)
    drawn = np.bincount(labels[indices], minlength=len(counts))
    assert np.all(np.abs(drawn - expected) < 1 + 1e-6)
    for label in range(len(counts)):
        times = np.bincount(indices, minlength=len(labels))[labels == label]
        assert len(times) == 0 or times.max() - times.min() <= 1  # no image of a class is preferred
    pairs = set(zip(indices.tolist(), repeats.tolist(), strict=True))
    assert len(pairs) == len(labels)  # each drawing of an image has a number of its own, from 0 up
    assert all((index, repeat - 1) in pairs for index, repeat in pairs if repeat)


@given(COUNTS, SAMPLINGS)
def test_the_order_is_a_function_of_seed_and_epoch(counts: list[int], sampling: Sampling) -> None:
    one, other = (EpochOrder(labels_of(counts), 5, sampling) for _ in range(2))
    one.drawn(7)  # nothing is remembered
    for left, right in zip(one.drawn(3), other.drawn(3), strict=True):
        assert np.array_equal(left, right)


def test_shares_are_those_of_the_formula() -> None:
    counts = np.array([100, 25, 0, 4])
    assert drawn_shares(counts, "natural").tolist() == pytest.approx([100 / 129, 25 / 129, 0, 4 / 129])
    assert drawn_shares(counts, "sqrt").tolist() == pytest.approx([10 / 17, 5 / 17, 0, 2 / 17])
    assert drawn_shares(counts, "balanced").tolist() == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])


def test_over_epochs_every_class_and_every_image_has_its_expected_share() -> None:
    labels = labels_of([31, 7, 3])
    epochs = [EpochOrder(labels, 0, "balanced").drawn(epoch)[0] for epoch in range(2000)]
    times = np.bincount(np.concatenate(epochs), minlength=len(labels)) / 2000
    for label, count in enumerate([31, 7, 3]):
        np.testing.assert_allclose(times[labels == label], 41 / 3 / count, atol=0.06)


def test_a_balanced_order_stays_the_same_for_ever() -> None:
    """A run that another version or machine resumes must see the same images."""
    order = EpochOrder(np.array([0, 0, 0, 0, 0, 1, 1, 2]), 0, "balanced")
    assert [part.tolist() for part in order.drawn(0)] == [[1, 6, 6, 3, 7, 7, 4, 5], [0, 0, 1, 0, 0, 1, 0, 0]]


@pytest.mark.parametrize("sampling", ["balanced", "sqrt"])
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_processes_share_the_draw_and_resume_anywhere(sampling: Sampling, world_size: int) -> None:
    order = EpochOrder(labels_of([40, 9, 1]), 2, sampling)

    def batches(rank: int, processes: int, consumed: int = 0) -> list[list[Key]]:
        sampler, found = TrainSampler(order, 8, rank, processes), []
        sampler.consumed = consumed
        while sampler.consumed < 18:  # three epochs
            found.append(next(iter(sampler)))
            sampler.consumed += 1
        return found

    whole = batches(0, 1)
    ranks = [batches(rank, world_size) for rank in range(world_size)]
    assert [list(chain.from_iterable(parts)) for parts in zip(*ranks, strict=True)] == whole
    for consumed in (1, 5, 6, 13):
        assert batches(0, 1, consumed) == whole[consumed:]


def test_an_image_that_comes_again_is_augmented_differently() -> None:
    samples = Samples(["a"], np.array([0]), arrays=np.zeros((1, 8, 8), dtype=np.uint8))
    preprocess = Preprocess(8)
    dataset = ImageDataset(samples, preprocess, ImageAugment(Augment(flip=0.5), preprocess), seed=3, in_memory=True)
    keys = [Key(0, 0), Key(0, 0, True, 1), Key(0, 0, True, 2), Key(1, 0), Key(0, 0)]
    seeds = dataset.__getitems__(keys).draw_seed.tolist()
    assert len(set(seeds)) == 4 and seeds[0] == seeds[4]
    assert dataset.__getitems__(keys[:1]).draw_seed.tolist() == seeds[:1]  # as before there were repeats
