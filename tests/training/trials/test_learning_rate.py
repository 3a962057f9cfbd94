"""A range test: its curve, its suggestion, and a training that does not depend on it."""

import json

import pytest
import torch

from tests.commands.test_train_errors import refused
from tests.comparing import differences
from tests.runs import run_folder
from vit.commands.train_options import read_values
from vit.training.range_test import RangeTest
from vit.training.trials import learning_rate
from vit.training.trials.learning_rate import HIGHEST, LOWEST, smoothed, suggested

OPTIONS = ("--network", "vit_nano_patch2_8", "--optim.steps", 3, "--batch_size", 8, "--optim.accumulate", 2,
           "--precision", "32-true", "--augment", "strong", "--wandb", "off",
           "--keep_state", "true")  # fmt: skip


def test_the_suggestion_is_a_tenth_of_the_rate_with_the_lowest_loss():
    assert suggested([1e-3, 1e-2, 1e-1], [2.0, 1.0, 3.0], 5.0) == pytest.approx(1e-3)
    assert suggested([], [], 5.0) == 5.0
    assert smoothed([2.0, 2.0, 2.0]) == pytest.approx([2.0, 2.0, 2.0])
    assert smoothed([0.0, 1.0], decay=0.5) == pytest.approx([0.0, 2 / 3])


def test_a_range_test_is_advice(vit, colors, tmp_path, monkeypatch):
    monkeypatch.setattr(learning_rate, "STEPS", 12)
    answer = vit("train", colors, *OPTIONS, "--lr", "find", "--out", tmp_path / "found", drawn=True)
    assert answer.code == 0, answer.err
    run = run_folder(tmp_path / "found")
    test = RangeTest.read(run / "range_test.json")
    assert len(test.rates) == len(test.losses) <= 12 and test.rates[0] == LOWEST and test.rates[-1] <= HIGHEST
    assert test.kept == 1e-3 and f"suggests learning rate {test.suggestion:.1e}" in answer.err
    assert (run / "figures" / "range_test.png").is_file() and "A range test" in (run / "report.html").read_text()
    assert "lr: 0.001" in (run / "config.yaml").read_text()
    assert vit("train", colors, *OPTIONS, "--out", tmp_path / "plain").code == 0
    found, plain = (
        torch.load(run_folder(tmp_path / name) / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        for name in ("found", "plain")
    )
    assert not differences(found, plain)


@pytest.mark.faults("K13")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--freeze", "backbone", "--init_from", "RUN"), "--freeze backbone, which has no learning rate"),
        (("--devices", 2, "--trainer.accelerator", "cpu"), "--optim.lr find on 2 processes"),
        (("--resume", "RUN"), "--resume, which keeps the learning rate"),
    ],
)
def test_a_training_without_a_rate_of_its_own_has_no_range_test(vit, digits_run, tmp_path, options, words):
    options = [digits_run.path if word == "RUN" else word for word in options]
    refused(vit("train", "digits", "--optim.lr", "find", *options, "--out", tmp_path), 2, words)


def test_python_asks_with_the_same_word():
    options = read_values(None, (), None, {"lr": "find", "epochs": 3})
    assert options.find_lr and options.given.recipe().optim.lr == 3e-3


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"rates": [], "losses": [], "other": 1})])
def test_a_damaged_file_is_an_error(tmp_path, text):
    (tmp_path / "range_test.json").write_text(text)
    with pytest.raises(Exception, match="is damaged"):
        RangeTest.read(tmp_path / "range_test.json")
