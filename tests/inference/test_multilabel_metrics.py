"""Metrics of several labels: as torchmetrics and scikit-learn have them, without unknown cells, with intervals."""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.stats import binom
from sklearn.metrics import average_precision_score
from torchmetrics.functional.classification import multilabel_average_precision, multilabel_f1_score

from tests.many_labels import scored_labels
from vit.errors import DataError
from vit.inference.metrics.average_precision import RankedImages, guessed_precision
from vit.inference.metrics.multilabel_metrics import measure_labels, multilabel_metrics
from vit.inference.scores.scored_images import ScoredLabels

NAMES = ("rare", "some", "common")
THRESHOLDS = (0.3, 0.5, 0.6)


@pytest.mark.parametrize("ties", [False, True])
def test_values_are_those_of_torchmetrics_without_the_unknown_cells(ties):
    scored = scored_labels(ties=ties)
    found = measure_labels(scored, THRESHOLDS, NAMES)
    truth, probabilities = torch.from_numpy(scored.labels).long(), torch.from_numpy(scored.probabilities)
    kinds = {"num_labels": 3, "ignore_index": -1, "average": "none"}
    for row, expected in zip(found.per_label, multilabel_average_precision(probabilities, truth, **kinds), strict=True):
        assert row.ap.value == pytest.approx(float(expected), abs=1e-6)
        assert row.ap.low < row.ap.value < row.ap.high
    guesses = torch.from_numpy(scored.predicted(THRESHOLDS).astype(np.int64))
    for average in ("micro", "macro"):
        expected = multilabel_f1_score(guesses, truth, 3, average=average, ignore_index=-1)
        assert getattr(found.metrics, f"{average}_f1").value == pytest.approx(float(expected), abs=1e-6)
    assert found.metrics.map.value == pytest.approx(np.mean([row.ap.value for row in found.per_label]))
    assert [row.num_known for row in found.per_label] == (truth >= 0).sum(dim=0).tolist()


def test_average_precision_under_weights_is_that_of_repeated_images():
    scored = scored_labels(count=60, ties=True)
    known, present = scored.known[:, 1], scored.labels[:, 1] == 1
    drawn = np.random.default_rng(3).integers(0, 60, (5, 60))
    counts = np.stack([np.bincount(row, minlength=60) for row in drawn])
    found = RankedImages(known, present, scored.probabilities[:, 1]).average_precision(counts)
    for row, value in zip(drawn, found, strict=True):
        rows = row[known[row]]
        assert value == pytest.approx(average_precision_score(present[rows], scored.probabilities[rows, 1]))


def test_guesses_have_the_mean_precision_of_all_orders():
    orders = np.array(list(permutations(range(5))), dtype=np.float64)
    for count in range(1, 6):
        found = [average_precision_score(np.arange(5) < count, order) for order in orders]
        assert guessed_precision(np.array([count]), np.array([5]))[0] == pytest.approx(np.mean(found))


def test_probabilities_that_know_nothing_of_the_labels_are_like_guessing():
    scored = scored_labels()
    assert measure_labels(scored, THRESHOLDS, NAMES).warnings == []
    unrelated = np.random.default_rng(1).permutation(scored.probabilities)
    (warning,) = measure_labels(ScoredLabels(scored.paths, scored.labels, unrelated), THRESHOLDS, NAMES).warnings
    assert "not shown to be better than guessing: the mAP is" in warning


def test_unknown_cells_change_nothing_whatever_their_probabilities():
    scored = scored_labels()
    other = np.where(scored.known, scored.probabilities, 1 - scored.probabilities)
    changed = ScoredLabels(scored.paths, scored.labels, other)
    assert measure_labels(changed, THRESHOLDS, NAMES) == measure_labels(scored, THRESHOLDS, NAMES)


def test_a_label_without_positive_images_has_no_average_precision_and_is_not_in_the_mean():
    scored = scored_labels()
    labels = np.where(np.arange(3) == 0, np.minimum(scored.labels, 0), scored.labels).astype(np.int8)
    found = measure_labels(ScoredLabels(scored.paths, labels, scored.probabilities), THRESHOLDS, NAMES)
    assert found.per_label[0].ap is None and not {"ap", "recall", "f1"} & found.per_label[0].to_dict().keys()
    assert found.metrics.map.value == pytest.approx(np.mean([row.ap.value for row in found.per_label[1:]]))


def test_exact_match_counts_images_whose_known_labels_are_right_and_skips_images_without_a_label():
    labels = np.array([[1, 0], [1, -1], [0, 0], [-1, -1]], dtype=np.int8)
    probabilities = np.array([[0.9, 0.1], [0.9, 0.9], [0.9, 0.1], [0.1, 0.1]], dtype=np.float32)
    found = measure_labels(ScoredLabels(tuple("abcd"), labels, probabilities), (0.5, 0.5), ("x", "y"))
    assert found.metrics.exact_match.value == pytest.approx(2 / 3)


def test_a_perfect_label_is_not_certain():
    labels = np.array([[1]] * 5 + [[0]] * 20, dtype=np.int8)
    probabilities = np.where(labels == 1, 0.9, 0.1).astype(np.float32)
    found = measure_labels(ScoredLabels(tuple(map(str, range(25))), labels, probabilities), (0.5,), ("x",))
    assert found.per_label[0].ap.value == 1.0 and found.per_label[0].ap.low == pytest.approx(0.5655, abs=1e-3)


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_the_interval_of_micro_f1_contains_the_truth_where_few_images_are_wrong(count):
    """The percentiles of a bootstrap were 100 % to 100 % without an error, and missed the truth in a third of them."""
    draws, random, missed = 60, np.random.default_rng(2), 0
    truth = 2 * 0.3 * 0.98 / (0.3 + 0.3 * 0.98 + 0.7 * 0.02)  # 30 % of the cells are present, and 2 % are wrong
    names = tuple(map(str, range(count)))
    for _ in range(draws):
        present = random.random((count, 3)) < 0.3
        given = present ^ (random.random((count, 3)) < 0.02)
        scored = ScoredLabels(names, present.astype(np.int8), np.where(given, 0.9, 0.1).astype(np.float32))
        found = multilabel_metrics(scored, [0.5] * 3).micro_f1
        assert found.low < found.value <= found.high
        missed += not found.low <= truth <= found.high
    assert missed <= binom.ppf(0.999, draws, 0.05)


def test_f1_is_not_certain_where_no_image_has_or_is_given_a_label():
    scored = ScoredLabels(tuple("abc"), np.zeros((3, 2), dtype=np.int8), np.full((3, 2), 0.1, dtype=np.float32))
    found = multilabel_metrics(scored, [0.5] * 2)
    assert [vars(one) for one in (found.micro_f1, found.macro_f1)] == [{"value": 0.0, "low": 0.0, "high": 1.0}] * 2
    assert found.exact_match.value == 1.0


def test_no_known_label_at_all_is_an_error():
    scored = scored_labels(count=4, unknown=2.0)
    with pytest.raises(DataError, match="no label of any image is known"):
        measure_labels(scored, THRESHOLDS, NAMES)


def test_temperatures_change_probabilities_alone_and_back():
    scored = scored_labels()
    warm = scored.at((2.0, 0.5, 1.0))
    before, after = measure_labels(scored, THRESHOLDS, NAMES), measure_labels(warm, THRESHOLDS, NAMES)
    assert [row.ap.value for row in before.per_label] == pytest.approx([row.ap.value for row in after.per_label])
    assert after.uncalibrated.nll.value == pytest.approx(before.metrics.nll.value, rel=1e-5)
    assert after.metrics.nll.value != pytest.approx(before.metrics.nll.value, rel=1e-2)
    np.testing.assert_allclose(warm.at((1.0, 1.0, 1.0)).probabilities, scored.probabilities, atol=1e-6)
