"""The design that a time allows: sizes, seeds, and a part of the usual length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.study.design import MOST_SEEDS, PARTS, Design, StudyPace, choose_design
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import ModelConfig, OptimConfig, Recipe

SIZES = (20, 40, 80, 160)


def cost(size, part):
    return size * part


def spent(design):
    return sum(seeds * cost(size, design.part) for size, seeds in design.seeds.items())


def test_much_time_buys_all():
    design = choose_design(SIZES, cost, 10_000)
    assert design.seeds == dict.fromkeys(SIZES, MOST_SEEDS) and design.part == 1
    assert design.gain is None and design.more() == "" and not design.left


@given(st.floats(min_value=40, max_value=3000))
def test_the_time_is_kept_and_nothing_cheaper_than_the_gain_is_left(seconds):
    design = choose_design(SIZES, cost, seconds)
    assert spent(design) == pytest.approx(design.seconds) and design.seconds <= max(seconds, 2 * cost(20, PARTS[-1]))
    assert all(2 <= count <= MOST_SEEDS for count in design.seeds.values())
    if design.gain is not None:
        assert design.gain_seconds > seconds and design.more()


def test_the_largest_size_comes_first_and_a_length_is_cut_for_it():
    design = choose_design(SIZES, cost, 200)
    assert {160, 80} <= design.seeds.keys() and design.part < 0.5
    assert design.order[0] == (160, 2)


def test_the_length_is_cut_to_a_half_for_a_third_seed():
    whole, cut = choose_design(SIZES, cost, 640), choose_design(SIZES, cost, 480)
    assert (whole.part, whole.seeds[160]) == (1, 3)
    assert (cut.part, cut.seeds[160]) == (0.7, 3)


def test_what_does_not_fit_is_named():
    design = choose_design(SIZES, cost, 20)
    assert 160 not in design.seeds and design.left[-1] == 160 and design.part == PARTS[-1]
    assert design.seeds.keys() >= {80} or design.seeds


def test_the_smallest_size_is_measured_whatever_it_takes():
    assert choose_design(SIZES, cost, 0.0).seeds == {20: 2}


def test_given_sizes_and_seeds_are_kept():
    design = choose_design(SIZES, cost, 1, seeds=3, parts=(1.0,), num_first=4, keeps_first=True)
    assert design.seeds == dict.fromkeys(SIZES, 3) and design.part == 1


def test_more_time_adds_to_what_is_there():
    first = choose_design(SIZES, cost, 700)
    more = choose_design(SIZES, cost, 400, kept=first.seeds, parts=(1.0,))
    assert all(more.seeds[size] >= count for size, count in first.seeds.items())
    assert sum(more.seeds.values()) > sum(first.seeds.values()) and more.seconds <= 400


@pytest.mark.parametrize("seconds", [0.0, 20, 200, 700, 10_000])
def test_a_killed_study_goes_on_in_the_order_of_its_design(seconds):
    """No order was left, so the smallest size came first, and the largest one when the time was over."""
    first = choose_design(SIZES, cost, seconds)
    again = choose_design(SIZES, cost, 0.0, kept=first.seeds, parts=(1.0,))
    assert (again.order, again.seeds) == (first.order, first.seeds) and again.seconds == 0


def test_what_more_time_would_add_is_a_number_of_seeds():
    """Seeds count from 0: "seed 4" was the fourth one, seed 3."""
    assert Design({100: 2}, 1.0, 1.0, [], gain=(100, 3)).more() == "1 seed at 100 images"
    assert Design({100: 2}, 1.0, 1.0, [], gain=(100, 5)).more() == "3 seeds at 100 images"
    assert Design({100: 2}, 1.0, 1.0, [], gain=(1000, 2)).more() == "1,000 images"


def test_the_batch_size_of_a_recipe_is_not_that_of_a_linear_probe():
    optim, model = OptimConfig(batch_size=7, accumulate=2), ModelConfig(freeze="backbone")
    pace = StudyPace({"A": (0.0, 16, 1.0)}, {"validation": 2, "test": 5}, slots=1)
    assert pace.seconds("A", Recipe(DataConfig(train_images=20), model, optim=optim)) == 10 * 2 + 5
