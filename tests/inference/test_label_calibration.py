"""A temperature for each label: each finds its own, and a label with few images keeps 1."""

import numpy as np
import pytest

from tests.many_labels import scored_labels
from vit.inference.label_fit import FEWEST, fit_label_temperatures


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
    assert f"1 of 2 labels are fitted ({value} to {value}), the others stay 1" in found.words(("a", "b"))
