"""Validation scores survive a checkpoint, and damaged ones are refused."""

import numpy as np
import pytest

from vit.checkpoints.validation_scores import MOST_IMAGES, ValidationScores


def made(count=7, num_classes=3):
    generator = np.random.default_rng(count)
    probabilities = generator.dirichlet(np.ones(num_classes), count).astype(np.float32)
    return generator.integers(0, num_classes, count), probabilities


def test_numbers_of_each_image():
    labels = np.array([0, 1, 2])
    probabilities = np.array([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.3, 0.5, 0.2]], dtype=np.float32)
    scores = ValidationScores.of(labels, probabilities)
    assert scores.own.tolist() == pytest.approx([0.7, 0.4, 0.2])
    assert scores.above.tolist() == pytest.approx([0.0, 0.5, 0.8])
    assert scores.highest.tolist() == pytest.approx([0.7, 0.5, 0.5])
    assert scores.correct.tolist() == [True, False, False]


def test_of_a_tie_the_class_that_is_predicted_alone_is_right():
    """A network that gives all classes the same probability is right for one of them."""
    scores = ValidationScores.of(np.array([0, 1, 2]), np.full((3, 3), 1 / 3, dtype=np.float32))
    assert scores.correct.tolist() == [True, False, False] and scores.own == pytest.approx(1 / 3)
    two = ValidationScores.of(np.array([0, 1]), np.full((2, 2), 0.5, dtype=np.float32))
    assert two.above.tolist() == [0.0, 0.5]  # the true class itself, which is not above itself, had made it 1


def test_a_round_trip_changes_nothing():
    scores = ValidationScores.of(*made())
    again = ValidationScores.from_plain(scores.to_plain(), 3)
    for name in ("labels", "own", "above", "highest"):
        assert np.array_equal(getattr(again, name), getattr(scores, name))
    assert again.groups is None and "groups" not in scores.to_plain()


def test_groups_survive_and_those_of_another_number_of_images_are_refused():
    scores = ValidationScores.of(*made(), np.arange(7) // 2)
    plain = scores.to_plain()
    assert ValidationScores.from_plain(plain, 3).groups.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert ValidationScores.from_plain(plain, 3).split is None and "split" not in plain
    for split in ("calibration", "validation"):
        again = ValidationScores.from_plain(ValidationScores.of(*made(), None, split).to_plain(), 3)
        assert again.split == split
    fewer = ValidationScores.of(*made(6), np.arange(6)).to_plain()["groups"]
    with pytest.raises(ValueError, match="lengths"):
        ValidationScores.from_plain({**plain, "groups": fewer}, 3)


def test_of_many_images_a_fixed_choice_is_kept():
    labels, probabilities = made(MOST_IMAGES + 500)
    groups = np.arange(len(labels))
    first, second = (ValidationScores.of(labels, probabilities, groups) for _ in range(2))
    assert len(first) == MOST_IMAGES
    assert np.array_equal(labels[first.groups], first.labels)
    assert np.array_equal(first.own, second.own)
    assert len(ValidationScores.from_plain(first.to_plain(), 3)) == MOST_IMAGES


@pytest.mark.parametrize("damage", [
    {"split": "test"}, {"split": []}, {"own": ""}, {"own": "!"}, {"own": "AAAA"}, {"labels": None},
    {"above": "AACAfw=="}, {"highest": "AAAA" * 200_000},
])  # fmt: skip
def test_damaged_scores_are_refused(damage):
    plain = ValidationScores.of(*made(1)).to_plain()
    with pytest.raises((KeyError, TypeError, ValueError)):
        ValidationScores.from_plain({**plain, **damage}, 3)


def test_classes_that_are_not_there_are_refused():
    plain = ValidationScores.of(np.array([2]), np.array([[0.1, 0.2, 0.7]], dtype=np.float32)).to_plain()
    with pytest.raises(ValueError, match="class"):
        ValidationScores.from_plain(plain, 2)
