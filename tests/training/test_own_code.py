"""Code of the user's by import path: the examples of docs/guides/change_it.md run, and files alone run nothing."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.runs import run_folder
from tests.test_documented_commands import ROOT
from vit.checkpoints.load import load
from vit.errors import VitError
from vit.models.outside.own_code import VARIABLE, is_path, trust

PAGE = (ROOT / "docs" / "guides" / "change_it.md").read_text(encoding="utf-8")
FAST = ("--wandb", "off", "--data.num_workers", "0", "--data.train_images", "128", "--batch_size", "64")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def mine(here, monkeypatch):
    """The working folder with the code of the page; nothing is trusted yet."""
    Path("mine.py").write_text("\n\n".join(blocks("python")))
    Path("mine.yaml").write_text(blocks("yaml")[0])
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    yield here
    sys.modules.pop("mine", None)


def test_the_commands_of_the_page_run(vit, mine, monkeypatch):
    commands = [shlex.split(line)[1:] for line in "".join(blocks("bash")).splitlines() if line.startswith("vit train")]
    assert len(commands) == 4
    for number, command in enumerate(commands):
        monkeypatch.setenv(VARIABLE, "")
        answer = vit(*command, *FAST, "--out", mine / str(number))
        assert answer.code == 0, answer.err
    texts = [(run_folder(mine / str(number)) / "config.yaml").read_text() for number in range(4)]
    assert (
        "mine:Columns" in texts[0] and "width: 48" in texts[0] and "mine:focal" in texts[1] and "mine:nadam" in texts[2]
    )
    assert all(name in texts[3] for name in ("mine:Columns", "mine:focal", "mine:nadam"))


@pytest.mark.filterwarnings("ignore")  # Lightning's, of a Trainer that is not ours
def test_a_trainer_of_ones_own_trains_our_module(mine):
    sys.path.append(str(mine))
    from mine import train_by_hand

    assert train_by_hand() > 0.2


def test_a_run_alone_runs_no_code(vit, mine, monkeypatch):
    """Neither a checkpoint nor a run folder makes vit import a module, before the user names it."""
    command = ("train", "digits", "--network", "mine:Columns", "--epochs", 1, *FAST, "--out", mine / "runs")
    assert vit(*command).code == 0
    run = run_folder(mine / "runs")
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delitem(sys.modules, "mine")
    with pytest.raises(VitError, match="VIT_OWN_CODE=mine:Columns"):
        load(run / "checkpoints" / "best.ckpt")
    answer = vit("inspect", run)
    assert answer.code != 0 and "VIT_OWN_CODE=mine:Columns" in answer.err and "mine" not in sys.modules
    copy = shutil.copytree(run, mine / "copy")
    (copy / "result.json").unlink()
    (copy / "checkpoints" / "last.ckpt").write_bytes((run / "checkpoints" / "best.ckpt").read_bytes())
    answer = vit("train", "--resume", copy)
    assert answer.code != 0 and "VIT_OWN_CODE=mine:Columns" in answer.err and "mine" not in sys.modules

    trust("mine:Columns")
    assert load(run / "checkpoints" / "best.ckpt")[1].spec.name == "mine:Columns"


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--network", "mine:Missing", "has no attribute 'Missing'"),
        ("--network", "nowhere.at_all:Net", "No module named 'nowhere'"),
        ("--network", "mine:focal", "is not a network"),
        ("--optim.loss", "focal", "MODULE:NAME"),
    ],
)
def test_what_a_path_does_not_name_is_an_error(vit, mine, option, value, words):
    answer = vit("train", "digits", option, value, *FAST, "--out", mine / "runs")
    assert answer.code == 2 and words in answer.err, answer.err
    assert not (mine / "runs").exists()


def test_a_loss_of_ones_own_has_no_class_weights(vit, mine):
    weights = ("--optim.class_weights", "auto")
    answer = vit("train", "digits", "--optim.loss", "mine:focal", *weights, *FAST, "--out", mine)
    assert answer.code == 2 and "--optim.loss with class weights" in answer.err


@pytest.mark.parametrize(
    ("name", "answer"),
    [("a.b:C", True), ("mine:f", True), ("vit_tiny_patch16_224", False), ("timm:x.y", False), ("C:\\x", False)],
)
def test_what_is_a_path(name, answer):
    assert is_path(name) is answer
