"""Means over seeds and test images that are crossed: against scipy, against repeated studies, and at the borders."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from vit.study.statistics.variance_components import Spread, mean_error, spread_of


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
@pytest.mark.parametrize("away", [0.3, 1.0, 2.5, 12.0])
def test_without_a_part_of_the_images_it_is_student_s_test(seeds, away):
    spread = Spread(4.0, 0.0, 0.0, seeds)
    assert spread.p_value(2 * away) == pytest.approx(2 * stats.t.sf(away, seeds - 1), rel=1e-6)
    assert spread.reach() == pytest.approx(2 * stats.t.isf(0.025, seeds - 1), rel=1e-6)


def test_without_a_part_of_the_seeds_it_is_the_normal_test():
    spread = Spread(0.0, 4.0, 0.0, 3)
    assert spread.p_value(3.0) == pytest.approx(2 * stats.norm.sf(1.5))
    assert spread.reach() == pytest.approx(2 * stats.norm.isf(0.025))


def test_with_both_it_is_the_distribution_of_the_sum():
    generator = np.random.default_rng(0)
    drawn = 1.5 * generator.standard_t(2, 400_000) + 2.0 * generator.standard_normal(400_000)
    spread = Spread(1.5**2, 2.0**2, 0.0, 3)
    for away in (1.0, 4.0, 9.0):
        assert spread.p_value(away) == pytest.approx(np.mean(np.abs(drawn) > away), abs=0.003)
    assert spread.p_value(spread.reach()) == pytest.approx(0.05, abs=1e-6)


def test_two_seeds_that_agree_by_chance_are_no_proof():
    """Each seed's networks differ on other images, and the differences are equal. One image less is nearly the same."""
    gaps = np.zeros((2, 24))
    gaps[0, :8] = gaps[1, 8:16] = 1
    equal = spread_of(gaps).at_least(1 / 24)
    gaps[1, 8] = 0
    unequal = spread_of(gaps).at_least(1 / 24)
    assert 1e-4 < equal.p_value(8 / 24) < unequal.p_value(7.5 / 24) < 0.05
    assert equal.p_value(equal.reach()) == pytest.approx(0.05, abs=1e-6)


def test_the_parts_are_those_of_the_world():
    """Seeds, images and their interaction with known variances."""
    generator = np.random.default_rng(1)
    seeds, images, count = 4, 60, 400
    found = []
    for _ in range(count):
        table = (
            0.2 * generator.standard_normal((seeds, 1))
            + 1.5 * generator.standard_normal((1, images))
            + 1.0 * generator.standard_normal((seeds, images))
        )
        spread = spread_of(table)
        found.append([spread.by_seeds, spread.by_images, spread.by_both])
    of_seeds, of_images, rest = np.mean(found, axis=0)
    assert rest == pytest.approx(1.0 / (seeds * images), rel=0.03)
    assert of_seeds == pytest.approx(0.2**2 / seeds + 1.0 / (seeds * images), rel=0.15)
    assert of_images == pytest.approx(1.5**2 / images, rel=0.05)


def spreads(generator, seed_effect, seeds, images):
    """The spreads of 300 studies whose images scatter by 1, and whose interaction, too."""
    tables = (
        seed_effect * generator.standard_normal((seeds, 1))
        + generator.standard_normal((1, images))
        + generator.standard_normal((seeds, images))
        for _ in range(300)
    )
    return [spread_of(table) for table in tables]


def mean_reach(found):
    return np.mean([one.reach() for one in found])


def test_a_larger_study_is_foretold():
    """What is said of twice the seeds and twice the images is what such studies have."""
    generator = np.random.default_rng(2)
    small = spreads(generator, 0.1, 4, 100)
    for foretold, larger in (
        ([one.with_twice_the_seeds() for one in small], spreads(generator, 0.1, 8, 100)),
        ([one.with_twice_the_images() for one in small], spreads(generator, 0.1, 4, 200)),
    ):
        assert mean_reach(foretold) == pytest.approx(mean_reach(larger), rel=0.07)


@pytest.mark.parametrize("seeds", [2, 3])
def test_twice_the_images_are_foretold_where_seeds_have_no_effect(seeds):
    """The scatter of few seeds looks like a small effect, so the forecast is a little too wide, but never wider."""
    generator = np.random.default_rng(2)
    small, larger = spreads(generator, 0.0, seeds, 100), spreads(generator, 0.0, seeds, 200)
    foretold = [one.with_twice_the_images() for one in small]
    assert 0.93 * mean_reach(larger) < mean_reach(foretold) < 1.18 * mean_reach(larger)
    assert all(after.reach() < before.reach() for after, before in zip(foretold, small, strict=True))


@given(st.integers(2, 4), st.integers(2, 30), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_more_test_images_never_widen_an_interval(seeds, images, seed, share):
    first, second = (np.random.default_rng(seed).random((2, seeds, images)) < share).astype(float)
    spread = spread_of(first - second).at_least(1 / images)
    assert spread.with_twice_the_images().reach() <= spread.reach() * (1 + 1e-6)


def test_the_correlation_of_seeds():
    generator = np.random.default_rng(4)
    hard = generator.standard_normal(5000)
    table = np.sqrt(0.6) * hard + np.sqrt(0.4) * generator.standard_normal((5, 5000))
    assert spread_of(table).correlation == pytest.approx(0.6, abs=0.03)
    assert spread_of(np.zeros((3, 10))).correlation == 0
    assert spread_of(np.tile(hard, (3, 1))).correlation == pytest.approx(1)


@given(st.integers(2, 5), st.integers(2, 40), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_a_mean_error_lies_in_its_interval_and_between_0_and_1(seeds, images, seed, share):
    wrong = np.random.default_rng(seed).random((seeds, images)) < share
    found = mean_error(wrong)
    assert 0 <= found.low <= found.value <= found.high <= 1 and found.low < found.high
    assert found.value == pytest.approx(wrong.mean())
    mirrored = mean_error(~wrong)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - found.high, 1 - found.low), abs=1e-6)


def test_seeds_with_equally_many_errors_on_other_images_do_not_know_their_error_exactly():
    """Two constant answers, each right for another class: no scatter over the seeds, and none over the images."""
    wrong = np.ones((2, 300), dtype=bool)
    wrong[0, :50] = wrong[1, 50:100] = False
    found = mean_error(wrong)
    independent = (found.value * (1 - found.value) / wrong.size) ** 0.5
    assert found.high - found.low > 3.8 * independent


def test_a_mean_error_of_seeds_that_agree_is_wilson_s():
    for count in (0, 7):
        wrong = np.tile(np.arange(359) < count, (3, 1))
        wilson = stats.binomtest(count, 359).proportion_ci(method="wilson")
        found = mean_error(wrong)
        assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high), rel=0.01)
    assert mean_error(np.zeros((1, 50), dtype=bool)).low is None
