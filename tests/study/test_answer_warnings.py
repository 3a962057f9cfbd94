"""Warnings of a study about its starts, its lengths, and its last steps."""

import pytest

from tests.study.results import run
from vit.study.answer.answer_warnings import (
    RANDOM_WEIGHTS,
    at_the_end,
    far_seeds,
    late_gain,
    more_steps,
    num_choosing,
    study_notes,
    unequal_start,
)
from vit.study.findings import Interval, Point, Series


def with_steps(steps):
    return [run("ViT", images, 0, 100, steps=count) for images, count in steps.items()]


def test_a_smooth_growth_is_a_rule_and_the_longer_of_two_lengths_is_a_second_cause():
    cells = with_steps({140: 100, 560: 190})
    for budget in ("steps:190@560^0.46", "epochs:20"):
        assert study_notes(cells, {"budget": budget}) == []
    assert "100 at 140 images, 190 at 560 images" in study_notes(cells, {"budget": "steps:100,epochs:9"})[0]
    assert more_steps(with_steps({140: 300, 560: 300})) == ""


def test_pretrained_against_random_is_a_warning():
    mixed = unequal_start({"start": {"ViT": "deit.safetensors", "CNN": RANDOM_WEIGHTS}})
    assert "CNN with random ones" in mixed
    assert unequal_start({"start": {"ViT": "a", "CNN": "b"}}) == unequal_start({}) == ""
    assert unequal_start({"start": {"ViT": RANDOM_WEIGHTS, "CNN": RANDOM_WEIGHTS}}) == ""


def test_images_that_choose_the_weights_are_named():
    protocol = {"images": {"train": 100, "validation": 20}, "checkpoints": "lowest val/loss"}
    assert num_choosing(protocol) == 20
    assert num_choosing({**protocol, "checkpoints": "last weights"}) == 0


def test_a_loss_that_still_falls_at_the_end_is_said(tmp_path):
    metrics = tmp_path / "metrics.csv"
    metrics.write_text("step,val/loss\n" + "".join(f"{step},{loss}\n" for step, loss in enumerate((9, 5, 3, 2, 1))))
    assert late_gain(metrics) == pytest.approx(0.5)
    assert late_gain(tmp_path / "none.csv") is None
    falling = [run("ViT", 1000, seed, 100, late_gain=0.5) for seed in range(2)]
    assert "still fell in the last fifth of the steps, that of ViT by 50 %: a longer" in at_the_end(falling)
    assert "no longer fell" in at_the_end([run("ViT", 1000, 0, 100, late_gain=0.001)])
    assert at_the_end([run("ViT", 1000, 0, 100)]) == ""


@pytest.mark.parametrize(
    ("errors", "seed"),
    [
        ([0.10, 0.31, 0.12], 1), ([0.10, 0.12, 0.14, 0.11, 0.19], None), ([0.31, 0.10], 0), ([0.0, 0.0, 0.02], 2),
        ([0.001, 0.003, 0.001], None), ([0.2], None), ([0.30, 0.31, 0.32], None), ([0.0, 0.0], None),
    ],
)  # fmt: skip
def test_a_seed_far_from_the_others_is_named(errors, seed):
    """Where one seed in ten collapses, intervals hold in 72 to 89 % (docs/measurements.md), without a word."""
    point = Point(1000, list(range(len(errors))), errors, Interval(0.1, None, None), None, 1.0, 1.0)
    named = list(far_seeds([Series("ViT", "vit", 1, 1, [point], [], None)], 400))
    assert named == [] if seed is None else len(named) == 1 and f"errors with seed {seed}, and at most" in named[0]
