"""examples/sweep.yaml: each trial is a command line of `vit train`, and its metric is in what W&B gets

The agent of W&B needs a server. wandb's own functions build the command line of a trial here.
"""

import json

import pytest
import yaml

from tests.processes import ROOT
from tests.runs import run_folder
from tests.wandb_files import elsewhere, kept, plain  # noqa: F401  elsewhere is a fixture

SWEEP = yaml.safe_load((ROOT / "examples" / "sweep.yaml").read_text())
SHORT = (
    "--network", "vit_nano_patch2_8", "--model.network.depth", "1", "--image_size", "8", "--epochs", "1",
    "--init", "random",
)  # fmt: skip


def trial(data, values):
    """The command line that an agent runs for some values, on other data and offline."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    args = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})
    words = []
    for word in create_sweep_command(list(SWEEP["command"])):
        words += args[word[2:-1]] if word.startswith("${") else [word]
    return [{"photos/": str(data), "online": "offline"}.get(word, word) for word in words]


def values(end):
    """The first or last value of each parameter."""
    return {
        name: rule["values"][end] if "values" in rule else rule[("min", "max")[end]]
        for name, rule in SWEEP["parameters"].items()
    }


def test_a_trial_has_the_id_of_the_agent_and_the_metric_of_the_sweep(vit, colors, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_RUN_ID", "trial1")
    monkeypatch.setenv("WANDB_SWEEP_ID", "sweep1")
    program, *words = trial(colors, values(0))
    assert program == "vit" and "--lr=1e-05" in words
    vit(*words, *SHORT, "--out", tmp_path, drawn=True).ok()
    run = run_folder(tmp_path)
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["optim"]["lr"] == 1e-5 and config["optim"]["layer_decay"] == 0.65
    assert (run / "wandb_id.txt").read_text().strip() == "trial1"
    assert SWEEP["metric"]["name"] in {name for found in kept(run, "summary") for name in plain(found.update)}
    (session,) = kept(run, "run")
    assert session.sweep_id == "sweep1"


@pytest.mark.parametrize("end", [0, -1])
def test_every_value_is_one_that_vit_train_takes(vit, colors, tmp_path, end):
    _, *words = trial(colors, values(end))
    vit(*words, *SHORT, "--out", tmp_path, "--dry_run").ok()


def test_the_metric_is_never_of_test_images():
    assert "test" not in json.dumps(SWEEP["metric"])
