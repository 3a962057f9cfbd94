"""A temperature and a threshold for each label, and honest words where neither can be fitted."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

from tests.many_labels import scored_labels
from vit.checkpoints.label_rules import NEVER
from vit.inference.answers.calibration import FEWEST, fit_label_temperatures, fit_label_thresholds
from vit.inference.scores.scored_images import above


def test_every_label_finds_its_own_temperature_again_without_its_unknown_images():
    hot, cold = (scored_labels(8000, (0.2, 0.6), temperature=value) for value in (2.5, 0.5))
    labels = np.concatenate([hot.labels, cold.labels], axis=1)
    found = fit_label_temperatures(labels, np.concatenate([hot.probabilities, cold.probabilities], axis=1))
    assert found.values == pytest.approx((2.5, 2.5, 0.5, 0.5), rel=0.07)
    assert found.fitted[0].num_images == int((labels[:, 0] >= 0).sum()) < 8000


def test_a_label_with_few_images_of_either_value_keeps_1():
    scored = scored_labels(500, (0.5, 0.5), unknown=0.0, temperature=3.0)
    labels = scored.labels.copy()
    labels[np.flatnonzero(labels[:, 0] == 1)[FEWEST - 1 :], 0] = -1
    found = fit_label_temperatures(labels, scored.probabilities)
    assert found.fitted[0] is None and found.values[0] == 1.0 and found.values[1] > 1.5
    value = f"{found.values[1]:.3f}"
    assert f"1 of 2 labels are fitted ({value} to {value}), the others stay 1" in found.describe()


def test_no_other_threshold_has_a_higher_f1():
    scored = scored_labels(count=100)
    found = fit_label_thresholds(scored.labels, scored.probabilities)
    for k, threshold in enumerate(found.values):
        known = scored.known[:, k]
        present, p = scored.labels[known, k] == 1, scored.probabilities[known, k]
        best = max(f1_score(present, p >= other) for other in np.unique(p))
        assert f1_score(present, p >= threshold) == pytest.approx(best)
    assert found.values[0] < 0.5 and not found.without_positives


def test_a_precision_is_reached_with_the_highest_recall_or_said_to_be_out_of_reach():
    scored = scored_labels(count=100)
    labels = scored.labels.copy()
    labels[:, 0] = np.where(scored.probabilities[:, 0] > 0.9, 0, labels[:, 0])  # the surest images are all wrong
    found = fit_label_thresholds(labels, scored.probabilities, min_precision=0.9)
    known = labels[:, 2] >= 0
    present, p = labels[known, 2] == 1, scored.probabilities[known, 2]
    reached = [other for other in np.unique(p) if precision_score(present, p >= other) >= 0.9]
    assert precision_score(present, p >= found.values[2]) >= 0.9
    assert recall_score(present, p >= found.values[2]) == max(recall_score(present, p >= other) for other in reached)
    assert found.values[0] == NEVER and not above(np.ones((1, 3), dtype=np.float32), found.values)[0, 0]
    assert "reaches this precision, so no image gets a" in " ".join(found.describe(("a", "b", "c")))


def test_a_label_without_positives_keeps_one_half_and_it_is_said():
    scored = scored_labels()
    labels = scored.labels.copy()
    labels[:, 1] = np.minimum(labels[:, 1], 0)
    found = fit_label_thresholds(labels, scored.probabilities)
    assert found.values[1] == 0.5 and found.without_positives == (1,)
    assert "none of these images has b" in " ".join(found.describe(("a", "b", "c")))


def test_a_threshold_lies_between_two_probabilities_however_close():
    low = np.float32(0.5)
    probabilities = np.array([[low], [np.nextafter(low, np.float32(1))]], dtype=np.float32)
    found = fit_label_thresholds(np.array([[0], [1]], dtype=np.int8), probabilities)
    assert above(probabilities, found.values).tolist() == [[False], [True]]
