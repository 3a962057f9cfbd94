"""`import vit`: the commands as functions with results."""

import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import vit
from vit.__main__ import COMMANDS
from vit.commands.studies.study_options import read_values as read_study_values
from vit.commands.training.train_options import read_values
from vit.errors import CheckpointError, UsageError
from vit.inference.answers.answers import answer_rule

pytestmark = pytest.mark.usefixtures("empty_figures")


def test_train_then_load(tmp_path, colors, capsys):
    options = {"data.subset_seed": None, "data.allow_empty": True, "model.preprocess.std": (0.5, 0.25, 0.5)}
    run = vit.train(colors, image_size=8, epochs=1, wandb="off", out=tmp_path, **options)
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert run.is_relative_to(tmp_path) and (run / "result.json").is_file()
    assert config["optim"]["epochs"] == 1 and config["data"]["allow_empty"] is True
    assert config["data"]["subset_seed"] is None and config["model"]["preprocess"]["std"] == [0.5, 0.25, 0.5]
    assert f"Training {config['model']['network']['name']}" in capsys.readouterr().out
    labels = {prediction.label for prediction in vit.load(run).predict(colors / "red")}
    assert labels <= {"blue", "green", "red"}


def test_no_recipe_file_is_none():
    assert read_values("photos", None, None, {}) == read_values("photos", (), None, {})


def test_values_of_options_are_no_texts(tmp_path, colors):
    """A name that YAML would read as a number stays a name, and weights may be a path."""
    options = {"model.network.pos_embed": "none", "name": "2026"}
    run = vit.train(colors, image_size=8, epochs=1, wandb="off", out=tmp_path / "1e3", **options)
    assert run.is_relative_to(tmp_path / "1e3") and run.name.endswith("-2026")
    tuned = vit.train(colors, config="finetune", init_from=run, epochs=1, wandb="off", out=tmp_path / "2")
    config = yaml.safe_load((tuned / "config.yaml").read_text())
    assert config["model"]["network"]["pos_embed"] == "none" and config["model"]["init_from"] == str(run)
    assert config["optim"]["layer_decay"] == "auto" and config["optim"]["epochs"] == 1


def test_arrays_ranges_and_paths_are_plain_values(tmp_path):
    """They were refused with the advice to give a text."""
    values = {"sizes": np.array([10, 20]), "seeds": range(2), "init_from": [tmp_path], "pairs": np.int64(1)}
    options = read_study_values("digits", None, {**values, "set": {"model.preprocess.mean": torch.zeros(3)}})
    assert (options.sizes, options.seeds, options.init_from) == ([10, 20], [0, 1], [str(tmp_path)])
    assert options.set == {"model.preprocess.mean": [0.0, 0.0, 0.0]}
    assert read_values("digits", None, None, {"epochs": np.array(3)}).layers.options["optim.epochs"] == 3


def test_study_returns_its_folder_which_report_takes(tmp_path, colors):
    folder = vit.study(
        colors,
        networks=["vit_nano_patch2_8"],
        sizes=[8, 16],
        seeds=1,
        budget="steps:2",
        vary={"model.network.pool": ["cls", "mean"]},
        set={"image_size": 8, "augment": "none"},
        jobs=1,
        wandb="off",
        out=tmp_path,
    )
    assert folder == tmp_path / "colors" and len(list(folder.glob("cells/**/result.json"))) == 4
    assert vit.report(folder) == folder / "report.html"
    with pytest.raises(UsageError, match=r"--sixes.*'--sizes'"):
        vit.study(colors, sixes=3, out=tmp_path)


def test_train_refuses_as_the_command_does(tmp_path):
    with pytest.raises(UsageError, match=r"--epocs.*'--epochs'"):
        vit.train("digits", epocs=3, out=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.faults("K28")
@pytest.mark.parametrize("option", ["devices", "num_nodes"])
@pytest.mark.parametrize("command", [vit.train, vit.pretrain])
def test_python_refuses_several_processes_before_a_run_folder_is_made(tmp_path, colors, command, option):
    """Lightning ran every line of the user's program again in the second process, and killed a notebook's kernel."""
    with pytest.raises(UsageError, match="in Python, which trains in one process"):
        command(colors, network="vit_nano_patch2_8", out=tmp_path, wandb="off", **{option: 2})
    assert not list(tmp_path.iterdir())


def test_python_trains_on_one_of_several_devices(tmp_path, colors, monkeypatch, capsys):
    def two(trainer):
        return torch.device("cpu"), 2 if trainer.devices == "auto" else trainer.devices

    monkeypatch.setattr("vit.training.distributed.devices.device_and_world_size", two)
    run = vit.train(colors, image_size=8, epochs=1, wandb="off", out=tmp_path)
    assert "1 of 2 devices trains" in capsys.readouterr().err
    assert yaml.safe_load((run / "config.yaml").read_text())["trainer"]["devices"] == 1


@pytest.mark.parametrize("name", vit.__all__)
def test_every_name_is_a_function_and_documented(name):
    function = getattr(vit, name)
    assert callable(function) and not isinstance(function, ModuleType)
    assert inspect.getdoc(function) and inspect.signature(function).parameters


@pytest.mark.parametrize("name", ["report", "study", "export", "explain"])
def test_a_function_stays_where_a_room_of_its_name_is_imported(name):
    if name not in vit.__all__:
        pytest.skip("it is a command alone")
    room = import_module(f"vit.{name}")
    assert sys.modules[f"vit.{name}"] is room and isinstance(room, ModuleType)
    assert not isinstance(getattr(vit, name), ModuleType)


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="module 'vit' has no attribute 'predictt'"):
        vit.predictt  # noqa: B018
    alone = set(COMMANDS) - set(vit.__all__)  # the docstring of the package names them
    assert all(f"`{name}`" in (vit.__doc__ or "") for name in alone)


def test_commands_are_functions_with_results(here, digits_run, mixed):
    predicted = vit.predict(digits_run.path, mixed, top_k=2, gallery=True)
    assert predicted.output == Path("predictions.csv") and predicted.page == Path("predictions.html")
    assert predicted.num_files == 20 and predicted.num_unlabeled == 6 and sum(predicted.label_counts.values()) == 14
    evaluated = vit.evaluate(digits_run.path, output=here / "evaluated")
    known = json.loads((digits_run.path / "result.json").read_text())["metrics"]["acc1"]
    accuracy = evaluated.measurement.metrics.acc1
    assert {"value": accuracy.value, "low": accuracy.low, "high": accuracy.high} == known
    assert evaluated.folder == here / "evaluated" and evaluated.unreadable == evaluated.seen == {}
    picture = mixed / "a b.png"
    explained = vit.explain(digits_run.best, [picture], method="rollout", faithfulness=False)
    assert explained.num_images == 1 and explained.page.is_file() and explained.scores == []
    inspected = vit.inspect(digits_run.best, picture, limit=1)
    assert inspected.page.is_file() and inspected.inspection.reach.num_images == 1
    exported = vit.export(digits_run.path, format="safetensors", output=here / "weights.safetensors")
    assert exported == here / "weights.safetensors" and exported.is_file()
    converted = vit.convert(exported, output=here / "converted.ckpt")
    assert converted.is_file() and vit.load(converted).class_names == vit.load(digits_run.best).class_names


def test_wrong_values_are_refused_as_by_the_command(here):
    for call, words in (
        (lambda: vit.predict("run", "images", top_k=0), "top_k is 0; give a number >0"),
        (lambda: vit.export("run", format="onxx"), "format is onxx; did you mean 'onnx'"),
        (lambda: vit.evaluate("run", split="tset"), "split is tset; did you mean 'test'"),
        (lambda: vit.evaluate("run", splt="test"), "vit evaluate has no option splt; did you mean 'split'"),
        (lambda: vit.compare("run", "run-2"), r"vit\.compare: too many positional arguments; give runs, and options"),
        (lambda: vit.predict("run", Image.new("L", (8, 8))), r"images is an array .*; vit\.load\(RUN\)\.predict takes"),
        (lambda: vit.study("digits", sizes={10}), r"vit\.study: sizes is \{10\}; give a list"),
        (lambda: vit.train("digits", "resnet18"), r"vit\.train: too many positional arguments; give data, and options"),
        (lambda: vit.train("digits", config=5), r"vit\.train: config is 5; give a text"),
        (lambda: vit.crossval("digits", folds=2.5), r"vit\.crossval: folds is 2\.5; give a whole number"),
        (lambda: vit.compare("run"), "one run cannot be compared"),
        (lambda: vit.load(5), "path is 5; give a text"),
        (lambda: vit.create_network("vit_nano_patch2_8", -3), "num_classes is -3; give a number >0"),
        (lambda: vit.create_network("vit_nano_patch2_8", 3, in_chans=0), "in_chans is 0; give a number >=1"),
        (lambda: answer_rule(None, ("a", "b"), target_accuracy=99), "target_accuracy is 99; give a number >0 and <1"),
    ):
        with pytest.raises(UsageError, match=words):
            call()
    with pytest.raises(CheckpointError, match="there is no checkpoint nothing"):
        vit.predict("nothing", "images")
    with pytest.raises(UsageError, match="vit predict has no option topk; did you mean 'top_k'"):
        vit.predict("run", "images", topk=3)
    assert not list(here.iterdir())


def test_a_notebook_sees_what_there_is(tmp_path, colors, capfd):
    assert set(vit.__all__) <= set(dir(vit)) and "import_module" not in dir(vit)
    options = {"network": "vit_nano_patch2_8", "model.network.depth": 1, "epochs": 1, "wandb": "off", "quiet": True}
    options["data.num_workers"] = 0
    run = vit.train(colors, out=tmp_path, **options)
    found = vit.evaluate(run, quiet=True)
    assert run.result.accuracy == found.measurement.metrics.acc1.value and (run / "result.json").is_file()
    assert capfd.readouterr().out == ""
    predictor = vit.load(run)
    assert repr(predictor).startswith("<Predictor of 3 classes (blue, green, red), 8 x 8 pixels, cpu, ")
    assert predictor.network.num_classes == 3 and vit.create_network("resnet10_small", 2, in_chans=4).in_chans == 4
    assert inspect.signature(vit.predict).parameters["quiet"].default is False
    with pytest.raises(UsageError, match="has not finished"):
        type(run)(tmp_path / "nothing").result  # noqa: B018


def test_type_checkers_read_our_types():
    """PEP 561: without this file mypy takes everything of an installed package as Any."""
    assert Path(vit.__file__).with_name("py.typed").is_file()
