"""Numbers and protocols in words."""

import pytest

from vit.study.findings import Interval
from vit.study.wording import ends, in_words, listed, percent_words, two_digits


@pytest.mark.parametrize(
    ("value", "words"), [(1234.4, "1,200"), (98.7, "99"), (7.0, "7"), (0.0, "0"), (86512.0, "87,000")]
)
def test_estimates_have_two_digits(value, words):
    assert two_digits(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, ""), ("a", "a"), (57000, "57,000"), (0.001, "0.001"), (True, "True"), ([0, 1], "0, 1"),
        ({"train": 57000, "test": [1, 2]}, "train: 57,000; test: 1, 2"),
    ],
)  # fmt: skip
def test_values_of_a_protocol_in_words(value, words):
    assert in_words(value) == words


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(0.052, 0.048, 0.056), "5.20 % (95 % interval 4.80 to 5.60)"),
        (Interval(0.052, None, None), "5.20 %"),
        (Interval(0.9, -0.2, 1.3), "90.00 % (95 % interval 0.00 to 100.00)"),
    ],
)
def test_fractions_in_percent(interval, words):
    assert percent_words(interval) == words


@pytest.mark.parametrize(
    ("low", "high", "words"), [(1, 2, "1 to 2"), (None, 2, "2 or less"), (1, None, "1 or more"), (None, None, "")]
)
def test_an_open_end_of_an_interval(low, high, words):
    assert ends(Interval(1.5, low, high), lambda value: f"{value:g}") == words


@pytest.mark.parametrize(("sizes", "words"), [([100], "100"), ([100, 300, 1000], "100, 300 and 1,000")])
def test_sizes_in_a_sentence(sizes, words):
    assert listed(sizes) == words
