"""Attention distance and entropy where they are known."""

import math

import pytest
import torch

from vit.explain.inspection import attention_spread, mean_distance, mean_entropy, patch_distances
from vit.explain.methods import attention_weights


def test_uniform_attention_over_a_grid_of_14():
    pixels = patch_distances(14, 16)
    assert float(pixels.mean()) == pytest.approx(116.5, abs=0.05)
    assert mean_distance(torch.full((1, 1, 196, 196), 1 / 196), pixels).item() == pytest.approx(116.5, abs=0.05)


def test_a_grid_of_two_by_hand():
    pixels = patch_distances(2, 10)
    diagonal = 10 * math.sqrt(2)
    assert torch.allclose(pixels[0], torch.tensor([0.0, 10.0, 10.0, diagonal]))
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4]).expand(1, 1, 4, 4)
    expected = sum(w * d for w, d in ((0.1, 0), (0.2, 10), (0.3, 10), (0.4, diagonal)))
    assert mean_distance(weights, pixels)[0, 0] == pytest.approx(
        sum((expected, 0.1 * 10 + 0.3 * diagonal + 0.4 * 10, 0.1 * 10 + 0.2 * diagonal + 0.4 * 10,
             0.1 * diagonal + 0.2 * 10 + 0.3 * 10)) / 4
    )  # fmt: skip


def test_tokens_without_a_place_count_for_nothing():
    pixels = patch_distances(2, 10)
    among = torch.rand(4, 4)
    whole = torch.rand(6, 6)
    whole[2:, 2:] = among
    assert mean_distance(whole[None, None], pixels) == pytest.approx(
        mean_distance((among / among.sum(dim=1, keepdim=True))[None, None], pixels).item()
    )
    assert mean_distance(torch.eye(5)[None, None], pixels) == 0


def test_entropy_from_nothing_to_all_alike():
    assert mean_entropy(torch.eye(7)[None, None]) == 0
    assert mean_entropy(torch.full((1, 1, 7, 7), 1 / 7)).item() == pytest.approx(math.log(7))


def test_spread_is_the_mean_over_images(small, images):
    network = small()
    found = attention_spread(network, images)
    layers = attention_weights(network, images)
    assert found.num_images == 2 and found.distance.shape == found.entropy.shape == (3, 3)
    assert torch.allclose(found.distance[1], mean_distance(layers[1], patch_distances(4, 4)).mean(dim=0), atol=1e-5)
    assert torch.allclose(found.entropy[2], mean_entropy(layers[2]).mean(dim=0), atol=1e-5)
    assert found.uniform_entropy == pytest.approx(math.log(17)) and (found.entropy < found.uniform_entropy).all()
