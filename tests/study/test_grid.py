"""Sizes, budgets, keys and shards of a study."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.errors import UsageError
from vit.study.crossval import fold_cells
from vit.study.grid import Budget, Inputs, key_of, make_cells, parse_sizes, shard
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import Recipe

CONTENTS = Inputs("photos", {"train": "a", "validation": "b", "test": "c"}, {"weights.ckpt": "d", "moved.ckpt": "d"})


def cells(series=("ViT", "CNN"), sizes=(10, 20), seeds=(0, 1), choices=("",), budget="steps:5"):
    recipes = {name: {choice: Recipe(name=f"{name}{choice}") for choice in choices} for name in series}
    return make_cells(recipes, dict.fromkeys(sizes, seeds), Budget.parse(budget), CONTENTS)


def test_sizes_are_counts_shares_and_all():
    assert parse_sizes(["300", "10%", "all", 100, "100%", "0.5%"], 1000) == [5, 100, 300, 1000]


@pytest.mark.parametrize("size", ["0", "-5", "1001", "101%", "0%", "many", "1.5", ""])
def test_other_sizes_are_refused(size):
    with pytest.raises(UsageError, match="--sizes"):
        parse_sizes([size], 1000)


def test_a_budget_of_steps_is_the_same_at_every_size():
    assert {cell.recipe.optim.steps for cell in cells(budget="steps:7")} == {7}


def test_a_budget_of_epochs_leaves_the_steps_to_the_size():
    assert {(cell.recipe.optim.steps, cell.recipe.optim.epochs) for cell in cells(budget="epochs:3")} == {(None, 3)}


def test_of_two_budgets_the_longer_one_counts():
    lengths = {cell.num_images: cell.recipe.optim.steps for cell in cells(sizes=(80, 8000), budget="steps:50,epochs:3")}
    assert lengths == {80: 50, 8000: 3 * (8000 // 128)}


def test_a_length_can_grow_smoothly_with_the_images():
    """The longer of two lengths has a kink, and a forecast across it was wrong."""
    budget = Budget.parse("steps:300@150^0.25")
    assert str(budget) == "steps:300@150^0.25" and Budget.parse(str(budget.part(0.5))) == budget.part(0.5)
    lengths = {cell.num_images: cell.recipe.optim.steps for cell in cells(sizes=(150, 600, 2400), budget=str(budget))}
    assert lengths == {150: 300, 600: 424, 2400: 600}
    assert "300 optimizer steps at 150 images, growing with images^0.25" in budget.describe()


def test_each_seed_tests_a_fold_of_its_own_at_every_size():
    recipes = {"ViT": {"": Recipe()}, "CNN": {"": Recipe(name="CNN")}}
    made = make_cells(recipes, {10: (0, 1), 20: (0, 1, 4)}, Budget.parse("steps:5"), CONTENTS, folds=5)
    assert {(cell.seed, cell.recipe.data.fold) for cell in made} == {(0, "1/5"), (1, "2/5"), (4, "5/5")}


def test_the_work_of_a_cell_is_the_images_it_shows():
    shown = {cell.num_images: cell.images_shown for cell in cells(sizes=(80, 8000), budget="steps:50")}
    assert shown == {80: 50 * 10, 8000: 50 * 128}  # of batches of 10 and 128
    assert {cell.images_shown for cell in cells(sizes=(80,), budget="epochs:3")} == {240}


def test_a_batch_is_never_larger_than_the_images():
    recipe = Recipe()
    wide = replace(recipe, optim=replace(recipe.optim, batch_size=64, accumulate=4))
    assert Budget.parse("steps:5").apply(wide, 30).optim.batch_size == 28
    assert Budget.parse("steps:5").apply(wide, 3000).optim.batch_size == 64


@pytest.mark.parametrize("text", ["", "steps", "steps:0", "steps:-1", "epoch:3", "steps:1,steps:2", "steps:1;epochs:2"])
def test_other_budgets_are_refused(text):
    with pytest.raises(UsageError, match="--budget"):
        Budget.parse(text)


@given(st.sampled_from(["steps:5", "epochs:2", "steps:5,epochs:2", "recipe"]))
def test_a_budget_reads_what_it_writes(text):
    assert str(Budget.parse(text)) == text


def test_the_recipe_s_own_length_is_kept():
    recipe = Recipe(name="ViT")
    longer = replace(recipe, optim=replace(recipe.optim, epochs=7, batch_size=8))
    own = Budget.parse("recipe")
    assert own.apply(longer, 100) == longer
    assert own.apply(longer, 5).optim.batch_size == 5 and own.apply(longer, 5).optim.epochs == 7
    assert "own recipe" in own.describe()


def test_a_budget_says_the_steps_that_are_trained():
    """A study of 11 steps said 11, and its networks trained for 12: 6 rounds of 2."""
    assert Budget.parse("steps:11").describe() == "12 optimizer steps at every size"
    assert Budget.parse("steps:2003,epochs:3").describe().startswith("2,004 optimizer steps or 3 epochs")
    assert Budget.parse("steps:1,epochs:1").describe().startswith("1 optimizer step or 1 epoch,")
    assert Budget.parse("epochs:1").describe().startswith("1 epoch at every size")


def test_networks_share_seeds_and_subsets():
    for cell in cells():
        assert cell.recipe.seed == cell.recipe.data.subset_seed == cell.seed
        assert cell.recipe.data.train_images == cell.num_images


def test_cells_of_one_fold_are_told_apart():
    recipe = replace(Recipe(), data=replace(DataConfig(), fold="1/3"))
    of_fold = make_cells({"ViT": {"": recipe}, "CNN": {"": recipe}}, {10: (0, 1)}, Budget.parse("steps:5"), CONTENTS)
    assert len({cell.describe() for cell in of_fold}) == 4 and not any("fold" in cell.describe() for cell in of_fold)
    (first, _) = fold_cells(Recipe(), "ViT", [CONTENTS, CONTENTS], [10, 10])
    assert first.describe() == "fold 1/2"


def test_every_cell_has_a_folder_of_its_own_that_follows_from_what_decides_it():
    folders = [cell.folder for cell in cells(choices=("lr=1", "lr=2"))]
    assert len(set(folders)) == len(folders) == 16
    assert folders == [cell.folder for cell in cells(choices=("lr=1", "lr=2"))]
    assert {cell.folder for cell in cells(seeds=(0, 1))} < {cell.folder for cell in cells(seeds=(0, 1, 2))}


def test_folders_of_two_series_differ_where_a_file_system_ignores_the_case_of_letters():
    recipes = {"ViT": {"": Recipe()}, "vit": {"": Recipe(seed=1, data=DataConfig(split_seed=1))}}
    made = make_cells(recipes, {10: (0, 1), 20: (0, 1)}, Budget.parse("steps:5"), CONTENTS)
    assert len({str(cell.folder).casefold() for cell in made}) == len(made) == 8


def test_the_key_changes_with_all_that_decides_and_with_nothing_else():
    recipe = Recipe()
    key = key_of(recipe, CONTENTS)
    for same in (
        replace(recipe, name="x", out="y", wandb="off"),
        replace(recipe, trainer=replace(recipe.trainer, devices=1, num_nodes=3)),
        replace(recipe, data=replace(recipe.data, source="elsewhere", root="r", num_workers=3, cache="none")),
    ):
        assert key_of(same, CONTENTS) == key
    short, long = (replace(recipe, optim=replace(recipe.optim, epochs=epochs)) for epochs in (16, 24))
    assert key_of(Budget.parse("steps:5").apply(short, 50), CONTENTS) == key_of(
        Budget.parse("steps:5").apply(long, 50), CONTENTS
    )
    others = [
        long,
        replace(recipe, seed=1),
        replace(recipe, optim=replace(recipe.optim, lr=0.5)),
        replace(recipe, trainer=replace(recipe.trainer, compile=True)),
        replace(recipe, data=replace(recipe.data, train_images=5)),
        replace(recipe, data=replace(recipe.data, subset="natural")),
        replace(recipe, model=replace(recipe.model, network={"name": "auto", "depth": 3})),
        replace(recipe, model=replace(recipe.model, init_from="weights.ckpt")),
    ]
    keys = {key, *(key_of(other, CONTENTS) for other in others)}
    changed = [replace(CONTENTS, data="digits"), replace(CONTENTS, image_hashes={**CONTENTS.image_hashes, "test": "d"})]
    keys |= {key_of(recipe, contents) for contents in changed}
    assert len(keys) == 1 + len(others) + len(changed)


def test_weights_are_known_by_their_content():
    recipe = Recipe()
    here, moved = (
        replace(recipe, model=replace(recipe.model, init_from=name)) for name in ("weights.ckpt", "moved.ckpt")
    )
    assert key_of(here, CONTENTS) == key_of(moved, CONTENTS)
    replaced = replace(CONTENTS, weight_hashes={"weights.ckpt": "e"})
    assert key_of(here, CONTENTS) != key_of(here, replaced)


@given(st.integers(1, 9), st.booleans())
def test_shards_divide_the_cells(parts, tuned):
    whole = cells(choices=("lr=1", "lr=2") if tuned else ("",))
    shares = [shard(whole, part, parts) for part in range(1, parts + 1)]
    assert sorted(cell.folder for share in shares for cell in share) == sorted(cell.folder for cell in whole)
    if tuned:  # what is chosen among is on one machine
        assert all(
            not ({a.group for a in one} & {b.group for b in two}) for one in shares for two in shares if one != two
        )
