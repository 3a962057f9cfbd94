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


def test_train_refuses_as_the_command_does(tmp_path):
    with pytest.raises(UsageError, match=r"--epocs.*'--epochs'"):
        vit.train("digits", epocs=3, out=tmp_path)
    assert not list(tmp_path.iterdir())
