"""Intervals of a mean loss: they hold with few images and few wrong answers, and with many they are the usual ones"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from vit.inference.metrics.metrics import with_intervals
from vit.inference.metrics.multilabel_metrics import multilabel_metrics
from vit.inference.scores.intervals import mean_loss
from vit.inference.scores.scored_images import ScoredImages, ScoredLabels

CLASSES = 4


def scored_images(confidences, labels, groups=None):
    """Images for which class 0 has the given probability, and the others share the rest."""
    others = np.repeat((1 - confidences)[:, None] / (CLASSES - 1), CLASSES - 1, axis=1)
    probabilities = np.concatenate([confidences[:, None], others], axis=1).astype(np.float32)
    return ScoredImages(tuple(map(str, range(len(labels)))), labels, probabilities, groups=groups)


def drawn_images(count, random):
    """Images of a network that is as sure as it should be: 2 % of its answers are wrong."""
    confidences = np.clip(random.beta(49, 1, count), 0.3, 1 - 1e-6)
    return scored_images(
        confidences, np.where(random.random(count) < confidences, 0, random.integers(1, CLASSES, count))
    )


def interval_of(scored):
    return mean_loss(scored.losses, scored.losses_if_wrong, scored.groups)


@pytest.mark.parametrize("count", [10, 25, 100, 1000])
def test_intervals_of_the_log_loss_contain_the_truth_in_most_test_sets(count):
    random = np.random.default_rng(0)
    truth = drawn_images(400_000, random).losses.mean()
    found = [interval_of(drawn_images(count, random)) for _ in range(200)]
    assert np.mean([one.low <= truth <= one.high for one in found]) > 0.91  # a bootstrap: 19, 39, 87 and 94 %


def test_intervals_of_the_log_loss_of_labels_contain_the_truth_in_most_test_sets():
    random = np.random.default_rng(0)

    def drawn(count):
        """All labels of 2 % of the images are wrong."""
        present, wrong = random.random((count, 5)) < 0.3, random.random((count, 1)) < 0.02
        probabilities = np.where(present ^ wrong, 0.95, 0.05).astype(np.float32)
        return ScoredLabels(tuple(map(str, range(count))), present.astype(np.int8), probabilities)

    truth = float(-0.98 * np.log(0.95) - 0.02 * np.log(0.05))
    found = [interval_of(drawn(25)) for _ in range(200)]
    assert np.mean([one.low <= truth <= one.high for one in found]) > 0.91  # a bootstrap: 41 %


def test_with_many_images_intervals_are_those_of_a_normal_mean():
    losses = np.random.default_rng(0).exponential(1.0, 20_000)
    found = mean_loss(losses, np.full(len(losses), 3.0))
    half = 1.96 * losses.std() / len(losses) ** 0.5
    assert (found.low, found.high) == pytest.approx((losses.mean() - half, losses.mean() + half), abs=half / 20)


@pytest.mark.parametrize("events", [0, 1, 5, 40])
def test_equal_events_have_the_exact_interval_of_poisson(events):
    losses = np.zeros(100_000)
    losses[:events] = 1.0
    found = mean_loss(losses, np.ones(len(losses)))
    low = chi2.ppf(0.025, 2 * events) / 2 if events else 0.0
    assert (found.low * 1e5, found.high * 1e5) == pytest.approx((low, chi2.ppf(0.975, 2 * events + 2) / 2), rel=2e-3)


@given(st.integers(1, 30), st.integers(0, 99), st.booleans())
def test_the_value_lies_in_its_interval(count, seed, are_in_groups):
    random = np.random.default_rng(seed)
    losses, wrong = random.exponential(1.0, (2, count)) * (random.random((2, count)) < 0.7)
    found = mean_loss(
        losses, wrong, random.integers(0, 4, count) if are_in_groups else None, random.random(count) + 0.1
    )
    assert 0 <= found.low <= found.value <= found.high < np.inf


def test_without_a_wrong_answer_the_loss_may_still_be_that_of_some():
    sure = scored_images(np.full(20, 0.999), np.zeros(20, dtype=np.int64))
    found = with_intervals(sure, CLASSES).nll
    assert (
        found == interval_of(sure) and found.value < 0.002 and found.high > 0.15 * -np.log(0.001 / 3)
    )  # Clopper-Pearson: up to 17 % may be wrong


def test_copies_tell_no_more_than_the_images():
    random = np.random.default_rng(3)
    alone = drawn_images(60, random)
    copied = scored_images(np.repeat(alone.confidences, 5), np.repeat(alone.labels, 5), np.repeat(np.arange(60), 5))
    one, other = (with_intervals(some, CLASSES).nll for some in (alone, copied))
    assert other.value == pytest.approx(one.value)
    assert other.low <= one.low + 1e-3 and other.high >= one.high - 1e-3


def test_images_without_a_known_label_do_not_count():
    labels, probabilities = np.array([[1, 0], [0, 1], [1, -1]], dtype=np.int8), np.full((3, 2), 0.8, dtype=np.float32)
    names = ("a", "b", "c")
    found = multilabel_metrics(ScoredLabels(names, labels, probabilities), [0.5, 0.5]).nll
    longer = ScoredLabels(
        (*names, "d"), np.append(labels, [[-1, -1]], axis=0).astype(np.int8), np.append(probabilities, [[0.1, 0.1]], 0)
    )
    assert multilabel_metrics(longer, [0.5, 0.5]).nll == found
    assert found.value == pytest.approx((-3 * np.log(0.8) - 2 * np.log(0.2)) / 5, rel=1e-5)
