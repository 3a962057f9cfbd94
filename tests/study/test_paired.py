"""Paired differences, their tests and intervals, against scipy and against each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from vit.study.paired import differences, holm, mcnemar, mean_interval, paired_gap

T = 1000
COUNTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=5)


def at_sizes(*rows, images=(100, 300, 1000, 3000), start=0):
    """{images: {seed: error}} from lists of wrong images."""
    return {
        size: {start + seed: count / T for seed, count in enumerate(row)}
        for size, row in zip(images, rows, strict=False)
    }


def table(only_first, only_second, both, neither=0):
    """The answers of two networks, as (T,) arrays."""
    first = np.repeat([True, False, True, False], [only_first, only_second, both, neither])
    second = np.repeat([False, True, True, False], [only_first, only_second, both, neither])
    return first, second


def test_mean_interval_is_that_of_student():
    values = [0.1, 0.12, 0.09, 0.15]
    found = mean_interval(values)
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert (found.value, found.low, found.high) == pytest.approx((0.115, low, high))


def test_mean_interval_of_few_or_equal_values():
    one = mean_interval([0.25])
    assert (one.value, one.low, one.high) == (0.25, None, None)
    equal = mean_interval([0.25] * 4)
    assert (equal.low, equal.high) == (0.25, 0.25)
    floored = mean_interval([0.25] * 4, 0.01)
    assert floored.high - floored.value == pytest.approx(stats.t.ppf(0.975, 3) * 0.01)


def test_holm_of_a_known_case():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.2]) == [0.2] and holm([0.5, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=8), st.randoms())
def test_holm_lies_between_nothing_and_bonferroni_and_ignores_order(p_values, random):
    found = holm(p_values)
    assert all(p <= q <= min(1, len(p_values) * p) for p, q in zip(p_values, found, strict=True))
    order = list(range(len(p_values)))
    random.shuffle(order)
    assert sorted(holm([p_values[place] for place in order])) == sorted(found)


def test_differences_are_those_of_the_paired_t_test():
    first, second = at_sizes([50, 61, 55], [40, 41, 45]), at_sizes([70, 75, 79], [42, 40, 44])
    found = differences(first, second, T)
    assert [one.images for one in found] == [100, 300] and found[0].seeds == [0, 1, 2]
    for one in found:
        ours, theirs = list(first[one.images].values()), list(second[one.images].values())
        assert one.p == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
        assert one.gap.value == pytest.approx(np.mean(ours) - np.mean(theirs))
        assert one.ratio.value == pytest.approx(stats.gmean(ours) / stats.gmean(theirs))
        assert (one.p < 0.05) == (not one.gap.low <= 0 <= one.gap.high)
    assert [one.p_holm for one in found] == pytest.approx(holm([one.p for one in found]))


def test_seeds_that_agree_to_the_image_are_no_certainty():
    (one,) = differences(at_sizes([50] * 5), at_sizes([51] * 5), T)
    assert one.gap.low < 0 < one.gap.high and one.p > 0.3 and one.ratio.low < 1 < one.ratio.high
    (one,) = differences(at_sizes([50] * 5), at_sizes([50] * 5), T)
    assert one.p == 1.0 and one.gap.low < 0 < one.gap.high
    (one,) = differences(at_sizes([50] * 5), at_sizes([60] * 5), T)
    assert 0 < one.p < 0.001 and one.gap.high < 0


def test_only_common_seeds_count():
    first, second = at_sizes([50, 52, 54], [50], [50]), at_sizes([60, 61, 63], [60, 61], [60], start=1)
    (one,) = differences(first, second, T)
    assert one.seeds == [1, 2] and one.gap.value == pytest.approx((52 - 60 + 54 - 61) / 2 / T)


def test_one_seed_has_no_test_and_is_none_of_holm_s():
    first, second = at_sizes([50, 52, 54], [40]), at_sizes([60, 64, 63], [10])
    tested, lone = differences(first, second, T)
    assert (lone.gap.low, lone.gap.high, lone.ratio.low, lone.p, lone.p_holm) == (None, None, None, 1.0, 1.0)
    assert lone.gap.value == pytest.approx(0.03) and tested.p_holm == tested.p


def test_no_errors_at_all_have_a_ratio():
    (one,) = differences(at_sizes([0, 0, 0]), at_sizes([9, 10, 11]), T)
    assert one.ratio.value == pytest.approx(0.5 / stats.gmean([9.5, 10.5, 11.5])) and one.gap.high < 0
    assert one.ratio.high > 1  # none of 1,000 in three seeds and ten of 1,000: the ratio itself is hardly known
    (one,) = differences(at_sizes([0, 0]), at_sizes([0, 0]), T)
    assert one.ratio.value == 1 and one.p == 1


@given(st.lists(COUNTS, min_size=1, max_size=4), st.randoms())
def test_order_of_seeds_is_nothing_and_a_swap_mirrors(sizes, random):
    first = at_sizes(*([pair[0] for pair in row] for row in sizes))
    second = at_sizes(*([pair[1] for pair in row] for row in sizes))
    found = differences(first, second, T)
    shuffled = {images: dict(random.sample(sorted(row.items()), len(row))) for images, row in first.items()}
    assert differences(shuffled, second, T) == found
    for one, other in zip(found, differences(second, first, T), strict=True):
        assert (one.p, one.p_holm, one.gap.value) == (other.p, other.p_holm, -other.gap.value)
        assert one.ratio.value == pytest.approx(1 / other.ratio.value)
        if one.gap.low is not None:
            assert one.gap.low == -other.gap.high and one.ratio.low == pytest.approx(1 / other.ratio.high)
        assert np.isfinite([one.p, one.p_holm, one.gap.value, one.ratio.value]).all()


def test_mcnemar_counts_and_tests():
    found = mcnemar(*table(12, 3, 80))
    assert (found.only_first, found.only_second) == (12, 3)
    assert found.p == pytest.approx(stats.binomtest(12, 15).pvalue)
    assert mcnemar(*table(0, 0, 5)).p == 1.0 and mcnemar(*table(3, 12, 80)).p == found.p


def test_paired_gap_of_a_published_case():
    # airway hyper-responsiveness before and after a transplantation, Bentur et al. 2009; the interval stands in
    # Fagerland, Lydersen & Laake (2014), table IV
    found = paired_gap(*table(1, 7, 1, 12))
    assert (found.value, found.low, found.high) == pytest.approx((-0.286, -0.517, -0.026), abs=6e-4)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 300))
def test_paired_gap_is_the_score_test_turned_round(only_first, only_second, both):
    if only_first + only_second + both == 0:
        both = 1
    found = paired_gap(*table(only_first, only_second, both))
    assert -1 <= found.low <= found.value <= found.high <= 1 and found.low < found.high
    if only_first + only_second:
        score = (only_first - only_second) ** 2 / (only_first + only_second)
        assert (found.low > 0 or found.high < 0) == (score > stats.norm.ppf(0.975) ** 2)
    mirrored = paired_gap(*table(only_second, only_first, both))
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low), abs=1e-9)


@pytest.mark.parametrize(("p_first", "p_second"), [(0.1, 0.1), (0.2, 0.1), (0.05, 0.02)])
def test_paired_gap_covers(p_first, p_second):
    count, covered = 60, 0.0
    for b in range(count + 1):
        for c in range(count + 1 - b):
            weight = stats.multinomial.pmf([b, c, count - b - c], count, [p_first, p_second, 1 - p_first - p_second])
            if weight > 1e-7:
                found = paired_gap(*table(b, c, count - b - c))
                covered += weight * (found.low <= p_first - p_second <= found.high)
    assert 0.93 < covered < 0.99
