"""Answers at the level that is sure: the promise holds at each level over many draws of validation images."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from scipy.stats import binom

from vit.checkpoints.validation_scores import ValidationScores
from vit.inference.answers.answers import AnswerRule, answer_rule
from vit.inference.answers.selective import level_thresholds
from vit.inference.metrics.measured_answers import MeasuredAnswers
from vit.inference.metrics.metrics import measure
from vit.inference.scores.scored_images import ScoredImages
from vit.tasks.levels import levels_of

NAMES = tuple(f"{top}/{middle}/{leaf}" for top in "ab" for middle in "cd" for leaf in "efg")


def world(generator, count):
    """Probabilities (n, 12) of an overconfident network, and the true ones: classes of a group are alike."""
    logits, middle = generator.normal(size=(count, 12)), generator.integers(0, 4, count)
    logits += 7 * np.eye(4)[middle].repeat(3, axis=1) * generator.random((count, 1)) ** 0.5
    logits[np.arange(count), 3 * middle + generator.integers(0, 3, count)] += 7 * generator.random(count)
    said, true = (np.exp(scale * logits) for scale in (1.0, 0.8))
    return (said / said.sum(axis=1, keepdims=True)).astype(np.float32), true / true.sum(axis=1, keepdims=True)


def drawn(generator, true):
    return (true.cumsum(axis=1) < generator.random((len(true), 1))).sum(axis=1).clip(max=11)


@pytest.mark.parametrize(
    ("target", "count"), [*(pytest.param(target, 400, marks=pytest.mark.slow) for target in (0.8, 0.9)), (0.95, 1000)]
)
def test_answers_of_each_level_reach_the_target_in_at_least_95_percent_of_fits(target, count):
    generator = np.random.default_rng(0)
    said, true = world(generator, 20_000)
    levels, rows = levels_of(NAMES), np.arange(len(said))
    every = [(said.max(axis=1), true[rows, said.argmax(axis=1)])]
    for level in levels:
        sums = level.sums(said)
        every.append((sums.max(axis=1), level.sums(true)[rows, sums.argmax(axis=1)]))
    fits, misses, answers = 200, np.zeros(3, int), np.zeros(3, int)
    for _ in range(fits):
        chosen = generator.integers(0, len(said), count)
        scores = ValidationScores.of(drawn(generator, true[chosen]), said[chosen], class_names=NAMES)
        left = np.ones(len(said), bool)
        for number, (least, (highest, right)) in enumerate(zip(level_thresholds(target, scores), every, strict=True)):
            kept, left = left & (highest >= least), left & (highest < least)
            if kept.any():
                answers[number] += 1
                misses[number] += right[kept].mean() < target
    assert (misses <= binom.ppf(0.999, fits, 0.05)).all(), misses
    assert answers[:2].min() > fits / 2, answers  # it is not safe because it never answers


def sure(*numbers):
    """Probabilities of images that are sure of the middle group of a class, and of the class if its number is >= 0."""
    rows = np.full((len(numbers), 12), 0.0005, dtype=np.float32)
    for row, number in zip(rows, numbers, strict=True):
        group = slice(~number // 3 * 3, ~number // 3 * 3 + 3) if number < 0 else number
        row[group] = (0.34, 0.33, 0.32) if number < 0 else 0.99
    return rows / rows.sum(axis=1, keepdims=True)


def test_the_answer_is_the_group_where_the_class_is_not_sure():
    rule = answer_rule(None, NAMES, reject_below=0.9)
    assert rule.groups(sure(~4, ~11)) == ["a/d", "b/d"]
    between = (sure(~0) + sure(~3)) / 2  # a/c or a/d
    nothing = np.full((1, 12), 1 / 12, dtype=np.float32)
    assert rule.groups(np.concatenate([between, nothing])) == ["a", ""]
    assert AnswerRule().groups(nothing) == [""] and answer_rule(None, ("x", "y"), reject_below=0.9).levels == ()


def test_a_class_that_is_never_sure_leaves_answers_of_groups():
    """Of 200 images, two of three labels are wrong inside the right group."""
    labels = np.arange(200) % 12
    scores = ValidationScores.of(labels, sure(*(~label for label in labels)), class_names=NAMES)
    rule = answer_rule(scores, NAMES, target_accuracy=0.95)
    assert rule.reject_below == math.inf and [least < 1 for _, least in rule.levels] == [True, False]
    assert "the most probable class is x" in rule.reason("x")
    scored = ScoredImages(tuple(map(str, labels)), labels, sure(*(~label for label in labels)))
    measured = measure(scored, NAMES, scores=scores)
    (row,) = (row for row in measured.answers.thresholds if row.target == 0.95)
    assert row.threshold is row.kept is None and row.answered.value == row.right.value == 1
    assert [(one.depth, one.num_groups, one.example) for one in measured.levels] == [(2, 4, "a/c"), (1, 2, "a")]
    assert [one.accuracy.value for one in measured.levels] == [1, 1] and measured.metrics.acc1.value < 0.5
    assert measured.levels[0].accuracy.low > 0.97
    plain = asdict(measured.answers)
    assert MeasuredAnswers.from_dict(plain) == measured.answers
    del plain["sets"][0]["measured"]
    with pytest.raises(KeyError):
        MeasuredAnswers.from_dict(plain)
    assert measured.to_dict()["levels"][1]["accuracy"]["value"] == 1


def test_scores_of_levels_survive_a_checkpoint_and_damaged_ones_are_refused():
    labels = np.arange(24) % 12
    scores = ValidationScores.of(labels, sure(*labels), np.arange(24) // 2, "validation", NAMES)
    plain = scores.to_plain()
    again = ValidationScores.from_plain(plain, 12, NAMES)
    assert [one.labels.tolist() for one in again.levels] == [(labels // 3).tolist(), (labels // 6).tolist()]
    assert all(
        np.array_equal(one.highest, other.highest) for one, other in zip(again.levels, scores.levels, strict=True)
    )
    assert again.groups.tolist() == scores.groups.tolist()
    fewer = ValidationScores.of(labels[:20], sure(*labels[:20]), class_names=NAMES).to_plain()["levels"]
    for levels in (fewer, plain["levels"][:1], [*plain["levels"]] * 2, [plain["levels"][0]] * 2, "xy", 3):
        with pytest.raises((ValueError, TypeError, KeyError)):
            ValidationScores.from_plain({**plain, "levels": levels}, 12, NAMES)
