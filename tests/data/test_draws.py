"""Random numbers from integers: uniform, repeatable, and independent between integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.data.core.draws import hashed, seed_of, uniform

words = st.integers(-(2**63), 2**63 - 1)


def is_uniform(values: np.ndarray) -> bool:
    """Chi-square over 100 bins within 5 standard deviations of its mean for a uniform distribution."""
    counts = np.histogram(values, bins=100, range=(0.0, 1.0))[0]
    expected = values.size / 100
    return abs(((counts - expected) ** 2 / expected).sum() - 99) < 5 * (2 * 99) ** 0.5


@pytest.mark.parametrize(
    "values",
    [
        uniform(100_000, 0),
        uniform(1, 7, np.arange(100_000)),
        uniform(1, np.arange(100_000), 7),
        uniform(10, 0, np.arange(100)[:, None], np.arange(100)),
        uniform(1, np.arange(100_000) << 40),
        uniform(2, hashed(0, 0, np.arange(50_000)) >> np.uint64(1), 3),
    ],
)
def test_draws_are_uniform_whichever_key_counts(values: np.ndarray) -> None:
    assert values.min() >= 0.0 and values.max() < 1.0
    assert is_uniform(values)


def test_neighboring_keys_are_unrelated() -> None:
    draws = uniform(8, 0, np.arange(20_000))
    later, next_image = uniform(8, 1, np.arange(20_000)), np.roll(draws, 1, axis=0)
    for other in (later, next_image):
        assert np.abs([np.corrcoef(draws[:, i], other[:, i])[0, 1] for i in range(8)]).max() < 0.035  # 5 deviations
    within = np.corrcoef(draws.T) - np.eye(8)
    assert np.abs(within).max() < 0.035


def test_one_bit_of_a_key_turns_half_the_bits_of_the_word() -> None:
    for bit in range(62):
        turned = hashed(np.arange(2000)) ^ hashed(np.arange(2000) ^ (1 << bit))
        share = np.unpackbits(turned.view(np.uint8)).mean()
        assert abs(share - 0.5) < 0.01, bit


@given(st.lists(words, min_size=1, max_size=4))
def test_words_depend_on_the_keys_and_their_order_alone(keys: list[int]) -> None:
    assert hashed(*keys) == hashed(*keys)
    assert 0 <= seed_of(*keys) < 2**63
    assert hashed(*keys) != hashed(*keys, 0)
    if keys != keys[::-1]:
        assert hashed(*keys) != hashed(*keys[::-1])


@given(words, st.lists(words, min_size=1, max_size=5))
def test_many_keys_at_once_draw_what_each_draws_alone(seed: int, keys: list[int]) -> None:
    together = uniform(3, seed, np.array(keys), 9)
    assert together.shape == (len(keys), 3)
    for row, key in zip(together, keys, strict=True):
        assert np.array_equal(row, uniform(3, seed, key, 9))


def test_images_and_epochs_have_words_of_their_own() -> None:
    found = hashed(5, np.arange(300)[:, None], np.arange(1000))
    assert found.shape == (300, 1000) and len(np.unique(found)) == 300_000


def test_draws_stay_the_same_for_ever() -> None:
    """Splits, orders and augmentation of all earlier runs follow from these numbers."""
    found = [int(word) for word in (hashed(0), hashed(1, 2, 3), hashed(-1))]
    assert found == [258863698125685209, 17824878756907967, 4815193057359064352]
    assert uniform(2, 42, 7).tolist() == [0.36037292775583385, 0.021397816926603364]


def test_numpys_and_torchs_generators_are_left_alone() -> None:
    state = np.random.get_state()[1].copy()
    uniform(10, 1, 2)
    assert np.array_equal(np.random.get_state()[1], state)
