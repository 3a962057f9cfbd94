"""Recipes and command lines: what is out of range, twice, or said again; paths from another folder."""

import json
import os
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vit.commands.cli.recipe_options import read_recipe
from vit.commands.training.train_options import read_words
from vit.errors import UsageError
from vit.training.recipes.recipe import Recipe
from vit.training.recipes.values import dump, plain

NOWHERE = "cifar100"  # reading it, without its folder, would be exit code 3
TINY = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 1, "--batch_size", 4, "--wandb", "off",
    "--data.num_workers", 0,
)  # fmt: skip


def leaves(tree, path=""):
    """(dotted key, default) of every value of a recipe."""
    for item in fields(tree):
        key, value = f"{path}{item.name}", getattr(tree, item.name)
        if is_dataclass(value):
            yield from leaves(value, f"{key}.")
        else:
            yield key, value


WRONG = {  # a range in words -> values outside it
    "Share": ("-0.1", "1", "1.5", "nan", "inf"),
    "Area": ("0", "-0.5", "1.01", "nan", "inf"),
    "ClosedUnitInterval": ("-0.01", "1.01", "nan", "inf"),
    "Magnitude": ("-1", "31", "2.5"),
    "Positive": ("0", "-1", "nan", "inf", "-inf"),
    "NonNegative": ("-1e-9", "nan", "inf", "-inf"),
    "PositiveInt": ("0", "-3", "1.5", "many"),
    "NonNegativeInt": ("-1", "2.5"),
    "Seed": ("-1", "4294967296", "1.5"),
    "Literal": ("nothing", "-1"),
    "bool": ("maybe", "2"),
    "Weights": ("nothing", "2"),
}


KINDS = {
    "data.split_seed": "Seed", "data.subset_seed": "Seed", "seed": "Seed", "data.validation": "Share",
    "data.calibration": "Share", "data.test": "Share", "data.train_images": "PositiveInt",
    "data.num_workers": "NonNegativeInt",
    "data.download": "bool", "data.allow_empty": "bool", "data.cache": "Literal", "data.subset": "Literal",
    "model.preprocess.image_size": "PositiveInt", "model.preprocess.crop_fraction": "Area",
    "model.preprocess.interpolation": "Literal", "model.preprocess.resize_mode": "Literal", "augment.name": "Literal",
    "model.init_head": "Literal", "model.freeze": "Literal", "model.lora": "PositiveInt", "augment.crop": "Area",
    "augment.shift": "Share", "augment.rotate": "NonNegative", "augment.zoom": "Share",
    "augment.flip": "ClosedUnitInterval", "augment.randaugment": "NonNegativeInt", "augment.magnitude": "Magnitude",
    "augment.mixup": "NonNegative", "augment.cutmix": "NonNegative", "augment.erasing": "ClosedUnitInterval",
    "optim.optimizer": "Literal", "optim.lr": "Positive", "optim.lr_batch_size": "PositiveInt",
    "optim.epochs": "PositiveInt", "optim.steps": "PositiveInt",
    "optim.patience": "PositiveInt",
    "optim.batch_size": "PositiveInt", "optim.accumulate": "PositiveInt", "optim.warmup": "Share",
    "optim.min_lr_ratio": "ClosedUnitInterval", "optim.weight_decay": "NonNegative", "optim.momentum": "Share",
    "optim.label_smoothing": "Share", "optim.logit_adjustment": "NonNegative", "optim.best_metric": "Literal",
    "optim.multilabel_loss": "Literal", "optim.min_precision": "Share",
    "data.sampling": "Literal", "optim.class_weights": "Weights", "optim.clip_norm": "NonNegative",
    "optim.layer_decay": "Area",
    "optim.ema_decay": "Share", "optim.on_nan": "Literal", "trainer.devices": "PositiveInt",
    "trainer.num_nodes": "PositiveInt", "trainer.precision": "Literal", "trainer.compile": "bool",
    "trainer.grad_checkpointing": "bool", "wandb": "Literal",
    "distill.kind": "Literal", "distill.temperature": "Positive", "distill.weight": "Area",
    "tracker_media": "bool", "tracker_model": "bool", "trainer.keep_state": "bool", "data.bursts": "Literal",
    "model.preprocess.color_profiles": "Literal",
}  # fmt: skip
FREE = {  # any text, or with a range of their own that is tried below
    "data.source", "data.root", "data.image_column", "data.label_column", "data.groups", "data.fold", "model.network",
    "model.preprocess.mean", "model.preprocess.std", "model.preprocess.window",
    "model.preprocess.channels", "model.init_from", "distill.teacher",
    "distill.teacher_hash",
    "trainer.accelerator", "trainer.strategy", "trainer.checkpoint_every", "optim.time", "out", "name", "tracker",
    "mlflow.register", "optim.loss", "optim.metric", "augment.own",
}  # fmt: skip


@pytest.mark.faults("K2")
def test_every_value_of_a_recipe_has_its_range_tried():
    assert {key for key, _ in leaves(Recipe())} == KINDS.keys() | FREE and not KINDS.keys() & FREE


@pytest.mark.faults("K2")
def test_a_value_out_of_its_range_is_refused_by_its_key():
    tried = [(key, value) for key, kind in KINDS.items() for value in WRONG[kind]]
    for key, value in tried:
        with pytest.raises(UsageError) as caught:
            read_words([NOWHERE, f"--{key}", value])
        assert key in str(caught.value) and caught.value.code == 2 and caught.value.fix
        assert value.lstrip("-") in str(caught.value)
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert f"|{len(tried)} values of {len(KINDS)} keys|" in page


@pytest.mark.faults("K2")
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("optim.lr", "-1", [">0"]),
        ("optim.lr", "inf", ["inf"]),
        ("augment.magnitude", "31", ["<=30"]),
        ("seed", "4294967296", ["<4294967296"]),
        ("model.preprocess.mean", "[.nan, 0, 0]", ["nan"]),
        ("model.preprocess.std", "[0, 1, 1]", []),
        ("model.preprocess.std", "[1, 1]", []),
        ("model.network.drop_path_rate", "5", ["5"]),
        ("model.network.depth", "0", ["0"]),
        ("optim.class_weights", "{cat: 0}", ["is 0", ">0"]),
        ("optim.class_weights", "{cat: 2, dog: -1}", ["-1", ">0"]),
        ("optim.class_weights", "{cat: many}", ["many", "number"]),
        ("trainer.checkpoint_every", "soon", ["soon", "10min"]),
        ("optim.time", "soon", ["soon", "10min"]),
        ("model.preprocess.image_size", "225", ["225", "16"]),
    ],
)
def test_it_is_refused_before_data_are_read(vit, tmp_path, monkeypatch, key, value, words):
    monkeypatch.chdir(tmp_path)
    answer = vit("train", NOWHERE, "--network", "vit_tiny_patch16_224", f"--{key}", value, "--out", "runs")
    answer.failed(2, key.rpartition(".")[2], *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.faults("K3")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed: 1\nseed: 2\n", ["'seed' in line 1 and again in line 2"]),
        ("optim:\n  lr: 1\n  epochs: 2\n  lr: 2\n", ["'lr' in line 2 and again in line 4"]),
        ("optim: {lr: 1, lr: 2}\n", ["'lr' in line 1 and again in line 1"]),
        ("optim: {lr: 1, epochs: 2}\nseed: 0\noptim: {lr: 3}\n", ["'optim' in line 1 and again in line 3"]),
    ],
)
def test_a_key_that_stands_twice(vit, tmp_path, text, words):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(text)
    vit("train", "--config", recipe, "--out", tmp_path).failed(2, "recipe.yaml", *words)
    assert os.listdir(tmp_path) == ["recipe.yaml"]


@pytest.mark.faults("K3")
def test_keys_of_an_anchor_stand_once(vit, tmp_path):
    (tmp_path / "recipe.yaml").write_text("model:\n  network: &one {name: auto}\naugment: {name: none}\nseed: 3\n")
    assert "seed: 3" in vit("train", "--config", tmp_path / "recipe.yaml", "--print_config").out


numbers = st.floats(1e-30, 1e30)
shares = st.floats(0, 1, exclude_max=True)
names = st.text("abcxyz0189 -_./é日", min_size=1, max_size=20).map(str.strip).filter(bool)
words = st.sampled_from(["yes", "no", "on", "1e-3", "+1e3", "0x10", "010", "1_000", "2026-01-01", "1:30", ".5", "-1"])


@pytest.mark.faults("K4")
@settings(max_examples=25)
@given(numbers, shares, names | words, st.integers(0, 2**32 - 1), st.booleans(), st.none() | numbers, words | names)
def test_what_is_written_reads_back_as_the_same_recipe(
    tmp_path_factory, lr, share, name, seed, download, rotate, source
):
    recipe = Recipe(seed=seed, name=name)
    recipe.data.source, recipe.data.validation, recipe.data.download = source, share, download
    recipe.optim.lr, recipe.augment.rotate = lr, rotate
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    path.write_text(dump(recipe), encoding="utf-8")
    assert plain(read_recipe(path)) == plain(recipe)


@pytest.mark.faults("K4")
@pytest.mark.parametrize(("text", "value"), [("1e-3", 1e-3), ("1.e-3", 1e-3), ("1E3", 1000.0), (".5", 0.5)])
def test_numbers_as_people_write_them(vit, tmp_path, text, value):
    (tmp_path / "recipe.yaml").write_text(f"optim: {{lr: {text}}}\n")
    assert read_recipe(tmp_path / "recipe.yaml").optim.lr == value
    printed = vit("train", "digits", "--lr", text, "--print_config")
    (tmp_path / "printed.yaml").write_text(printed.out)
    again = read_recipe(tmp_path / "printed.yaml")
    assert again.optim.lr == value
    assert plain(again) == plain(read_words(["digits", "--lr", text]).layers.recipe())
    assert yaml.safe_load(printed.out)["optim"]["lr"] == value


@pytest.mark.faults("K7", simulated="torch says that there is no GPU")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--trainer.accelerator", "gpu"), ["cuda", "cpu"]),
        (("--trainer.accelerator", "cqu"), ["'cqu'", "choose one of auto, cpu, cuda, mps"]),
        (("--devices", "0"), ["devices"]),
        (("--devices", "-1"), ["devices"]),
        (("--precision", "16-mixed"), ["16-mixed", "GPU"]),
    ],
)
def test_what_this_machine_has_not(vit, tmp_path, monkeypatch, options, words):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    vit("train", NOWHERE, *options, "--out", tmp_path / "runs").failed(2, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.faults("K8")
def test_a_run_made_with_relative_paths_is_found_from_anywhere(vit, draw_classes, tmp_path, monkeypatch):
    draw_classes(tmp_path / "my photos" / "set", ("dark", "light"), 6)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "my photos")
    monkeypatch.setenv("HOME", str(tmp_path))
    vit("train", "set", *TINY, "--out", "~/my runs").ok()
    (result,) = (tmp_path / "my runs").glob("**/result.json")
    run = result.parent
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert json.loads((run / "classes.json").read_text())["classes"] == ["dark", "light"]
    vit("evaluate", run).ok()
    start = f"~/{run.relative_to(tmp_path)}"
    above = f"../{run.relative_to(tmp_path)}"  # as it stood, `vit evaluate` elsewhere counted what this run has learned
    answer = vit("train", "~/my photos/set", *TINY, "--init_from", above, "--out", "~/second").ok()
    (second,) = (tmp_path / "second").glob("**/config.yaml")
    kept = yaml.safe_load(second.read_text())
    assert Path(kept["data"]["source"]).is_absolute() and f"weights of {run}" in answer.out
    assert kept["model"]["init_from"] == str(run)
    vit("predict", start, "~/my photos/set/dark", "--output", "~/rows.csv").ok()
    assert (tmp_path / "rows.csv").is_file() and not list((tmp_path / "elsewhere").iterdir())
    monkeypatch.chdir(tmp_path)
    shown = f"start      weights of {run.relative_to(tmp_path)}"  # a notebook showed the folder that it was made in
    vit("train", "my photos/set", *TINY, "--init_from", run, "--dry_run").ok(shown)
