"""Means over classes: the set of classes stays, and a class with one image is not taken for known"""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score

from vit.inference.metrics.metrics import with_intervals
from vit.inference.metrics.multilabel_metrics import measure_labels
from vit.inference.scores.intervals import Metric, balanced_accuracy, like_guessing, macro_f1, resampled_mean
from vit.inference.scores.scored_images import ScoredImages, ScoredLabels

COPIES = 5


def long_tail(random, rare):
    """(labels, predictions) of 20 classes of 20 images and 20 of `rare`, whose recalls are 0.95 and 0.3."""
    labels = np.repeat(np.arange(40), np.repeat([20, rare], 20))
    right = random.random(len(labels)) < np.where(labels < 20, 0.95, 0.3)
    return labels, np.where(right, labels, (labels + random.integers(1, 40, len(labels))) % 40)


def test_the_values_are_those_of_scikit_learn():
    labels, predictions = long_tail(np.random.default_rng(0), 3)
    found = balanced_accuracy(labels, labels == predictions, 41)  # a class without images counts in neither
    assert found.value == pytest.approx(balanced_accuracy_score(labels, predictions))
    assert macro_f1(labels, predictions, 41).value == pytest.approx(f1_score(labels, predictions, average="macro"))


@pytest.mark.parametrize("rare", [1, 2, 5])
def test_intervals_cover_the_truth_and_hold_their_value_where_classes_are_rare(rare):
    """The percentiles of a bootstrap covered 43 % with one image of each rare class, and often not their own value."""
    random, covered = np.random.default_rng(rare), 0
    for _ in range(200):
        labels, predictions = long_tail(random, rare)
        found = balanced_accuracy(labels, labels == predictions, 40)
        covered += found.low <= 0.625 <= found.high
        for metric in (found, macro_f1(labels, predictions, 40)):
            assert 0 <= metric.low <= metric.value <= metric.high <= 1
    assert covered / 200 > 0.92


@pytest.mark.parametrize("rare", [1, 3])
def test_the_interval_of_macro_f1_covers_that_of_more_images_like_these(rare):
    random = np.random.default_rng(rare)
    many = [long_tail(random, rare) for _ in range(200)]
    labels, predictions = (np.concatenate(parts) for parts in zip(*many, strict=True))
    truth = f1_score(labels, predictions, average="macro")
    found = [macro_f1(*drawn, 40) for drawn in many]
    assert sum(one.low <= truth <= one.high for one in found) / len(found) > 0.9


@pytest.mark.parametrize(("count", "lowest"), [(30, 0.6), (60, 0.95)])
def test_the_interval_of_macro_f1_covers_the_truth_of_a_zipf_law(count, lowest):
    """It covered 88 %: the F1 of few images is too low on average, but by little where nearly all are right (60 %)."""
    random, shares = np.random.default_rng(0), 1 / np.arange(1, count + 1)
    shares, recall, covered = shares / shares.sum(), np.linspace(0.98, lowest, count), 0
    called = shares * recall + (shares * (1 - recall)).sum() / count
    truth = np.mean(2 * shares * (recall + (1 - recall) / count) / (shares + called))
    for _ in range(400):
        labels = random.choice(count, 300, p=shares)
        guesses = random.integers(0, count, 300)
        found = macro_f1(labels, np.where(random.random(300) < recall[labels], labels, guesses), count)
        covered += found.low <= truth <= found.high
    assert covered / 400 > 0.92


def test_one_class_of_all_images_has_the_interval_of_its_recall():
    right = np.arange(50) < 45
    found, expected = balanced_accuracy(np.zeros(50, np.int64), right, 1), Metric.fraction(45, 50)
    assert (found.value, found.low, found.high) == pytest.approx((0.9, expected.low, expected.high), abs=0.01)
    perfect = balanced_accuracy(np.repeat([0, 1], 10), np.full(20, True), 2)
    assert (perfect.low, perfect.high) == pytest.approx((Metric.fraction(20, 20).low, 1.0))


def test_always_the_most_common_class_is_like_guessing():
    """Its accuracy of 80 % looked like that of a network."""
    labels = np.repeat([0, 1], [40, 10])
    (warning,) = like_guessing(balanced_accuracy(labels, labels == 0, 2), 1 / 2)
    assert "the balanced accuracy is 50.00 %" in warning and "that of guesses 50.00 %" in warning
    assert not like_guessing(balanced_accuracy(labels, np.arange(50) < 46, 2), 1 / 2)
    assert not like_guessing(Metric(1.0, 0.9, 1.0), 1)


def test_copies_in_groups_change_nothing():
    labels, predictions = long_tail(np.random.default_rng(1), 2)
    groups = np.repeat(np.arange(len(labels)), COPIES)
    many = [np.repeat(one, COPIES) for one in (labels, predictions)]
    for alone, copied in (
        (balanced_accuracy(labels, labels == predictions, 40), balanced_accuracy(many[0], np.equal(*many), 40, groups)),
        (macro_f1(labels, predictions, 40), macro_f1(*many, 40, groups)),
    ):
        found = (copied.value, copied.low, copied.high)
        assert found == pytest.approx((alone.value, alone.low, alone.high), abs=0.003)


def test_the_mean_average_precision_lies_in_its_interval_where_a_label_has_one_image():
    """Samples without the image were means over other labels: 49.0 % had an interval from 49.03 to 83.6 %."""
    random, outside = np.random.default_rng(2), 0
    for _ in range(20):
        labels = (random.random((60, 4)) < 0.3).astype(np.int8)
        labels[:, 3] = np.arange(60) == 7
        probabilities = np.clip(random.random((60, 4)) * 0.6 + 0.4 * labels, 0, 1).astype(np.float32)
        probabilities[7, 3] = 0.01  # the only image with this label has the lowest probability
        found = measure_labels(ScoredLabels(tuple(map(str, range(60))), labels, probabilities), [0.5] * 4, list("abcd"))
        whole, alone = found.metrics.map, found.per_label[3].ap
        outside += not whole.low <= whole.value <= whole.high
        assert alone.low <= alone.value <= alone.high and alone.high > 0.5  # one image tells next to nothing
    assert outside == 0


def test_an_evaluation_has_these_intervals():
    labels, predictions = long_tail(np.random.default_rng(3), 1)
    probabilities = np.full((len(labels), 40), 0.2 / 39, np.float32)
    probabilities[np.arange(len(labels)), predictions] = 0.8
    for groups in (None, np.arange(len(labels)) // 3):
        found = with_intervals(
            ScoredImages(tuple(map(str, range(len(labels)))), labels, probabilities, groups=groups), 40
        )
        assert found.balanced_accuracy == balanced_accuracy(labels, labels == predictions, 40, groups)
        assert found.macro_f1 == macro_f1(labels, predictions, 40, groups)


def test_the_interval_of_a_mean_holds_values_with_and_without_the_bias_of_samples():
    """The mAP of 20 images with each label is 2 points too high, and 80 % of its intervals held that of all images."""
    samples = np.random.default_rng(0).normal(0.4, 0.03, (501, 4))
    samples[0] = 0.4
    alone, high = (
        resampled_mean(samples + np.arange(501)[:, None].clip(max=1) * bias, np.full(4, 20.0)) for bias in (0, 0.03)
    )
    assert high.value == alone.value and high.high == pytest.approx(alone.high, abs=0.002)
    assert alone.low - high.low == pytest.approx(0.03, abs=0.005)
