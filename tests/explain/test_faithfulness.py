"""Deletion and insertion on a network whose needs are known."""

import pytest
import torch

from vit.explain.explainer import faithfulness, grid_size_for, mean_color

IMAGE = torch.zeros(3, 16, 16, dtype=torch.uint8)
IMAGE[:, 4:8, 8:12] = 240  # one bright square, all that the network below looks at
WHERE = torch.zeros(4, 4)
WHERE[1, 2] = 1.0


def seen(images):
    """Probability of the class: how much brighter the square is than its surroundings."""
    return (images[:, :, 4:8, 8:12].float().mean(dim=(1, 2, 3)) - 15).clamp(min=0) / 225


def test_a_map_of_what_is_needed_beats_chance_and_its_opposite_does_not():
    found = faithfulness(seen, IMAGE, mean_color(IMAGE), {"right": WHERE, "wrong": -WHERE}, grid_size=4, num_steps=16)
    right, wrong = found["right"], found["wrong"]
    # the square goes first: half of the first of 16 trapezoids is left; it comes first: all but half of the first one
    assert right.deletion == pytest.approx(1 / 32) and right.insertion == pytest.approx(1 - 1 / 32)
    assert wrong.deletion == pytest.approx(1 - 1 / 32) and wrong.insertion == pytest.approx(1 / 32)
    assert right.deletion < right.random < wrong.deletion and right.random == wrong.random


def test_equal_importance_is_put_in_random_order():
    areas = {
        faithfulness(seen, IMAGE, mean_color(IMAGE), {"flat": torch.ones(4, 4)}, 4, seed=seed)["flat"].deletion
        for seed in range(12)
    }
    assert len(areas) > 4 and min(areas) < 0.4 < 0.6 < max(areas)


def test_the_same_seed_gives_the_same_numbers_and_any_resolution_of_a_map_will_do():
    fine = WHERE.repeat_interleave(4, 0).repeat_interleave(4, 1)
    found = faithfulness(seen, IMAGE, mean_color(IMAGE), {"fine": fine, "coarse": WHERE}, 4, num_steps=16)
    assert found["fine"] == found["coarse"]
    again = faithfulness(seen, IMAGE, mean_color(IMAGE), {"fine": fine, "coarse": WHERE}, 4, num_steps=16)
    assert again == found


def test_curves_begin_with_the_image_and_end_with_the_background():
    shown = []
    faithfulness(lambda batch: shown.append(batch) or seen(batch), IMAGE, mean_color(IMAGE), {"m": WHERE}, 4)
    (batch,) = shown
    assert torch.equal(batch[0], IMAGE) and torch.equal(batch[1], mean_color(IMAGE))
    assert all(set(picture.unique().tolist()) <= {0, 15, 240} for picture in batch)


def test_the_background_keeps_the_mean_color_and_loses_the_shapes():
    picture = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    background = mean_color(picture)
    assert background.shape == picture.shape and background.dtype == torch.uint8
    assert background.float().std(dim=(1, 2)).max() < 0.15 * picture.float().std()
    assert (background.float().mean(dim=(1, 2)) - picture.float().mean(dim=(1, 2))).abs().max() < 6


@pytest.mark.parametrize(
    ("side", "patches", "cells"),
    [(224, 14, 14), (224, None, 14), (32, None, 8), (13, None, 13), (331, None, 14), (61, None, 14), (2, None, 2)],
)
def test_cells_are_patches_or_divide_the_side_or_are_fourteen(side, patches, cells):
    assert grid_size_for(side, patches) == cells


@pytest.mark.parametrize("side", [16, 17, 19])
def test_a_side_that_is_not_divided_is_tested_as_well(side):
    """One square for the whole image made every order the same: nothing was better than random."""
    grid_size, shown = grid_size_for(side, None), []
    image = torch.full((3, side, side), 200, dtype=torch.uint8)
    image[:, side // 2 :] = 100
    importance = {"m": torch.rand(grid_size, grid_size, generator=torch.Generator().manual_seed(0))}

    def half(images):
        shown.append(images)
        return images[:, :, : side // 2].float().mean(dim=(1, 2, 3)) / 200

    found = faithfulness(half, image, torch.zeros_like(image), importance, grid_size)["m"]
    assert found.deletion != found.random
    assert (shown[0][2:] > 0).float().mean().item() == pytest.approx(0.5, abs=0.03)
