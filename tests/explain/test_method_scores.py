"""Scores of a method over several images: means, gains over random orders, and their intervals."""

import math

import pytest

from vit.explain.explainer import Faithfulness, score_method


def found(deletion, insertion, random):
    return Faithfulness(deletion=deletion, insertion=insertion, random=random)


def test_means_and_gains():
    score = score_method("rollout", [found(0.1, 0.6, 0.4), found(0.5, 0.8, 0.4), found(0.3, 0.4, 0.4)])
    assert score.method == "rollout" and score.num_images == 3
    assert (score.deletion, score.insertion, score.random) == pytest.approx((0.3, 0.6, 0.4))
    assert (score.deletion_gain, score.insertion_gain) == pytest.approx((0.1, 0.2))
    assert (score.deletion_better, score.insertion_better) == (2, 2)
    assert score.deletion_half == pytest.approx(4.3027 * 0.2 / math.sqrt(3), rel=1e-4)  # t of 2 degrees of freedom


def test_one_image_has_no_interval():
    score = score_method("gradcam", [found(0.1, 0.6, 0.4)])
    assert math.isnan(score.deletion_half) and math.isnan(score.insertion_half)
