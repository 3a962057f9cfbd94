"""The figures of a set of scored images, against scikit-learn and torchmetrics."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    precision_recall_fscore_support,
    top_k_accuracy_score,
)
from sklearn.metrics import confusion_matrix as sklearn_confusion
from torchmetrics.functional.classification import multiclass_calibration_error

from vit.inference.metrics.metrics import (
    ClassMetrics,
    calibration_error,
    confusion,
    f1_order,
    measure,
    per_class,
    with_intervals,
)
from vit.inference.scores.scored_images import ScoredImages


def scored(count, num_classes, seed=0, sharpness=2.0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(count, num_classes)) * sharpness
    labels = generator.integers(0, num_classes, count)
    logits[np.arange(count), labels] += 1.5  # better than chance
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = (exponents / exponents.sum(axis=1, keepdims=True)).astype(np.float32)
    return ScoredImages(tuple(f"{i}.png" for i in range(count)), labels, probabilities)


def values(some, num_classes):
    return {name: metric["value"] for name, metric in with_intervals(some, num_classes).to_dict().items()}


@pytest.mark.parametrize(("count", "num_classes"), [(200, 10), (57, 3), (1, 2), (7, 6)])
def test_numbers_are_those_of_scikit_learn(count, num_classes):
    some = scored(count, num_classes)
    found = values(some, num_classes)
    assert found["acc1"] == pytest.approx(accuracy_score(some.labels, some.predictions))
    seen = np.unique(some.labels)
    recalls = [(some.predictions[some.labels == label] == label).mean() for label in seen]
    assert found["balanced_accuracy"] == pytest.approx(np.mean(recalls))
    assert found["nll"] == pytest.approx(log_loss(some.labels, some.probabilities, labels=range(num_classes)), abs=1e-5)
    assert ("acc5" in found) == (num_classes > 5)
    if num_classes > 5:
        expected = top_k_accuracy_score(some.labels, some.probabilities, k=5, labels=range(num_classes))
        assert found["acc5"] == pytest.approx(expected)


def test_balanced_accuracy_is_scikit_learn_s_where_every_class_is_seen():
    some = scored(300, 4)
    assert values(some, 4)["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(some.labels, some.predictions))


@pytest.mark.parametrize("sharpness", [0.1, 2.0, 30.0])
def test_calibration_error_is_that_of_torchmetrics(sharpness):
    some = scored(400, 10, sharpness=sharpness)
    expected = multiclass_calibration_error(
        torch.from_numpy(some.probabilities), torch.from_numpy(some.labels), num_classes=10, n_bins=15, norm="l1"
    )
    assert values(some, 10)["ece"] == pytest.approx(float(expected), abs=1e-5)


def test_a_confidence_of_one_has_a_bin():
    some = ScoredImages(("a", "b"), np.array([0, 1]), np.array([[1.0, 0.0], [1.0, 0.0]], dtype=np.float32))
    assert values(some, 2)["ece"] == pytest.approx(0.5)
    assert np.isfinite(values(some, 2)["nll"])  # a probability of 0 for the true class


def test_calibration_errors_of_neighboring_bins_do_not_cancel():
    sure = np.array([0.9, 0.9, 1.0, 1.0], dtype=np.float32)  # the last two of 15 bins
    some = ScoredImages(tuple("abcd"), np.array([0, 0, 0, 1]), np.stack([sure, 1 - sure], axis=1))
    assert values(some, 2)["ece"] == pytest.approx((2 * 0.1 + 1.0) / 4)


def test_per_class_and_confusion_count_rows_by_truth():
    some = scored(150, 4)
    assert np.array_equal(confusion(some.labels, some.predictions, 4), sklearn_confusion(some.labels, some.predictions))
    precision, recall, f1, support = precision_recall_fscore_support(some.labels, some.predictions)
    table = per_class(some.labels, some.predictions, ("a", "b", "c", "d"))
    assert [row.class_name for row in table] == ["a", "b", "c", "d"]
    assert [row.num_images for row in table] == support.tolist()
    for name, expected in (("precision", precision), ("recall", recall), ("f1", f1)):
        assert [getattr(row, name) for row in table] == pytest.approx(expected)


def test_a_class_without_images_stands_in_the_tables():
    some = ScoredImages(("a", "b"), np.array([0, 2]), np.eye(4, dtype=np.float32)[[0, 2]])
    table = per_class(some.labels, some.predictions, ("w", "x", "y", "z"))
    assert [row.num_images for row in table] == [1, 0, 1, 0]
    assert (
        confusion(some.labels, some.predictions, 4).shape == (4, 4)
        and confusion(some.labels, some.predictions, 4).trace() == 2
    )
    assert values(some, 4)["balanced_accuracy"] == 1.0
    assert table[1] == ClassMetrics("x", 0, None, None, None)


def test_a_class_of_false_alarms_alone_has_a_precision_of_0_and_no_recall():
    some = ScoredImages(("a", "b"), np.array([0, 0]), np.eye(3, dtype=np.float32)[[0, 1]])
    table = per_class(some.labels, some.predictions, ("x", "y", "z"))
    assert table[1:] == [ClassMetrics("y", 0, 0.0, None, None), ClassMetrics("z", 0, None, None, None)]
    assert min(reversed(table), key=lambda row: f1_order(row.f1)).class_name == "x"
    never_called = per_class(np.array([0, 1]), np.array([0, 0]), ("x", "y"))[1]
    assert never_called == ClassMetrics("y", 1, None, 0.0, 0.0), "0 of 0 predictions are right"
    assert values(some, 3)["macro_f1"] == pytest.approx(1 / 3), "the mean of 2/3 and 0, as documented"


def test_guesses_are_those_of_the_classes_that_have_images():
    """One class for all images is right for half of two classes, and was compared with one of four."""
    one_class = np.eye(4, dtype=np.float32)[np.zeros(200, dtype=int)]
    some = ScoredImages(tuple(map(str, range(200))), np.arange(200) % 2, one_class)
    (warning,) = measure(some, ("w", "x", "y", "z")).warnings
    assert "is 50.00 %" in warning and "that of guesses 50.00 %" in warning
    labels, one_hot = np.arange(200) % 3, np.eye(3, dtype=np.float32)
    for guess_of, pairs in (
        ([0, 2, 1], "(y for z, z for y)"),
        ([1, 2, 0], "(x for y, y for z, z for x)"),
        ([1, 2, 2], ""),
    ):
        guessed = ScoredImages(some.paths, labels, one_hot[np.array(guess_of)[labels]])
        warning = measure(guessed, ("x", "y", "z")).warnings[-1]
        assert pairs in warning and ("another class" in warning) == bool(pairs)


def test_measure_says_everything_in_plain_values():
    import json

    some = scored(60, 3)
    measured = measure(some, ("a", "b", "c")).to_dict()
    assert set(measured) == {"images", "metrics", "temperature", "uncalibrated", "per_class", "confusion"}
    assert measured["images"] == 60 and json.loads(json.dumps(measured)) == measured


def test_very_many_classes_take_little_memory():
    """A table of all pairs of 3,000 classes took 0.9 GB."""
    some = scored(40, 3000)
    tracemalloc.start()
    try:
        measured = measure(some, tuple(map(str, range(3000))))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert measured.confusion is None and len(measured.per_class) == 3000
    assert "confusion" not in measured.to_dict()
    assert peak < 40e6
    assert "confusion" in measure(scored(40, 200), tuple(map(str, range(200)))).to_dict()


def test_intervals_contain_the_value_and_shrink():
    widths = []
    for count in (40, 160, 2560):
        found = with_intervals(scored(count, 3), 3)
        for metric in (found.acc1, found.balanced_accuracy, found.nll):
            assert metric.low <= metric.value <= metric.high
        widths.append(found.acc1.high - found.acc1.low)
    assert widths[0] > widths[1] > widths[2] > 0
    share = with_intervals(scored(2560, 3), 3).acc1
    normal = 2 * 1.96 * np.sqrt(share.value * (1 - share.value) / 2560)
    assert share.high - share.low == pytest.approx(normal, rel=0.15)


@given(st.integers(1, 12), st.integers(2, 8), st.integers(0, 99))
def test_any_few_images_give_finite_numbers(count, num_classes, seed):
    for name, metric in with_intervals(scored(count, num_classes, seed), num_classes).to_dict().items():
        assert all(np.isfinite(value) for value in metric.values())
        low, high = metric.get("low", 0.0), metric.get("high", 1.0)
        assert 0 <= low <= metric["value"] <= high and (name == "nll" or high <= 1)
        assert (set(metric) == {"value", "chance"}) == (name == "ece")


@pytest.mark.parametrize(("count", "sharpness"), [(30, 2.0), (300, 2.0), (3000, 2.0), (300, 0.3)])
def test_chance_is_the_calibration_error_of_calibrated_networks(count, sharpness):
    generator = np.random.default_rng(0)
    found = []
    for _ in range(400):
        exponents = np.exp(sharpness * generator.normal(size=(count, 4)))
        probabilities = exponents / exponents.sum(axis=1, keepdims=True)
        labels = (probabilities.cumsum(axis=1) > generator.random((count, 1))).argmax(axis=1)
        correct = probabilities.argmax(axis=1) == labels
        found.append(calibration_error(correct, probabilities.max(axis=1).astype(np.float32)))
    values, chances = (np.array([getattr(one, name) for one in found]) for name in ("value", "chance"))
    assert chances.mean() == pytest.approx(values.mean(), rel=0.08)
