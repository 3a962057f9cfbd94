"""Each cell of a study has its own weights and teacher where names have a pattern; its key follows their content."""

import re
from dataclasses import replace

import pytest

from vit.errors import UsageError
from vit.study.grid import Inputs, key_of
from vit.study.spec import with_cell_files, without_cell_files
from vit.training.recipes.recipe import DistillConfig, ModelConfig, Recipe


def taught(name, **values):
    return replace(Recipe(), distill=DistillConfig(name, **values))


def starting(name):
    return replace(Recipe(), model=ModelConfig(init_from=name))


def key(recipe, **hashes):
    return key_of(recipe, Inputs("photos", {"train": "a"}, hashes))


def test_a_pattern_stands_for_the_teacher_of_the_cell(tmp_path):
    for seed in (0, 1):
        (tmp_path / "0000250" / f"seed{seed}-abc").mkdir(parents=True)
    recipe = taught(f"{tmp_path}/{{images:07d}}/seed{{seed}}-*")
    assert with_cell_files(recipe, 250, 1).distill.teacher == f"{tmp_path}/0000250/seed1-abc"
    for plain in (taught("runs/cnn"), Recipe()):
        assert with_cell_files(plain, 250, 1) == plain


def test_a_pattern_stands_for_the_weights_of_the_cell(tmp_path):
    recipe = starting(f"{tmp_path}/mae_seed{{seed}}.safetensors")
    assert with_cell_files(recipe, 250, 3).model.init_from == f"{tmp_path}/mae_seed3.safetensors"
    assert without_cell_files(recipe) == Recipe()
    for plain in (starting("timm:vit_tiny_patch16_224"), Recipe()):
        assert with_cell_files(plain, 250, 1) == plain == without_cell_files(plain)


def test_an_existing_file_is_no_pattern(tmp_path):
    (tmp_path / "run[1]").mkdir()
    recipe = starting(f"{tmp_path}/run[1]")
    assert with_cell_files(recipe, 250, 0) == recipe == without_cell_files(recipe)


def test_weights_with_a_pattern_need_a_named_network():
    from vit.commands.studies.study_options import read_words
    from vit.commands.studies.study_series import series_of

    words = ["digits", "--networks", "auto", "--set", "model.init_from=mae_seed{seed}", "--wandb", "off"]
    with pytest.raises(UsageError, match="name the network"):
        series_of(read_words(words))


@pytest.mark.faults("M7")
@pytest.mark.parametrize("name", ["{seed}/*", "x-{images}-*", "{other}", "{0}", "{seed"])
@pytest.mark.parametrize(("recipe_of", "option"), [(starting, "model.init_from"), (taught, "distill.teacher")])
def test_a_pattern_that_stands_for_no_file_or_for_several_is_refused(tmp_path, recipe_of, option, name):
    for run in ("1/a", "1/b"):
        (tmp_path / run).mkdir(parents=True)
    with pytest.raises(UsageError, match=re.escape(option)):
        with_cell_files(recipe_of(f"{tmp_path}/{name}"), 250, 1)


def test_the_key_of_a_cell_follows_the_content_of_the_teacher():
    plain = key(Recipe())
    assert plain == key(replace(Recipe(), distill=DistillConfig(temperature=2.0)))  # no effect without a teacher
    one = key(taught("a.ckpt"), **{"a.ckpt": "1"})
    assert one == key(taught("moved.ckpt", teacher_hash="1"), **{"moved.ckpt": "1"}) != plain
    assert one != key(taught("a.ckpt"), **{"a.ckpt": "2"})
    assert one != key(taught("a.ckpt", temperature=2.0), **{"a.ckpt": "1"})
