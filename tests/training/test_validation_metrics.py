"""Validation metrics are scikit-learn's, also where a class has no images."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, recall_score

from vit.training.validation_metrics import validation_metrics


@given(st.integers(2, 7), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40))
def test_they_are_scikit_learn_s(num_classes, pairs):
    labels, predictions = (np.array(column) % num_classes for column in zip(*pairs, strict=True))
    probabilities = torch.full((len(labels), num_classes), 0.01)
    probabilities[torch.arange(len(labels)), torch.from_numpy(predictions)] = 0.9
    metrics = validation_metrics(num_classes)
    for part in torch.arange(len(labels)).split(7):  # as batches come
        metrics.update(probabilities[part] / probabilities[part].sum(1, keepdim=True), torch.from_numpy(labels)[part])
    found = {name: float(value) for name, value in metrics.compute().items()}
    seen = np.unique(labels)
    assert found["acc1"] == pytest.approx((labels == predictions).mean())
    assert found["balanced_acc"] == pytest.approx(
        recall_score(labels, predictions, labels=seen, average="macro", zero_division=0)
    )
    assert found["macro_f1"] == pytest.approx(f1_score(labels, predictions, average="macro", zero_division=0))
    assert ("acc5" in found) == (num_classes > 5)
