"""The order of images in shards: each image once, the same on any number of processes, each reading few shards."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.test_sampler import epochs
from vit.data.core.samples import Labels
from vit.data.loading.sampler import LANES, ShardOrder, TrainSampler


def shards_of(sizes: list[int]) -> Labels:
    """Shard of each image, where the images of all shards are listed in turns."""
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))


sizes = st.lists(st.integers(1, 30), min_size=2, max_size=40)


@given(sizes, st.integers(1, 200), st.integers(0, 2**40), st.integers(0, 1000))
def test_an_epoch_is_a_permutation(sizes: list[int], batch_size: int, seed: int, epoch: int) -> None:
    indices, repeats = ShardOrder(shards_of(sizes), seed, batch_size).drawn(epoch)
    assert sorted(indices.tolist()) == list(range(sum(sizes))) and not repeats.any()


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    shards = shards_of([5] * 20)
    orders = {tuple(ShardOrder(shards, seed, 10).drawn(epoch)[0].tolist()) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


@pytest.mark.faults("A15", simulated="samplers that begin at any batch")
@given(sizes, st.sampled_from([2, 4, 8, 12]), st.sampled_from([1, 2, 4]), st.integers(0, 99), st.data())
def test_a_stop_at_any_batch_and_another_number_of_processes_change_nothing(
    sizes: list[int], batch_size: int, world_size: int, seed: int, data: st.DataObject
) -> None:
    """Killed after any batch, and continued by 1, 2 or 4 processes: the keys of an undisturbed process."""
    if sum(sizes) < 2 * batch_size or batch_size % world_size:
        return
    order = ShardOrder(shards_of(sizes), seed, batch_size)
    whole = epochs(TrainSampler(order, batch_size), 2)
    stop = data.draw(st.integers(0, len(whole) - 1))
    parts = []
    for rank in range(world_size):
        sampler = TrainSampler(order, batch_size, rank, world_size)
        sampler.consumed = stop
        rest = []
        while len(rest) < len(whole) - stop:
            for batch in sampler:
                rest.append(batch)
                sampler.consumed += 1
        parts.append(rest)
    joined = [list(chain.from_iterable(together)) for together in zip(*parts, strict=True)]
    assert joined == whole[stop:]


@given(st.sampled_from([64, 128, 96, 32, 20, 7]), st.integers(0, 99))
def test_a_batch_takes_equally_many_images_of_each_lane(batch_size: int, seed: int) -> None:
    """Lane by lane: the r-th of R processes takes the r-th run of lanes."""
    order = ShardOrder(shards_of([40] * 64), seed, batch_size)
    indices, _ = order.drawn(3)
    assert LANES % order.num_lanes == 0 and batch_size % order.num_lanes == 0
    num_batches, of_lane = len(order) // batch_size, batch_size // order.num_lanes
    lanes = indices[: num_batches * batch_size].reshape(num_batches, order.num_lanes, of_lane)
    for lane in range(order.num_lanes):
        run = lanes[:, lane].reshape(-1)
        others = np.delete(lanes, lane, axis=1)
        near = set(order.shards[run].tolist())
        least = len(run) // 40  # shards that so many images need
        assert len(near) <= least + 2 * order.window, (lane, len(near))
        assert not set(run.tolist()) & set(others.reshape(-1).tolist())


def test_a_process_reads_its_part_of_the_shards() -> None:
    order = ShardOrder(shards_of([100] * 256), 5, 64)
    read = []
    for rank in range(4):
        keys = chain.from_iterable(epochs(TrainSampler(order, 64, rank, 4), 1))
        read.append(len({int(order.shards[key.index]) for key in keys}))
    assert max(read) <= 256 // 4 + 2 * order.window


def test_few_shards_are_one_window() -> None:
    """Up to W shards, the order is a permutation of all images."""
    order = ShardOrder(np.repeat([0, 1], 500), 1, 10)
    indices, _ = order.drawn(0)
    firsts = order.shards[indices[:500]]
    assert 200 < firsts.sum() < 300
