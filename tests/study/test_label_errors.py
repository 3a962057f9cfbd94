"""Confident learning on made-up labels and probabilities."""

import numpy as np
import pytest

from vit.study.fold_table import find_label_errors


def made_up(num_images, num_classes, rate, seed, certainty=4.0):
    """(true labels, labels of which a fraction is flipped, probabilities of a network that is mostly right)."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, num_classes, num_images)
    logits = generator.standard_normal((num_images, num_classes))
    logits[np.arange(num_images), truth] += certainty
    labels, rows = truth.copy(), generator.permutation(num_images)[: round(rate * num_images)]
    labels[rows] = (labels[rows] + generator.integers(1, num_classes, len(rows))) % num_classes
    return truth, labels, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def test_the_joint_and_the_ranking_are_those_of_the_paper():
    labels = np.array([0, 0, 0, 1, 1, 1])
    probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.3, 0.7], [0.2, 0.8], [0.55, 0.45]])
    found = find_label_errors(labels, probabilities)
    # thresholds: 0.6 for class 0, 0.65 for class 1; the last image reaches neither
    assert found.joint.tolist() == [[2, 1], [0, 2]]
    assert found.noise == pytest.approx(1 - (3 * 2 / 3 + 3) / 6)
    assert found.ranking[:2].tolist() == [2, 5]
    assert found.suspects.tolist() == [2]
    assert found.suggested.tolist() == [1, 1, 1, 0, 0, 0]
    assert found.label_probability[2] == 0.1


@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_flipped_labels_are_found_with_their_true_class(rate):
    truth, labels, probabilities = made_up(3000, 6, rate, seed=1)
    found, is_wrong = find_label_errors(labels, probabilities), labels != truth
    assert is_wrong[found.suspects].mean() > 0.85
    assert is_wrong[found.suspects].sum() > 0.9 * is_wrong.sum()
    caught = found.suspects[is_wrong[found.suspects]]
    assert (found.suggested[caught] == truth[caught]).mean() > 0.95
    assert abs(found.noise - rate) < 0.02
    assert sorted(found.ranking) == list(range(3000))


def test_sure_networks_and_right_labels_leave_no_suspect():
    truth, _, probabilities = made_up(500, 4, 0, seed=2, certainty=20.0)
    assert len(find_label_errors(truth, probabilities).suspects) == 0


def test_a_class_without_images_is_never_confident():
    truth, _, probabilities = made_up(300, 4, 0, seed=3)
    chosen = truth != 3
    found = find_label_errors(truth[chosen], probabilities[chosen])
    assert found.joint[:, 3].sum() == 0
    assert np.isfinite(found.noise)
