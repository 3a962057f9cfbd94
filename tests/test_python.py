"""`import vit`: the functions that a notebook needs."""

import pytest
import yaml

import vit
from vit.errors import UsageError


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


def test_values_of_options_are_no_texts(tmp_path, colors):
    """A name that YAML would read as a number or as nothing stays a name, and weights may be a path."""
    options = {"model.network.pos_embed": "none", "name": "null"}
    run = vit.train(colors, image_size=8, epochs=1, wandb="off", out=tmp_path / "1e3", **options)
    assert run.is_relative_to(tmp_path / "1e3") and run.name.endswith("-null")
    tuned = vit.train(colors, config="finetune", init_from=run, epochs=1, wandb="off", out=tmp_path / "2")
    config = yaml.safe_load((tuned / "config.yaml").read_text())
    assert config["model"]["network"]["pos_embed"] == "none" and config["model"]["init_from"] == str(run)
    assert config["optim"]["layer_decay"] == 0.75 and config["optim"]["epochs"] == 1


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
