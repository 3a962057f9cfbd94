"""A cell's process: what it sees of the machine."""

import os
import shutil
from dataclasses import replace
from multiprocessing import Pipe

import pytest
import torch

from vit.checkpoints.run import RunDirectory
from vit.errors import UsageError
from vit.study.running import cell
from vit.study.running.runner import MachineShare
from vit.training.recipes.image_options import AugmentConfig, DataConfig, PreprocessConfig
from vit.training.recipes.recipe import ModelConfig, OptimConfig, Recipe, TrainerConfig


@pytest.mark.parametrize(
    ("visible", "gpus", "seen"),
    [
        ("2,3", 2, ["2", "3", "2"]),
        ("GPU-8932f937, MIG-a1b2", 2, ["GPU-8932f937", "MIG-a1b2", "GPU-8932f937"]),
        (None, 2, ["0", "1", "0"]),
        ("2,3", 0, ["2,3"] * 3),
    ],
)
def test_a_cell_takes_one_of_the_gpus_that_its_study_may_use(tmp_path, monkeypatch, visible, gpus, seen):
    found = []
    for name in ("_end_with_parent", "_redirect_output"):  # this process is not that of a cell
        monkeypatch.setattr(cell, name, lambda *_: None)
    monkeypatch.setattr(cell, "_train", lambda *_: found.append(os.environ.get("CUDA_VISIBLE_DEVICES")))
    machine = MachineShare(jobs=3, threads=1, gpus=gpus)
    for slot in range(3):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        cell.run_cell(Recipe(), tmp_path, tmp_path, 1, machine.gpu(slot), "group", {})
    assert found == seen


@pytest.mark.parametrize("error", [UsageError("the network does not fit", "choose another"), RuntimeError("no kernel")])
def test_the_reason_why_a_step_cannot_be_timed_reaches_the_study(monkeypatch, error):
    for name in ("_end_with_parent", "_redirect_output"):  # this process is not that of a cell
        monkeypatch.setattr(cell, name, lambda *_: None)

    def fails(recipe):
        raise error

    monkeypatch.setattr(cell, "plan_of", fails)
    here, there = Pipe()
    cell.time_cell(Recipe(), 1, None, there)
    assert str(error) in here.recv()


@pytest.fixture
def cut_short(colors, tmp_path, monkeypatch):
    """The recipe of a cell that was killed after its second validation, and its run; later starts append to `resumed`.

    `train(RECIPE)` starts the cell again.
    """
    optim = OptimConfig(epochs=4, batch_size=8)
    recipe = Recipe(
        data=DataConfig(str(colors), num_workers=0),
        model=ModelConfig({"name": "vit_nano_patch2_8", "depth": 1}, PreprocessConfig(image_size=8)),
        augment=AugmentConfig("light"), optim=optim, trainer=TrainerConfig(checkpoint_every=None), wandb="off",
    )  # fmt: skip
    run, resumed, fit = RunDirectory(tmp_path / "cells" / "one"), [], cell.fit
    run.path.mkdir(parents=True)

    def train(recipe):
        cell._train(recipe, run, tmp_path / "features", "group", {})

    def noted(*args, resume, **more):
        resumed.append(resume)
        return fit(*args, resume=resume, **more)

    def power_cut(rows, row, step):
        if row["epoch"] == 1:
            raise RuntimeError("power cut")

    monkeypatch.setattr(cell, "fit", noted)
    with monkeypatch.context() as patch:
        patch.setattr(cell.TrackedRows, "row", power_cut)
        with pytest.raises(RuntimeError, match="power cut"):
            train(recipe)
    assert run.can_resume
    return recipe, run, resumed, train


@pytest.mark.faults("R19")
@pytest.mark.slow
def test_a_cell_goes_on_where_images_lie_elsewhere_and_nothing_learned_differs(cut_short, colors, tmp_path):
    """Another login at W&B was enough to delete its checkpoints, and it began again without a word."""
    recipe, run, resumed, train = cut_short
    moved = shutil.copytree(colors, tmp_path / "moved" / colors.name)
    data = replace(recipe.data, source=str(moved), cache="none", num_workers=1)
    train(replace(recipe, data=data, trainer=replace(recipe.trainer, checkpoint_every="1h"), out="elsewhere"))
    assert resumed == [False, True] and run.result_path.is_file()


@pytest.mark.faults("R19")
def test_a_cell_of_another_recipe_begins_again(cut_short):
    recipe, run, resumed, train = cut_short
    train(replace(recipe, optim=replace(recipe.optim, lr=2e-3)))
    assert resumed == [False, False] and run.result_path.is_file()


@pytest.mark.parametrize("accumulate", [1, 4])
def test_a_timed_step_has_all_its_images(monkeypatch, accumulate):
    """With `optim.accumulate` one of the parts was timed, and said to be a step."""
    for name in ("_end_with_parent", "_redirect_output", "forget_launcher"):  # this process is not that of a cell
        monkeypatch.setattr(cell, name, lambda *_: None)
    learned, loss, step, at_step = [], torch.nn.functional.cross_entropy, torch.optim.SGD.step, []
    monkeypatch.setattr(
        torch.nn.functional, "cross_entropy", lambda *given: learned.append(len(given[1])) or loss(*given)
    )
    monkeypatch.setattr(torch.optim.SGD, "step", lambda *given: at_step.append(sum(learned)) or step(*given))
    recipe = Recipe()
    recipe = replace(
        recipe,
        data=replace(recipe.data, source="digits", num_workers=0),
        model=replace(recipe.model, network={"name": "vit_nano_patch2_8", "depth": 1}),
        optim=replace(recipe.optim, batch_size=64, accumulate=accumulate),
        trainer=replace(recipe.trainer, accelerator="cpu"),
    )
    here, there = Pipe()
    cell.time_cell(recipe, 1, None, there)
    step_seconds, image_seconds = here.recv()
    assert at_step == [64, 128, 192, 256] and step_seconds > 0 < image_seconds
