"""Weights that are spread over two processes: the same training, and ordinary checkpoints."""

import json
import shutil

import pytest
import torch

from tests.parity.test_losing import ENDED, SHORT
from tests.processes import TWO, finish, linux_only, start
from tests.tables import rows

FSDP = (*TWO, "--strategy", "fsdp")


@linux_only
@pytest.mark.faults("R5", "R6")
def test_what_two_processes_share_goes_on_anywhere_and_ends_as_if_it_were_whole(vit, colours, tmp_path, monkeypatch):
    monkeypatch.setattr("vit.report.run_figures.draw_run", lambda *_: None)
    process = start(tmp_path, "train", colours, *SHORT, *FSDP, "--out", tmp_path / "two", script=ENDED)
    _, said = finish(tmp_path, process, 400)
    assert process.returncode == 143 and "after step 5, which is saved" in said, said
    (two,) = (path.parent for path in tmp_path.glob("two/*/*/*/config.yaml"))
    alone = shutil.copytree(two, tmp_path / "alone" / "a" / "b" / "run")

    process = start(tmp_path, "train", "--resume", two)
    _, said = finish(tmp_path, process, 400)
    assert process.returncode == 0, said
    answer = vit("train", "--resume", alone, "--devices", 1)
    assert answer.code == 0, answer.err
    assert vit("train", colours, *SHORT, "--out", tmp_path / "one").code == 0
    (one,) = (path.parent for path in tmp_path.glob("one/*/*/*/config.yaml"))

    whole = torch.load(one / "checkpoints" / "last.ckpt", weights_only=True)
    for run in (two, alone):
        found = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
        assert found["state_dict"].keys() == whole["state_dict"].keys()
        for name, value in whole["state_dict"].items():
            torch.testing.assert_close(found["state_dict"][name], value, atol=1e-6, rtol=1e-6, msg=name)
        results = [json.loads((folder / "result.json").read_text()) for folder in (one, run)]
        assert results[0]["correct"] == results[1]["correct"] and results[0]["steps"] == results[1]["steps"]
    assert vit("predict", two, colours, "--recursive", "--output", tmp_path / "rows.csv").code == 0
    assert {row["status"] for row in rows(tmp_path / "rows.csv")} == {"ok"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--network", "resnet10_small", "--optim.optimizer", "sgd"), "no ViT of ours"),
        (("--optim.optimizer", "muon"), "muon"),
        (("--optim.optimizer", "adamw", "--optim.ema_decay", "0.9"), "--optim.ema_decay"),
    ],
)
def test_what_needs_whole_weights_is_refused(vit, colours, tmp_path, options, words):
    answer = vit("train", colours, "--strategy", "fsdp", "--devices", 2, "--out", tmp_path / "runs", *options)
    assert answer.code == 2 and words in answer.err and "--strategy ddp" in answer.err
    assert not (tmp_path / "runs").exists()
