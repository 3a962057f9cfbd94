"""The accuracy of nearest neighbors."""

import math

import numpy as np
import pytest
import torch

from vit.extras.pretrain.pretrainer import BANK, QUERIES, NeighborAccuracy
from vit.inference.answers.nearest import nearest


def test_labels_come_from_the_nearest_images_of_the_bank():
    metric = NeighborAccuracy()
    directions = torch.eye(3).repeat_interleave(6, dim=0)  # three classes in three directions
    metric.update(directions * torch.rand(18, 1).add(0.5), torch.arange(3).repeat_interleave(6), BANK)
    metric.update(torch.eye(3)[[0, 1, 2, 2]], torch.tensor([0, 1, 2, 0]), QUERIES)  # the last label is wrong
    assert metric.compute().item() == 0.75


def test_features_that_are_not_numbers_have_no_accuracy():
    metric = NeighborAccuracy()
    metric.update(torch.eye(3), torch.arange(3), BANK)
    metric.update(torch.full((1, 3), torch.nan), torch.tensor([0]), QUERIES)
    assert math.isnan(metric.compute())


def test_no_readable_image_has_no_accuracy():
    metric = NeighborAccuracy()
    metric.update(torch.eye(3), torch.arange(3), BANK)
    assert math.isnan(metric.compute())


def test_neighbors_are_sorted_by_cosine_similarity():
    features = np.array([[1, 0], [0, 2], [3, 3]], dtype=np.float32)
    rows, similarities = nearest(features, np.array([[5, 1]], dtype=np.float32), 3)
    assert rows.tolist() == [[0, 2, 1]]
    assert similarities[0] == pytest.approx([5 / 26**0.5, 6 / 52**0.5, 1 / 26**0.5], abs=1e-6)
