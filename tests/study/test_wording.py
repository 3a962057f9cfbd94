"""Numbers and protocols in words."""

import pytest

from vit.study.answer.answer_warnings import end_of_tuning_warning
from vit.study.answer.wording import describe_ends, describe_gap, listed, percent_text, two_digits, value_text
from vit.study.findings import Comparison, Interval


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
    assert value_text(value) == words


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(0.052, 0.048, 0.056), "5.20 % (95 % interval 4.80 to 5.60)"),
        (Interval(0.052, None, None), "5.20 %"),
        (Interval(0.9, -0.2, 1.3), "90.00 % (95 % interval 0.00 to 100.00)"),
    ],
)
def test_fractions_in_percent(interval, words):
    assert percent_text(interval) == words


@pytest.mark.parametrize(("sizes", "words"), [([100], "100"), ([100, 300, 1000], "100, 300 and 1,000")])
def test_sizes_in_a_sentence(sizes, words):
    assert listed(sizes) == words


def tuned(cnn, vit="lr=0.1, depth=2"):
    """A protocol whose CNN chose among three learning rates, and whose ViT among three and two values."""
    rates, depths = ("0.01", "0.1", "1"), (2, 4)
    return {
        "settings": {
            "CNN, small": ["lr=1e-05", "lr=0.001", "lr=0.1"],
            "ViT": [f"lr={rate}, depth={depth}" for rate in rates for depth in depths],
        },
        "chosen": {**{f"CNN, small, {size} images": lr for size, lr in cnn.items()}, "ViT, 300 images": vit},
    }


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        ({}, ""),
        (tuned({"300": "lr=0.001"}), ""),
        (tuned({"300": "lr=0.001"}, vit="lr=0.1, depth=4"), ""),  # of two values each is at an end
        (tuned({"300": "lr=1e-05", "1,000": "lr=1e-05"}), "CNN, small took the lowest lr (300 images, 1,000 images)."),
        (tuned({"300": "lr=0.1"}), "CNN, small took the highest lr (300 images)."),
        (tuned({"300": "lr=0.001"}, vit="lr=0.01, depth=4"), "ViT took the lowest lr (300 images)."),
        ({"settings": {"ViT": ["x=e", "x=1-2", "x=-"]}, "chosen": {"ViT, 50 images": "x=e"}}, ""),
        ({"settings": {"ViT": ["pool=cls", "pool=mean", "pool=max"]}, "chosen": {"ViT, 50 images": "pool=cls"}}, ""),
    ],
)
def test_a_value_at_the_end_of_those_that_tuning_tried(protocol, words):
    found = end_of_tuning_warning(protocol)
    assert (words in found and "--tune" in found) if words else not found


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.0041, 0.035, "CNN makes at most 3.5 points fewer errors than ViT, or 0.41 more"),
        (-0.028, 0.0084, "ViT makes at most 2.8 points fewer errors than CNN, or 0.84 more"),
        (0.0065, 0.062, "CNN makes 0.65 to 6.2 points fewer errors than ViT (uncorrected)"),
        (-0.062, -0.0065, "ViT makes 0.65 to 6.2 points fewer errors than CNN (uncorrected)"),
    ],
)
def test_a_difference_has_a_direction_and_its_larger_end_comes_first(low, high, text):
    pair = Comparison("ViT", "CNN", [], "not resolved", None, None, 1.0)
    assert describe_gap(pair, Interval((low + high) / 2, low, high)) == text


def test_the_larger_end_may_be_a_loss():
    assert describe_ends(-0.013, 0.012) == "at most 1.3 points more errors, or 1.2 fewer"
