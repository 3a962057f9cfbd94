"""Networks, varied values and values to tune become series."""

import pytest

from vit.commands.cli.recipe_options import make_parser, to_recipe
from vit.errors import UsageError
from vit.study.spec import make_series
from vit.training.recipes.recipe import Recipe

NANO = {"ViT": ["--model.network.name=vit_nano_patch2_8"]}


def read(options):
    parser = make_parser()
    return to_recipe(Recipe, parser.read_words(list(options)))


def test_every_combination_of_varied_values_is_a_series():
    vary = {"model.network.pos_embed": ["learned", "none"], "model.network.pool": ["cls", "mean"]}
    series = make_series(NANO, {"optim.lr": 0.5}, vary, {}, read)
    assert list(series) == [f"pos_embed={p}, pool={q}" for p in ("learned", "none") for q in ("cls", "mean")]
    for choices in series.values():
        assert list(choices) == [""] and choices[""].optim.lr == 0.5
    assert series["pos_embed=none, pool=mean"][""].model.network["pos_embed"] == "none"
    two = make_series({**NANO, "again": NANO["ViT"]}, {}, {"model.network.pool": ["cls", "mean"]}, {}, read)
    assert list(two) == ["ViT (pool=cls)", "ViT (pool=mean)", "again (pool=cls)", "again (pool=mean)"]


def test_values_to_tune_are_choices_and_factors_are_of_the_recipes_own_value():
    networks = {"A": [*NANO["ViT"], "--optim.lr=0.01"], "B": [*NANO["ViT"], "--optim.lr=0.2"]}
    series = make_series(networks, {}, {}, {"optim.lr": ["x0.5", "x3"], "optim.weight_decay": ["0", "0.1"]}, read)
    assert {name: sorted({recipe.optim.lr for recipe in found.values()}) for name, found in series.items()} == {
        "A": [0.005, 0.03],
        "B": [0.1, 0.6],
    }
    assert list(series["A"]) == [f"lr={lr}, weight_decay={decay}" for lr in ("0.005", "0.03") for decay in ("0", "0.1")]


def test_a_factor_of_what_is_no_number_is_refused():
    with pytest.raises(UsageError, match=r"optim\.optimizer"):
        make_series(NANO, {}, {}, {"optim.optimizer": ["x2"]}, read)


def test_a_typo_names_the_nearest_option():
    with pytest.raises(UsageError, match=r"optim\.lrr.*optim\.lr"):
        make_series(NANO, {}, {"optim.lrr": ["1"]}, {}, read)


def test_a_factor_does_not_round_the_value_of_a_network():
    """An mlp_ratio of 4 may become 1.2."""
    networks = {"A": [*NANO["ViT"], "--model.network.mlp_ratio=4", "--model.network.depth=4"]}
    tune = {"model.network.mlp_ratio": ["x0.3"], "model.network.depth": ["x0.5"]}
    (recipe,) = make_series(networks, {}, {}, tune, read)["A"].values()
    assert recipe.model.network["mlp_ratio"] == 1.2
    assert recipe.model.network["depth"] == 2 and isinstance(recipe.model.network["depth"], int)


def test_a_factor_of_a_whole_number_gives_a_whole_number():
    """25.0 epochs were refused. No factor leaves less than one."""
    networks = {"A": [*NANO["ViT"], "--optim.epochs=5", "--optim.accumulate=1"]}
    tune = {"optim.epochs": ["x0.01", "x0.5", "x1"], "optim.accumulate": ["x1", "x2"]}
    choices = make_series(networks, {}, {}, tune, read)["A"]
    found = {(recipe.optim.epochs, recipe.optim.accumulate) for recipe in choices.values()}
    assert (
        found == {(epochs, parts) for epochs in (1, 3, 5) for parts in (1, 2)} and "epochs=3, accumulate=2" in choices
    )
