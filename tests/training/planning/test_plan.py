"""From a recipe to a plan: what is filled in, and what contradicts itself."""

from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest

from vit.commands.training.train_plan import length_facts
from vit.errors import DataError, UsageError
from vit.training.planning.plan import plan_of
from vit.training.planning.schedule import fine_tuning_steps
from vit.training.recipes.image_options import DataConfig, PreprocessConfig
from vit.training.recipes.recipe import OptimConfig, Recipe

NANO = {"name": "vit_nano_patch2_8"}


def recipe(**sections):
    made = Recipe(data=DataConfig("digits"), optim=OptimConfig(epochs=3))
    return replace(made, **{name: replace(getattr(made, name), **values) for name, values in sections.items()})


def test_everything_open_is_decided():
    plan = plan_of(recipe())
    resolved = plan.recipe
    assert resolved.model.network == NANO and resolved.model.preprocess.image_size == 8
    assert [name for name, value in asdict(resolved.augment).items() if value is None] == ["own"]
    assert resolved.optim.batch_size == plan.batch_size == 128
    assert resolved.trainer.precision == plan.precision in {"32-true", "bf16-mixed"}
    assert plan.total_steps == 3 * plan.steps_per_epoch == 3 * (1259 // 128)
    assert plan_of(resolved).recipe == resolved


def test_parameters_and_flops_are_those_of_the_network():
    plan = plan_of(recipe())
    assert plan.cost.parameters == sum(parameter.numel() for parameter in plan.build_network().parameters())
    every = 2 * 17 * 4 * (4 * 64 * 64 + 2 * 64 * 128)  # two per token and weight of a matrix; attention adds a little
    assert 0.75 * every < plan.cost.flops < 1.1 * every  # the last block is computed for the class token alone


def test_digits_are_not_mirrored_and_photographs_are(colors):
    assert plan_of(recipe()).augment.flip == 0
    assert plan_of(recipe(data={"source": str(colors)})).augment.flip == 0.5


def test_an_option_changes_a_preset_in_one_place():
    light = plan_of(recipe()).augment
    assert plan_of(recipe(augment={"shift": 0.3})).augment == replace(light, shift=0.3)
    assert plan_of(recipe(augment={"shift": 0.0})).augment == replace(light, shift=0.0)
    strong = plan_of(recipe(augment={"name": "strong", "mixup": 0.0})).augment
    assert strong.mixup == 0 and strong.cutmix > 0 and strong.randaugment > 0


@pytest.mark.parametrize(
    ("batch_size", "accumulate", "steps"),
    [(100, 1, 12), (100, 2, 12), (100, 4, 12), (1259, 1, 1), (1258, 2, 1)],
)
def test_an_epoch_has_the_same_steps_in_any_number_of_parts(batch_size, accumulate, steps):
    plan = plan_of(recipe(optim={"batch_size": batch_size, "accumulate": accumulate}))
    assert plan.steps_per_epoch == steps
    assert len(plan.data_module().train_dataloader()) == steps * accumulate


def test_a_small_set_gets_small_batches(colors):
    assert plan_of(recipe(data={"source": str(colors)})).batch_size == 3
    assert plan_of(recipe(data={"source": str(colors)}, optim={"accumulate": 2})).batch_size == 4
    strong = plan_of(recipe(data={"source": str(colors)}, augment={"name": "strong"}))
    assert strong.batch_size == 2


def test_no_automatic_batch_is_a_single_image(draw_classes, tmp_path):
    assert plan_of(recipe(data={"source": str(draw_classes(tmp_path, ("a", "b"), 5))})).batch_size == 2


def test_a_recipe_knows_whether_its_augmentation_mixes():
    for name in ("none", "light", "standard", "strong"):
        for given in ({}, {"mixup": 0.0}, {"cutmix": 0.0}, {"mixup": 0.0, "cutmix": 0.0}, {"mixup": 0.2}):
            made = recipe(augment={"name": name, **given})
            assert made.augment.mixes == plan_of(made).augment.mixes


def test_torchrun_decides_the_number_of_processes(monkeypatch):
    for name, value in {
        "RANK": "0",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "3",
        "TORCHELASTIC_RUN_ID": "1",
    }.items():
        monkeypatch.setenv(name, value)
    plan = plan_of(recipe())
    assert plan.world_size == 3 and plan.batch_size == 126
    with pytest.raises(UsageError, match="multiple of 3"):
        plan_of(recipe(optim={"batch_size": 64}))
    with pytest.raises(UsageError, match="torchrun started 3"):
        plan_of(recipe(trainer={"devices": 2}))
    assert plan_of(recipe(trainer={"devices": 3})).world_size == 3
    with pytest.raises(UsageError, match=r"pairs.*multiple of 6"):
        plan_of(recipe(augment={"cutmix": 1.0}, optim={"batch_size": 9}))


@pytest.mark.parametrize(
    ("sections", "kind", "words"),
    [
        ({"model": {"network": {"name": "vit_nano_patch2_9"}}}, UsageError, "vit_nano_patch2_8"),
        ({"model": {"network": {**NANO, "depth": "deep"}}}, UsageError, "depth"),
        ({"model": {"network": {**NANO, "num_classes": 7}}}, UsageError, "num_classes"),
        ({"model": {"network": {**NANO, "class_path": "os.system"}}}, UsageError, "class_path"),
        ({"model": {"network": NANO, "preprocess": PreprocessConfig(image_size=9)}}, UsageError, "image_size 9"),
        ({"trainer": {"accelerator": "gpus"}}, UsageError, "gpus"),
        ({"trainer": {"precision": "16-mixed", "accelerator": "cpu"}}, UsageError, "16-mixed"),
        ({"optim": {"batch_size": 7, "accumulate": 2}}, UsageError, "multiple of 2"),
        ({"optim": {"batch_size": 1260}}, DataError, "1,259 training images"),
        ({"optim": {"batch_size": 7}, "augment": {"name": "strong"}}, UsageError, "multiple of 2"),
        ({"optim": {"batch_size": 6, "accumulate": 2}, "augment": {"mixup": 0.2}}, UsageError, "multiple of 4"),
        ({"optim": {"batch_size": 1}, "model": {"network": {"name": "resnet10_small"}}}, UsageError, "batch norm"),
        ({"data": {"validation": 0.0}}, UsageError, "validation is 0"),
        ({"data": {"validation": 0.4, "test": 0.6}}, UsageError, "no training images"),
        ({"data": {"source": "no/such/folder"}}, DataError, "no/such/folder"),
        ({"data": {"source": "digitz"}}, UsageError, "'digits'"),
    ],
)
def test_what_cannot_be(sections, kind, words):
    with pytest.raises(kind, match=words):
        plan_of(recipe(**sections))


def test_a_wrong_network_shows_before_data_are_read(monkeypatch):
    monkeypatch.setattr("vit.training.planning.plan.opened_data", lambda *_: pytest.fail("read the data"))
    with pytest.raises(UsageError, match="depht"):
        plan_of(recipe(model={"network": {**NANO, "depht": 3}}))


def test_shares_do_not_matter_where_data_have_their_splits(draw_classes, tmp_path):
    for split in ("train", "val", "test"):
        draw_classes(tmp_path / split, ("a", "b"), 6)
    plan = plan_of(recipe(data={"source": str(tmp_path), "validation": 0.0, "test": 0.9}))
    assert {split: len(samples) for split, samples in plan.source.splits.items()} == {
        "train": 12, "validation": 12, "test": 12
    }  # fmt: skip


def test_a_subset_of_unlike_classes_has_their_shares(draw_classes, tmp_path):
    draw_classes(tmp_path / "train", ("many",), 24)
    draw_classes(tmp_path / "train", ("few",), 8)
    draw_classes(tmp_path / "val", ("many", "few"), 2)
    given = recipe(data={"source": str(tmp_path), "train_images": 12})
    for wanted, kept, images in (("auto", "natural", [3, 9]), ("balanced", "balanced", [6, 6])):
        plan = plan_of(replace(given, data=replace(given.data, subset=wanted)))
        assert plan.recipe.data.subset == kept
        assert np.bincount(plan.source.splits["train"].labels).tolist() == images
        assert plan_of(plan.recipe).recipe == plan.recipe


@pytest.mark.parametrize(
    ("steps", "rounds", "total"), [(2000, 10, 2000), (12, 6, 12), (7, 7, 7), (3, 3, 3), (1, 1, 1), (2003, 6, 2004)]
)
def test_a_length_in_steps_is_kept_or_overshot_as_little_as_ten_validations_allow(steps, rounds, total):
    plan = plan_of(recipe(optim={"steps": steps}))
    assert (plan.rounds, plan.total_steps) == (rounds, total)


def test_automatic_epochs_are_a_number_of_steps_by_the_number_of_images():
    plan = plan_of(recipe(optim={"epochs": "auto"}, data={"train_images": 160}))
    assert plan.total_steps == plan.recipe.optim.steps == plan.rounds * plan.steps_per_round
    assert 0 <= plan.total_steps - fine_tuning_steps(160, plan.batch_size) < plan.rounds
    assert plan_of(plan.recipe).recipe == plan.recipe
    assert plan.of_batch(32).total_steps == plan.total_steps  # a run's steps are decided
    timed = plan_of(recipe(optim={"epochs": "auto", "time": "1h"}))
    assert timed.recipe.optim.is_timed and timed.recipe.optim.steps is None


def test_a_fine_tuning_grows_smoothly_with_its_images_and_never_has_fewer_than_8_epochs():
    lengths = [fine_tuning_steps(images) for images in range(10, 100_000, 10)]
    assert all(0 <= later - length <= max(8, 0.2 * length) for length, later in pairwise(lengths))
    assert fine_tuning_steps(1_000_000) == 8 * 15_625 and fine_tuning_steps(1_000_000, 1000) == 8000
    assert 200 <= fine_tuning_steps(50) < fine_tuning_steps(200) < fine_tuning_steps(1000)


@pytest.mark.parametrize(
    ("optim", "shown"),
    [
        ({"batch_size": 256, "lr_batch_size": 64}, "learning rate 0.002 (0.001 for 64 images, square root rule), "),
        ({"batch_size": 256, "lr_batch_size": 64, "optimizer": "sgd"}, "0.004 (0.001 for 64 images, linear rule), "),
        ({"batch_size": 256}, "learning rate 0.001, "),
    ],
)
def test_the_rate_of_another_batch_size_is_shown(optim, shown):
    (facts,) = (value for name, value in length_facts(plan_of(recipe(optim=optim))) if name == "optimizer")
    assert shown in facts
