"""The interval of a cross-validation: its formula, its coverage, and groups."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import t

from vit.inference.scores.intervals import Metric, wilson
from vit.study.crossval import fold_accuracy
from vit.study.fold_table import FoldPredictions


def test_the_interval_is_that_of_nadeau_and_bengio():
    counts, size = [60, 90, 75, 80, 95], 100
    correct = np.concatenate([np.arange(size) < count for count in counts])
    found = fold_accuracy(correct, np.repeat(np.arange(5), size))
    spread = np.var(np.array(counts) / size, ddof=1)
    variance = (1 / 5 + 1 / 4) * spread
    expected = wilson(0.8, 0.8 * 0.2 / variance, t.ppf(0.975, 4))
    assert found.accuracy.low == pytest.approx(expected.low)
    assert found.accuracy.high == pytest.approx(expected.high)
    assert found.accuracy.value == found.naive.value == 0.8
    assert [one.value for one in found.folds] == [0.6, 0.9, 0.75, 0.8, 0.95]
    assert found.num_images == (100,) * 5


def test_folds_that_agree_by_chance_do_not_narrow_the_interval():
    correct = np.tile(np.arange(100) < 80, 5)
    found = fold_accuracy(correct, np.repeat(np.arange(5), 100))
    assert found.accuracy.high - found.accuracy.low == pytest.approx(found.naive.high - found.naive.low, rel=0.01)


def test_groups_that_are_right_or_wrong_as_a_whole_widen_the_interval():
    groups = np.repeat(np.arange(50), 10)
    correct, folds = groups % 5 != 0, np.arange(500) // 10 // 5 % 5
    alone, together = fold_accuracy(correct, folds), fold_accuracy(correct, folds, [str(one) for one in groups])
    ratio = (together.accuracy.high - together.accuracy.low) / (alone.accuracy.high - alone.accuracy.low)
    assert 2.5 < ratio < 3.5  # ten equal images count as one: the square root of 10
    assert together.num_groups == 50


def test_all_right_is_not_certain():
    found = fold_accuracy(np.ones(40, dtype=bool), np.arange(40) % 4)
    assert found.accuracy.value == found.accuracy.high == 1
    assert 0.85 < found.accuracy.low < 0.95


@pytest.mark.slow
def test_the_interval_covers_where_the_naive_one_does_not():
    """Ridge classifiers on 100 images of 20 numbers each; the truth is the mean accuracy of such a training."""
    generator, shift, covered = np.random.default_rng(0), np.zeros(20), {"ours": 0, "naive": 0}
    shift[:5] = 0.6 / 5**0.5

    def draw(count):
        labels = generator.permutation(np.arange(count) % 2)
        return generator.standard_normal((count, 20)) + np.where(labels[:, None] == 1, shift, -shift), labels

    def learn(images, labels):
        inputs = np.column_stack([images, np.ones(len(images))])
        return np.linalg.solve(inputs.T @ inputs + np.eye(21), inputs.T @ (2 * labels - 1))

    def accuracy(weights):
        length = np.linalg.norm(weights[:-1])
        return (
            ndtr((shift @ weights[:-1] + weights[-1]) / length) + ndtr((shift @ weights[:-1] - weights[-1]) / length)
        ) / 2

    truth = np.mean([accuracy(learn(*draw(80))) for _ in range(500)])
    for _ in range(400):
        images, labels = draw(100)
        folds, correct = np.arange(100) % 5, np.empty(100, dtype=bool)
        for fold in range(5):
            weights, test = learn(images[folds != fold], labels[folds != fold]), folds == fold
            correct[test] = (images[test] @ weights[:-1] + weights[-1] > 0) == (labels[test] == 1)
        found = fold_accuracy(correct, folds)
        covered["ours"] += found.accuracy.low <= truth <= found.accuracy.high
        covered["naive"] += found.naive.low <= truth <= found.naive.high
    assert covered["ours"] >= 0.95 * 400
    assert covered["naive"] < 0.94 * 400


def test_a_fold_counts_its_groups_as_its_own_result_does():
    groups = np.repeat(np.arange(12), 5)
    correct, folds = groups % 3 != 0, groups % 2
    found = fold_accuracy(correct, folds, [str(one) for one in groups])
    for fold, interval in enumerate(found.folds):
        expected = Metric.share(correct[folds == fold], groups[folds == fold])
        assert (interval.value, interval.low, interval.high) == (expected.value, expected.low, expected.high)
        assert interval.low < fold_accuracy(correct, folds).folds[fold].low


def test_a_table_of_folds_keeps_the_predictions_of_nearly_equal_probabilities(tmp_path):
    probabilities = np.random.default_rng(0).normal(0.1, 3e-7, (50, 10)).astype(np.float32)
    found = FoldPredictions(
        tuple("abcdefghij"), ("x",) * 50, np.zeros(50, dtype=np.int64), probabilities, np.ones(50), ("",) * 50
    )
    found.write(tmp_path / "predictions.csv")
    again = FoldPredictions.read(tmp_path / "predictions.csv")
    assert (again.probabilities == probabilities).all()
    assert (again.predictions == found.predictions).all()
