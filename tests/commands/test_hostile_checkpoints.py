"""A checkpoint that holds code, or an address in place of a checkpoint: no command runs or fetches anything."""

import pickle
import shutil

import pytest
import torch

from tests.checkpoints.test_format import Marker
from vit.checkpoints.format import KEY


@pytest.fixture
def hostile(digits_run, tmp_path):
    """`hostile(kind)` is a checkpoint that would leave `marker` behind."""

    def write(kind):
        path, marker = tmp_path / "hostile.ckpt", Marker(tmp_path / "marker")
        if kind == "pickle":
            path.write_bytes(pickle.dumps(marker))
        else:
            content = torch.load(digits_run.best, weights_only=True)
            content[{"optimizer": "optimizer_states", "hyper-parameters": "hyper_parameters"}.get(kind, KEY)] = marker
            torch.save(content, path)
        return path

    return write


@pytest.fixture
def lines(digits_run, colors, tmp_path):
    """Command lines that read a checkpoint."""

    def made(path):
        run = tmp_path / "run"
        (run / "checkpoints").mkdir(parents=True)
        shutil.copy(digits_run.path / "config.yaml", run)
        shutil.copy(digits_run.path / "splits.csv", run)
        for name in ("last", "previous"):
            (run / "checkpoints" / f"{name}.ckpt").symlink_to(path)
        quick = ("--epochs", 1, "--wandb", "off", "--out", tmp_path / "runs")
        resume = [("train", "--resume", run)] if "://" not in str(path) else []
        return [
            ("predict", path, colors, "--recursive", "--output", tmp_path / "rows.csv"),
            ("evaluate", path, "digits", "--output", tmp_path / "evaluation"),
            ("train", "digits", "--model.init_from", path, *quick), *resume,
        ]  # fmt: skip

    return made


@pytest.mark.faults("C3", "C5", "C6")
@pytest.mark.parametrize("kind", ["pickle", "description", "optimizer", "hyper-parameters"])
def test_no_command_runs_what_a_checkpoint_holds(vit, hostile, lines, tmp_path, monkeypatch, kind):
    path = hostile(kind)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    for line in lines(path):
        answer = vit(*line)
        assert answer.code == 4 and answer.err.count("vit: error[4]") == 1, answer.err
        assert "Traceback" not in answer.err and not (tmp_path / "marker").exists()
    assert not list(tmp_path.glob("rows*")) and not (tmp_path / "evaluation").exists()


@pytest.mark.faults("C4")
@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x.ckpt", "https://host/x.safetensors", "s3://bucket/x.ckpt"])
def test_no_command_fetches_a_checkpoint(vit, lines, address):
    for line in lines(address):
        vit(*line).failed(4, "download it first")
