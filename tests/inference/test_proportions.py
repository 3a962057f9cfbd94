"""Intervals and tests of counted cases, against scipy.stats."""

import pytest
from scipy.stats import binomtest

from vit.inference.proportions import sign_test, wilson_interval

CASES = [(0, 1), (1, 1), (0, 7), (3, 7), (7, 7), (180, 359), (9_999, 10_000)]


@pytest.mark.parametrize(("count", "total"), CASES)
def test_wilsons_interval_is_scipys(count, total):
    expected = binomtest(count, total).proportion_ci(0.95, "wilson")
    assert wilson_interval(count, total) == pytest.approx((expected.low, expected.high), rel=1e-14)


@pytest.mark.parametrize(("wins", "total"), CASES)
def test_the_sign_test_is_scipys(wins, total):
    assert sign_test(wins, total - wins) == pytest.approx(binomtest(wins, total).pvalue)


def test_without_any_case_nothing_is_shown():
    assert sign_test(0, 0) == 1.0
