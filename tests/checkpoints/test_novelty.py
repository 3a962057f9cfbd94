"""Training features of a checkpoint: distances, novelties with their promise, and a file that is not trusted."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from vit.checkpoints.novelty import MOST_FEATURES, UNLIKE, Novelty, TrainingFeatures
from vit.errors import CheckpointError


def some_novelty(num_validation=200, seed=0):
    generator = torch.Generator().manual_seed(seed)
    training = TrainingFeatures(torch.randn(50, 8, generator=generator))
    return Novelty.of(training, training.distances(torch.randn(num_validation, 8, generator=generator)))


def test_a_distance_is_that_of_scikit_learn_to_the_nearest_training_image():
    features, images = torch.randn(40, 6), torch.randn(10, 6)
    expected, _ = NearestNeighbors(n_neighbors=1, metric="cosine").fit(features.numpy()).kneighbors(images.numpy())
    found = TrainingFeatures(features).distances(images)
    assert found == pytest.approx(expected[:, -1], abs=2e-3)  # features are in float16


def test_of_new_images_like_the_validation_images_at_most_5_percent_are_unlike():
    generator = np.random.default_rng(0)
    shares = []
    for _ in range(400):
        novelty = Novelty.of(TrainingFeatures(torch.eye(3)), generator.random(39).astype(np.float32))
        shares.append((novelty.of_distances(generator.random(200).astype(np.float32)) >= UNLIKE).mean())
    assert np.mean(shares) == pytest.approx(0.05, abs=0.006)  # 2 of 40 places: exactly 5 %


def test_novelty_is_the_fraction_of_validation_images_that_are_nearer():
    novelty = Novelty.of(TrainingFeatures(torch.eye(3)), np.array([0.3, 0.1, 0.2], dtype=np.float32))
    found = novelty.of_distances(np.array([0.0, 0.1, 0.15, 0.9], dtype=np.float32))
    assert found.tolist() == [0, 0, 0.25, 0.75]
    copies = Novelty.of(novelty.training, np.repeat(novelty.validation, 6), np.arange(18) // 6)
    assert np.array_equal(copies.validation, novelty.validation)  # 9 % were unlike with 10 groups of equal images


def test_a_round_trip_keeps_every_novelty(tmp_path):
    before = some_novelty()
    torch.save(before.to_plain(), tmp_path / "file")
    after = Novelty.from_plain(torch.load(tmp_path / "file", weights_only=True))
    images = torch.randn(30, 8)
    assert np.array_equal(after.of_features(images), before.of_features(images))


def test_features_that_are_all_zero_can_be_kept():
    training = TrainingFeatures(torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
    again = Novelty.from_plain(Novelty.of(training, np.array([0.5], dtype=np.float32)).to_plain())
    assert np.isfinite(again.of_features(torch.zeros(1, 2))).all()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("features", torch.full((50, 8), float("nan"), dtype=torch.float16)),
        ("features", torch.full((50, 8), 9.0, dtype=torch.float16)),
        ("features", torch.zeros(50, 8)),
        ("features", torch.zeros(1, 1, dtype=torch.float16).expand(50, 1 << 40)),  # a petabyte of one number
        ("features", torch.zeros(MOST_FEATURES + 1, 1, dtype=torch.float16)),
        ("features", torch.zeros(0, 8, dtype=torch.float16)),
        ("validation", torch.tensor([0.5, 0.1])),
        ("validation", torch.tensor([0.1, float("inf")])),
        ("validation", torch.zeros(0)),
        ("neighbor", 51),
        ("neighbor", True),
        ("neighbor", "1"),
    ],
)  # fmt: skip
def test_values_that_we_did_not_write_are_refused(key, value):
    with pytest.raises(ValueError):
        Novelty.from_plain({**some_novelty().to_plain(), key: value})


def test_features_of_another_network_are_refused():
    with pytest.raises(CheckpointError, match="8 values"):
        TrainingFeatures(torch.ones(3, 4)).distances(torch.ones(2, 8))
