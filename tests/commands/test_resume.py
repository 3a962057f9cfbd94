"""`vit train --resume`: a run that was ended anywhere ends as if nothing had happened."""

import csv
import os
import signal
import subprocess
import sys

import pytest
import torch

from vit.commands import train
from vit.training.classifier import Classifier

# everything that has a state of its own: averaged weights, dropout, mixup, parts of a batch, two optimisers in one
DEMANDING = (
    "--network", "vit_nano_patch2_8", "--model.network.drop_path_rate", 0.2, "--augment", "strong", "--epochs", 4,
    "--batch_size", 8, "--optim.accumulate", 2, "--optim.ema_decay", 0.9, "--optim.optimizer", "muon",
    "--precision", "32-true", "--wandb", "off",
)  # fmt: skip


def die():
    raise RuntimeError("killed")


def at_step(step, action):
    """A listener that acts when so many optimiser steps are done."""
    return lambda watcher, done, *rest: action() if done == step else None


def run_folder(out):
    (config,) = out.glob("**/config.yaml")
    return config.parent


def rows(run):
    with open(run / "metrics.csv", newline="") as file:
        return [{key: cell for key, cell in row.items() if "second" not in key} for row in csv.DictReader(file)]


def differences(one, other, path=""):
    """Places where two checkpoints differ, save what is a folder or a time."""
    if isinstance(one, torch.Tensor):
        return [] if torch.equal(one, other) else [path]
    if isinstance(one, dict):
        keys = set(one) | set(other)
        return [bad for key in keys for bad in differences(one.get(key), other.get(key), f"{path}/{key}")]
    if isinstance(one, list | tuple):
        pairs = list(zip(one, other, strict=False))
        found = [bad for place, pair in enumerate(pairs) for bad in differences(*pair, f"{path}/{place}")]
        return found + [path] * (len(one) != len(other))
    return [] if one == other or str(one).endswith((".ckpt", "checkpoints")) else [path]


def checkpoint(run, name="last"):
    content = torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)
    for counted in ("callbacks", "loops"):  # Lightning's count of how often it restarted
        content.pop(counted)
    return content


@pytest.fixture(scope="module")
def uninterrupted(vit, colours, tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted")
    answer = vit("train", colours, *DEMANDING, "--out", out)
    assert answer.code == 0, answer.err
    return run_folder(out)


def test_parts_of_a_batch_make_one_row_and_the_planned_steps(uninterrupted):
    table = rows(uninterrupted)
    assert [row["step"] for row in table] == ["1", "4", "8", "12", "16"]  # 7 parts an epoch, the last one alone
    assert float(table[-1]["lr"]) == pytest.approx(1e-3 * 0.01)  # the schedule has just ended


@pytest.mark.parametrize("step", [5, 8, 16])
def test_an_ended_run_ends_bit_equal(vit, colours, uninterrupted, tmp_path, monkeypatch, step):
    with monkeypatch.context() as patch:
        patch.setattr(train._Watcher, "step", at_step(step, die))
        answer = vit("train", colours, *DEMANDING, "--out", tmp_path)
    assert answer.code == 1 and "killed" in answer.err
    run = run_folder(tmp_path)
    assert not (run / "result.json").exists()
    answer = vit("train", "--resume", run)
    assert answer.code == 0, answer.err
    assert run_folder(tmp_path) == run  # no second folder
    assert differences(checkpoint(run), checkpoint(uninterrupted)) == []
    assert differences(checkpoint(run, "best"), checkpoint(uninterrupted, "best")) == []
    assert rows(run) == rows(uninterrupted)


def test_every_epoch_has_its_own_order_and_an_ended_run_keeps_to_it(vit, colours, tmp_path, monkeypatch):
    seen = []
    step = Classifier.training_step

    def watched(classifier, batch, place):
        seen.append(batch.path)
        return step(classifier, batch, place)

    monkeypatch.setattr(Classifier, "training_step", watched)
    options = ("--epochs", 3, "--batch_size", 10, "--network", "vit_nano_patch2_8", "--wandb", "off")
    assert vit("train", colours, *options, "--out", tmp_path / "whole").code == 0
    whole = [[path for batch in seen[place : place + 3] for path in batch] for place in (0, 3, 6)]
    assert len(seen) == 9 and all(len(set(epoch)) == 30 for epoch in whole)
    assert len({tuple(epoch) for epoch in whole}) == 3

    seen.clear()
    with monkeypatch.context() as patch:
        patch.setattr(train._Watcher, "step", at_step(5, die))
        assert vit("train", colours, *options, "--out", tmp_path / "ended").code == 1
    assert vit("train", "--resume", run_folder(tmp_path / "ended")).code == 0
    again = [path for batch in seen[:3] + seen[5:] for path in batch]  # the two steps that were lost come again
    assert again == [path for epoch in whole for path in epoch]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_says_how_to_go_on(vit, colours, uninterrupted, tmp_path, monkeypatch, number, code):
    with monkeypatch.context() as patch:
        patch.setattr(train._Watcher, "step", at_step(6, lambda: os.kill(os.getpid(), number)))
        answer = vit("train", colours, *DEMANDING, "--out", tmp_path)
    run = run_folder(tmp_path)
    assert answer.code == code and f"vit: error[{code}]: " in answer.err and "Traceback" not in answer.err
    assert f"vit train --resume {run}" in answer.err
    assert vit("train", "--resume", run).code == 0
    assert differences(checkpoint(run), checkpoint(uninterrupted)) == []
    assert rows(run) == rows(uninterrupted)


def test_a_killed_process_leaves_what_the_next_one_needs(vit, colours, uninterrupted, tmp_path):
    script = "import os, sys; from vit.__main__ import main; from vit.commands import train\n"
    script += "train._Watcher.step = lambda self, done, *rest: os.kill(os.getpid(), 9) if done == 11 else None\n"
    script += "main(sys.argv[1:])"
    command = [sys.executable, "-c", script, "train", str(colours), *map(str, DEMANDING), "--out", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == -9
    run = run_folder(tmp_path)
    assert vit("train", "--resume", run).code == 0
    assert differences(checkpoint(run), checkpoint(uninterrupted)) == []
    assert rows(run) == rows(uninterrupted)
    assert not [path for path in run.rglob("*") if "partial" in path.name or path.name.startswith(".")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_end_before_the_first_checkpoint_says_start_again(vit, colours, tmp_path, monkeypatch, number):
    with monkeypatch.context() as patch:
        patch.setattr(train._Watcher, "step", at_step(1, lambda: os.kill(os.getpid(), number)))
        answer = vit("train", colours, *DEMANDING, "--out", tmp_path)
    assert answer.code == 128 + number and "start it again" in answer.err
    answer = vit("train", "--resume", run_folder(tmp_path))
    assert answer.code == 2 and "no checkpoint yet" in answer.err


def test_what_cannot_be_resumed(vit, uninterrupted, tmp_path):
    for line, words in (
        (["--resume", uninterrupted], "is finished"),
        (["--resume", tmp_path], "no run folder"),
        (["--resume", uninterrupted, "--epochs", 9], "--optim.epochs beside --resume"),
        (["digits", "--resume", uninterrupted], "--data.source beside --resume"),
    ):
        answer = vit("train", *line)
        assert answer.code == 2 and words in answer.err, answer.err


def test_changed_data_are_not_resumed(vit, draw_classes, tmp_path, monkeypatch):
    data = draw_classes(tmp_path / "data", ("dark", "light"), 12)

    with monkeypatch.context() as patch:
        patch.setattr(train._Watcher, "step", at_step(6, die))
        assert (
            vit("train", data, "--epochs", 2, "--batch_size", 4, "--wandb", "off", "--out", tmp_path / "runs").code == 1
        )
    run = run_folder(tmp_path / "runs")
    (data / "light" / "11.png").rename(data / "light" / "12.png")
    answer = vit("train", "--resume", run)
    assert answer.code == 3 and "splits.csv" in answer.err
    (data / "light" / "12.png").rename(data / "light" / "11.png")
    assert vit("train", "--resume", run).code == 0
