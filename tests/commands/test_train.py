"""`vit train`: what stands in a run folder, and what decides it."""

import json
import math
import shlex

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from tests.comparing import differences
from tests.runs import metrics, run_folder, trained, weights
from tests.tables import rows
from vit.checkpoints.load import load
from vit.checkpoints.result import RunResult
from vit.commands.cli.recipe_options import read_recipe
from vit.data.sources.sources import open_source
from vit.data.splits.split import with_all_splits
from vit.tasks.task import SINGLE_LABEL
from vit.training.callbacks.metrics_csv import columns_with
from vit.training.planning.plan import plan_of
from vit.training.recipes.values import dump, plain

FIGURES = {"curves", "confusion_matrix", "reliability", "recall_by_size", "augmented", "worst"}


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def contents(folder):
    return {name: (folder / name).read_bytes() for name in files(folder)}


def test_run_folder_holds_these_files_and_no_others(digits_run):
    expected = {
        "config.yaml", "classes.json", "splits.csv", "metrics.csv", "result.json", "test_classes.json", "report.html",
    }  # fmt: skip
    expected |= {f"checkpoints/{name}.ckpt" for name in ("best", "last")}
    expected |= {f"figures/{name}.png" for name in FIGURES}
    expected |= {f"predictions/{name}.csv" for name in ("validation", "test")}
    assert files(digits_run.path) == expected
    assert digits_run.path.parts[-3:-1] == ("digits", "vit_nano_patch2_8")


def test_result_tells_the_whole_run(digits_run):
    result = json.loads((digits_run.path / "result.json").read_text())
    assert set(result["metrics"]) == {"acc1", "acc5", "balanced_accuracy", "macro_f1", "nll", "ece"}
    for name, metric in (*result["metrics"].items(), *result["uncalibrated"].items()):
        assert set(metric) == ({"value", "chance"} if name == "ece" else {"value", "low", "high"})
        assert 0 <= metric.get("low", 0.0) <= metric["value"] <= metric.get("high", 1.0)
    assert result["metrics"]["acc1"]["value"] > 0.3  # two epochs are enough to be far from chance
    assert set(result["uncalibrated"]) == {"nll", "ece"} and 0.05 < result["temperature"] < 20
    assert load(digits_run.best)[1].temperature == result["temperature"]
    assert set(result["validation"]) == {
        "val/loss", "val/acc1", "val/acc5", "val/balanced_acc", "val/macro_f1", "val/ece",
    }  # fmt: skip
    assert result["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert result["images"] == {"train": 1259, "validation": 179, "test": 359}
    assert (result["seed"], result["epochs"], result["steps"], result["batch_size"]) == (3, 2, 18, 128)
    assert result["network"]["name"] == "vit_nano_patch2_8" and result["classes"] == 10
    assert result["parameters"] == sum(parameter.numel() for parameter in load(digits_run.best)[0].parameters())
    read = RunResult.read(digits_run.path / "result.json")
    assert read.spec == load(digits_run.best)[1].spec and read.image_size == 8
    assert result["seconds"] > 0 and result["images_per_second"] > 0 and result["flops"] > 0
    assert result["device"].startswith("cpu") and result["precision"] == "32-true"


def test_result_s_best_epoch_is_the_row_with_the_lowest_validation_loss(digits_run):
    result = json.loads((digits_run.path / "result.json").read_text())
    losses = [float(row["val/loss"]) for row in rows(digits_run.path / "metrics.csv") if row["val/loss"]]
    assert result["best_epoch"] == int(np.argmin(losses))
    assert result["validation"]["val/loss"] == pytest.approx(min(losses))


def test_figures_are_pictures(digits_run):
    for name in FIGURES:
        with Image.open(digits_run.path / "figures" / f"{name}.png") as picture:
            assert picture.format == "PNG" and min(picture.size) > 200
            assert len(set(picture.convert("L").resize((64, 64)).tobytes())) > 10  # not one color


def test_metrics_have_a_row_per_epoch(digits_run):
    table = rows(digits_run.path / "metrics.csv")
    assert tuple(table[0]) == columns_with(SINGLE_LABEL.validation_columns)
    epochs = [row for row in table if row["val/loss"]]
    assert [(row["epoch"], row["step"]) for row in epochs] == [("0", "9"), ("1", "18")]
    for row in epochs:
        assert all(math.isfinite(float(value)) for name, value in row.items() if name != "train/smoothed_loss")
    for row in table:
        assert all(math.isfinite(float(row[name])) for name in ("step", "lr", "seconds"))
        assert bool(row["train/loss"]) != bool(row["train/smoothed_loss"])  # one quantity a column
    assert float(epochs[1]["train/loss"]) < float(epochs[0]["train/loss"])


def test_splits_list_every_image_once(digits_run):
    table = rows(digits_run.path / "splits.csv")
    source = with_all_splits(open_source("digits"), 0.1, 0.2, 0)
    expected = {
        (path, source.class_names[label], split)
        for split, samples in source.splits.items()
        for path, label in zip(samples.paths, samples.labels, strict=True)
    }
    assert len(table) == 1797 and {(row["path"], row["label"], row["split"]) for row in table} == expected


def test_predictions_say_what_the_result_says(digits_run):
    result = json.loads((digits_run.path / "result.json").read_text())
    table = rows(digits_run.path / "predictions" / "test.csv")
    right = [row["label"] == row["predicted"] for row in table]
    assert len(table) == 359 and np.mean(right) == pytest.approx(result["metrics"]["acc1"]["value"])
    losses = [float(row["loss"]) for row in table]
    assert np.mean(losses) == pytest.approx(result["metrics"]["nll"]["value"], abs=1e-5)
    summary = json.loads((digits_run.path / "test_classes.json").read_text())
    assert np.trace(summary["confusion"]) == sum(right)


def test_the_last_line_is_the_next_command(vit, digits_run, colors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    last = digits_run.answer.out.strip().splitlines()[-1]
    assert last.startswith("Next: vit ")
    words = shlex.split(last.removeprefix("Next: vit ").replace("FOLDER_OF_IMAGES", str(colors / "red")))
    assert str(digits_run.path) in words
    assert vit(*words).code == 0
    assert digits_run.answer.err.count("epoch ") == 2  # progress is told, but not among the results


@pytest.mark.faults("K4")
def test_config_reads_back(vit, digits_run):
    recipe = read_recipe(digits_run.path / "config.yaml")
    assert dump(recipe) == (digits_run.path / "config.yaml").read_text()
    printed = yaml.safe_load(vit("train", "--config", digits_run.path / "config.yaml", "--print_config").out)
    for key, value in plain(recipe).items():
        assert printed[key] == value
    assert plain(plan_of(recipe).recipe) == plain(recipe)  # nothing was left open


@pytest.mark.faults("N5")
def test_same_seed_same_weights_and_another_seed_other_weights(vit, colors, tmp_path):
    options = ("--network", "vit_nano_patch2_8", "--model.network.depth", 1, "--epochs", 2, "--batch_size", 8)
    first = trained(tmp_path / "first", colors, *options, "--keep_state", "true", "--wandb", "off", "--seed", 3)
    config = ("--config", first / "config.yaml")
    again, other = (trained(tmp_path / f"{seed}", *config, "--seed", seed) for seed in (3, 4))
    assert not differences(weights(again), weights(first))
    assert not differences(weights(again, "best"), weights(first, "best"))
    assert differences(weights(other), weights(first))
    assert metrics(again) == metrics(first)


def test_an_option_beats_a_recipe_wherever_it_stands(vit):
    for line in (["--config", "digits", "--lr", "0.5"], ["--lr", "0.5", "--config", "digits"], ["digits", "--lr=0.5"]):
        printed = yaml.safe_load(vit("train", *line, "--print_config").out)
        assert printed["optim"]["lr"] == 0.5
        assert printed["model"]["network"]["name"] == "vit_nano_patch2_8"


@pytest.mark.faults("K6", "K9")
def test_a_folder_and_its_csv_train_and_a_second_run_leaves_the_first_alone(vit, colors, tmp_path):
    options = ("--epochs", 1, "--out", tmp_path / "runs", "--name", "a first/try", "--wandb", "off")
    vit("train", colors, *options).ok()
    first = run_folder(tmp_path / "runs")
    assert first.parent == tmp_path / "runs" / "colors" / "vit_nano_patch2_8" and first.name.endswith("-a-first-try")
    assert json.loads((first / "classes.json").read_text()) == {"classes": ["blue", "green", "red"]}
    table = rows(first / "splits.csv")
    assert {row["path"] for row in table} == {str(path.resolve()) for path in colors.rglob("*.png")}
    assert all(row["path"].split("/")[-2] == row["label"] for row in table)

    before = contents(first)
    vit("train", first / "splits.csv", *options).ok()
    assert contents(first) == before
    second = run_folder(tmp_path / "runs" / "splits")
    again = rows(second / "splits.csv")
    assert [row.pop("name") for row in again] == [row["path"] for row in table]  # a CSV names whole paths
    assert again == [{name: cell for name, cell in row.items() if name != "name"} for row in table]
    predicted = {row["path"] for row in rows(first / "predictions" / "test.csv")}
    assert predicted == {row["name"] for row in table if row["split"] == "test"}  # the tables join
    known = [json.loads((run / "result.json").read_text()) for run in (first, second)]
    assert known[0]["images"] == known[1]["images"] == {"train": 30, "validation": 4, "test": 8}
    assert known[0]["metrics"]["acc1"] == known[1]["metrics"]["acc1"]


@pytest.mark.parametrize(
    ("side", "network", "image_size"),
    [(8, "vit_nano_patch2_8", 8), (15, "vit_nano_patch2_8", 14), (30, "vit_mini_patch4_28", 28)],
)
def test_images_choose_their_network(draw_classes, tmp_path, side, network, image_size):
    from dataclasses import replace

    from vit.training.recipes.recipe import Recipe

    draw_classes(tmp_path, ("dark", "light"), 8, side)
    recipe = Recipe()
    plan = plan_of(replace(recipe, data=replace(recipe.data, source=str(tmp_path))))
    assert plan.recipe.model.network == {"name": network}
    assert plan.build_network().image_size == plan.preprocess.image_size == image_size


def test_weights_of_a_run_are_a_start(vit, digits_run, tmp_path):
    options = ("--optim.steps", 3, "--lr", 1e-9, "--optim.optimizer", "adamw", "--optim.warmup", 0, "--wandb", "off")
    vit("train", "digits", *options, "--model.init_from", digits_run.path, "--out", tmp_path).ok()
    started, _ = load(digits_run.best)
    ended, _ = load(run_folder(tmp_path) / "checkpoints" / "best.ckpt")
    for key, value in started.state_dict().items():
        torch.testing.assert_close(ended.state_dict()[key], value, atol=1e-5, rtol=0)
