"""Each cell of a study has its own teacher where the name has a pattern; the key follows the teacher's content."""

from dataclasses import replace

import pytest

from vit.errors import UsageError
from vit.study.cell_teachers import with_cell_teacher
from vit.study.grid import Inputs, key_of
from vit.training.recipes.recipe import DistillConfig, Recipe


def taught(name, **values):
    return replace(Recipe(), distill=DistillConfig(name, **values))


def key(recipe, **hashes):
    return key_of(recipe, Inputs("photos", {"train": "a"}, hashes))


def test_a_pattern_stands_for_the_teacher_of_the_cell(tmp_path):
    for seed in (0, 1):
        (tmp_path / "0000250" / f"seed{seed}-abc").mkdir(parents=True)
    recipe = taught(f"{tmp_path}/{{images:07d}}/seed{{seed}}-*")
    assert with_cell_teacher(recipe, 250, 1).distill.teacher == f"{tmp_path}/0000250/seed1-abc"
    for plain in (taught("runs/cnn"), Recipe()):
        assert with_cell_teacher(plain, 250, 1) == plain


@pytest.mark.faults("M7")
@pytest.mark.parametrize("name", ["{seed}/*", "x-{images}-*", "{other}", "{0}", "{seed"])
def test_a_pattern_that_stands_for_no_teacher_or_for_several_is_refused(tmp_path, name):
    for run in ("1/a", "1/b"):
        (tmp_path / run).mkdir(parents=True)
    with pytest.raises(UsageError, match=r"distill\.teacher"):
        with_cell_teacher(taught(f"{tmp_path}/{name}"), 250, 1)


def test_the_key_of_a_cell_follows_the_content_of_the_teacher():
    plain = key(Recipe())
    assert plain == key(replace(Recipe(), distill=DistillConfig(temperature=2.0)))  # no effect without a teacher
    one = key(taught("a.ckpt"), **{"a.ckpt": "1"})
    assert one == key(taught("moved.ckpt", teacher_hash="1"), **{"moved.ckpt": "1"}) != plain
    assert one != key(taught("a.ckpt"), **{"a.ckpt": "2"})
    assert one != key(taught("a.ckpt", temperature=2.0), **{"a.ckpt": "1"})
