"""The order of images: each image once per epoch, on any number of processes, after a stop at any batch."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.data.core.samples import Labels
from vit.data.loading.sampler import EVALUATION, EpochOrder, EvaluationSampler, Key, TrainSampler


def order(length: int, seed: int) -> EpochOrder:
    return EpochOrder(np.zeros(length, dtype=np.int64), seed)


def epoch_order(length: int, seed: int, epoch: int) -> Labels:
    return order(length, seed).drawn(epoch)[0]


def epochs(sampler: TrainSampler, count: int) -> list[list[Key]]:
    """The batches of `count` epochs. Each batch is counted as finished after the loop has used it."""
    batches = []
    for _ in range(count):
        for batch in sampler:
            batches.append(batch)
            sampler.consumed += 1
    return batches


@given(st.integers(1, 500), st.integers(0, 2**40), st.integers(0, 1000))
def test_an_epoch_is_a_permutation(length: int, seed: int, epoch: int) -> None:
    assert sorted(epoch_order(length, seed, epoch).tolist()) == list(range(length))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {tuple(epoch_order(50, seed, epoch).tolist()) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25
    places = np.array([epoch_order(20, 0, epoch) for epoch in range(2000)])
    assert np.abs(places.mean(axis=0) - 9.5).max() < 0.6  # 4.6 standard deviations: no position prefers an image


def test_an_order_stays_the_same_for_ever() -> None:
    """A run that another version or machine resumes must see the same images."""
    assert epoch_order(8, 0, 0).tolist() == [4, 1, 3, 7, 6, 0, 2, 5]
    assert epoch_order(8, 7, 3).tolist() == [7, 6, 2, 4, 5, 3, 0, 1]


@given(st.integers(12, 80), st.integers(1, 4), st.integers(1, 3))
def test_a_step_has_the_same_images_in_any_number_of_parts(length: int, part: int, accumulate: int) -> None:
    whole = epochs(TrainSampler(order(length, 1), part * accumulate), 3)
    parts = epochs(TrainSampler(order(length, 1), part, accumulate=accumulate), 3)
    assert list(chain.from_iterable(parts)) == list(chain.from_iterable(whole))
    assert len(parts) == accumulate * len(whole)


def test_no_image_comes_twice_in_an_epoch() -> None:
    batches = epochs(TrainSampler(order(23, 1), 5), 3)
    assert len(batches) == 12 and {len(batch) for batch in batches} == {5}
    for epoch in range(3):
        keys = [key for batch in batches[4 * epoch : 4 * epoch + 4] for key in batch]
        assert {key.epoch for key in keys} == {epoch} and all(key.valid for key in keys)
        assert [key.index for key in keys] == epoch_order(23, 1, epoch)[:20].tolist()


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_the_processes_batches_together_are_the_global_batch(world_size: int) -> None:
    whole = epochs(TrainSampler(order(50, 2), 8), 2)
    ranks = [epochs(TrainSampler(order(50, 2), 8, rank, world_size), 2) for rank in range(world_size)]
    assert [[key for part in parts for key in part] for parts in zip(*ranks, strict=True)] == whole


def test_a_batch_that_the_processes_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match="10 is not divisible by 4"):
        TrainSampler(order(50, 0), 10, world_size=4)


@pytest.mark.parametrize("consumed", range(13))
def test_training_goes_on_where_it_was_stopped(consumed: int) -> None:
    whole = epochs(TrainSampler(order(17, 3), 4), 4)
    resumed = TrainSampler(order(17, 3), 4)
    resumed.consumed = consumed
    assert epochs(resumed, 3)[: 12 - consumed] == whole[consumed:12]


def test_fetching_ahead_does_not_change_the_order() -> None:
    sampler = TrainSampler(order(17, 3), 4)
    ahead = list(sampler)  # workers take keys long before the loop finishes their batches
    assert ahead == epochs(TrainSampler(order(17, 3), 4), 1)
    sampler.consumed = 4
    assert {key.epoch for batch in sampler for key in batch} == {1}


@pytest.mark.parametrize("length", [1, 2, 9, 11, 1003])
@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_evaluation_sees_every_image_once(length: int, world_size: int, batch_size: int) -> None:
    samplers = [EvaluationSampler(length, batch_size, rank, world_size) for rank in range(world_size)]
    batches = [list(sampler) for sampler in samplers]
    assert len({len(sampler) for sampler in samplers}) == 1
    assert all(len(found) == len(sampler) for found, sampler in zip(batches, samplers, strict=True))
    assert all(1 <= len(batch) <= batch_size for found in batches for batch in found)
    keys = [key for found in batches for batch in found for key in batch]
    assert sorted(key.index for key in keys if key.valid) == list(range(length))
    assert all(0 <= key.index < length and key.epoch == EVALUATION for key in keys)
    assert sum(not key.valid for key in keys) < world_size


def test_one_process_evaluates_in_order() -> None:
    assert [key.index for batch in EvaluationSampler(10, 4) for key in batch] == list(range(10))


@pytest.mark.parametrize("consumed", range(12))
def test_iterations_of_another_length_follow_the_passes_without_a_gap(consumed: int) -> None:
    passes = epochs(TrainSampler(order(17, 3), 4), 5)  # of 4 batches each
    sampler = TrainSampler(order(17, 3), 4, num_batches=6)
    sampler.consumed = consumed
    assert len(sampler) == 6
    assert list(sampler) == passes[consumed : 6 if consumed < 6 else 12]
