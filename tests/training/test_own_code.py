"""Code of the user's by import path: the examples of docs/guides/change_it.md run, and files alone run nothing."""

import csv
import json
import os
import re
import shlex
import shutil
import sys
import types
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torchmetrics import Metric

import vit.data.pixels.augment as module
from tests.forked import run
from tests.runs import run_folder
from tests.test_documented_commands import ROOT
from vit.__main__ import _failure
from vit.checkpoints.load import load
from vit.data.pixels.augment import Augment, ImageAugment
from vit.data.pixels.preprocess import Preprocess
from vit.errors import UsageError, VitError
from vit.inference.engine import Engine
from vit.models.spec import NetworkSpec
from vit.own_code import VARIABLE, check_trusted, failure, is_path, trust
from vit.own_code import load as load_code
from vit.training.losses import OwnLoss, own_metric
from vit.training.optim import make_optimizer
from vit.training.recipes.image_options import AugmentConfig
from vit.training.recipes.recipe import ModelConfig, OptimConfig, Recipe, own_code

PAGE = (ROOT / "docs" / "guides" / "change_it.md").read_text(encoding="utf-8")
FAST = ("--wandb", "off", "--data.num_workers", "0", "--data.train_images", "128", "--batch_size", "64")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def mine(here, monkeypatch):
    """The working folder with the code of the page; nothing is trusted yet."""
    Path("mine.py").write_text("\n\n".join([*blocks("python"), "class Broken(Columns):\n    __init__ = None"]))
    Path("mine.yaml").write_text(blocks("yaml")[0])
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    yield here
    sys.modules.pop("mine", None)


def test_the_commands_of_the_page_run(vit, mine, monkeypatch):
    commands = [shlex.split(line)[1:] for line in "".join(blocks("bash")).splitlines() if line.startswith("vit train")]
    assert len(commands) == 6
    for number, command in enumerate(commands):
        monkeypatch.setenv(VARIABLE, "")
        vit(*command, *FAST, "--out", mine / str(number)).ok()
    texts = [(run_folder(mine / str(number)) / "config.yaml").read_text() for number in range(6)]
    assert (
        "mine:Columns" in texts[0] and "width: 48" in texts[0] and "mine:focal" in texts[1] and "mine:nadam" in texts[2]
    )
    assert "mine:salt" in texts[3] and "mine:kappa" in texts[4]
    header, *rows = csv.reader((run_folder(mine / "4") / "metrics.csv").read_text().splitlines())
    values = [row[header.index("val/kappa")] for row in rows]
    assert all(-1 <= float(value) <= 1 for value in values if value) and sum(map(bool, values)) == 2
    assert all(name in texts[5] for name in ("mine:Columns", "mine:focal", "mine:nadam"))


def test_an_augmentation_of_ones_own_varies_training_images_by_their_seeds(mine, monkeypatch):
    monkeypatch.setenv(VARIABLE, "mine:salt")
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    augment = ImageAugment(Augment(own="mine:salt"), Preprocess(8))
    first, again, other = (augment.recolored(images, seeds) for seeds in ([1, 2], [1, 2], [3, 2]))
    assert first.equal(again) and not first[0].equal(other[0]) and first[1].equal(other[1]) and not images.any()
    assert first.dtype == torch.uint8 and set(first.unique().tolist()) == {0, 255}


@pytest.mark.parametrize(("path", "words"), [("mine:focal", "focal fails: TypeError"), ("builtins:str", "makes str")])
def test_a_metric_of_ones_own_that_is_none_is_an_error(mine, monkeypatch, path, words):
    monkeypatch.setenv(VARIABLE, path)
    sys.path.append(str(mine))
    with pytest.raises(VitError, match=words):
        own_metric(path, np.arange(3), 3)


@pytest.fixture
def named(monkeypatch):
    """`named(value)` -> an import path of the value, which is trusted."""

    def name(value):
        monkeypatch.setitem(sys.modules, "given", types.SimpleNamespace(value=value))
        monkeypatch.setenv(VARIABLE, "given:value")
        return "given:value"

    return name


class Weighted(torch.nn.Linear):
    def __init__(self):
        super().__init__(3, 3)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (partial(cross_entropy, reduction="none"), "a tensor (2,), and not one number"),
        (lambda logits, labels: cross_entropy(logits.detach(), labels), "not one number with a gradient"),
        (lambda logits, labels: (cross_entropy(logits, labels), {}), "a tuple, and not one"),
        (lambda logits, labels: cross_entropy(logits, labels).item(), "a float, and not one"),
        (lambda logits: logits.sum(), "TypeError"),
        (Weighted, "has weights, which nothing trains"),
    ],
)
def test_a_loss_of_ones_own_that_is_none_is_an_error(named, loss, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        OwnLoss(named(loss))(torch.zeros(2, 3, requires_grad=True), torch.tensor([0, 2]))


def test_a_lack_of_memory_in_ones_own_code_stays_one(named):
    def full(logits, labels):
        raise torch.OutOfMemoryError("full")

    with pytest.raises(torch.OutOfMemoryError):
        OwnLoss(named(full))(torch.zeros(2, 3, requires_grad=True), torch.tensor([0, 2]))


class Given(Metric):
    def __init__(self, result):
        super().__init__()
        self.result = result

    def update(self, probabilities, labels):
        assert probabilities.shape == (len(labels), 3)

    def compute(self):
        return self.result


@pytest.mark.parametrize("result", [torch.arange(3.0), {"acc1": 1.0}, None, "high"])
def test_a_metric_of_ones_own_that_is_no_number_is_an_error(named, result):
    with pytest.raises(UsageError, match=r"fails: .*; make a torchmetrics.Metric of one number"):
        own_metric(named(lambda num_classes: Given(result)), np.arange(3), 3)
    assert "value" in own_metric(named(lambda num_classes: Given(torch.tensor(0.5))), np.arange(3), 3)


def test_a_metric_of_ones_own_does_not_replace_that_of_every_run(vit, mine):
    """It would choose the best weights, and stand in the report as the accuracy."""
    Path("mine.py").write_text("import torchmetrics\nacc1 = torchmetrics.classification.MulticlassCohenKappa\n")
    vit("train", "digits", "--optim.metric", "mine:acc1", *FAST).failed(2, "val/acc1 is a metric of every run")


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (lambda groups, config: None, "makes a NoneType"),
        (lambda groups, config: torch.optim.SGD(groups[:1], lr=1.0), "leaves out 1 of 2 parameters"),
        (torch.optim.SGD, "TypeError"),
    ],
)
def test_an_optimizer_of_ones_own_that_is_none_is_an_error(named, optimizer, words):
    network = torch.nn.Linear(3, 3)
    network.no_weight_decay = set
    with pytest.raises(UsageError, match=words):
        make_optimizer(network, OptimConfig(optimizer=named(optimizer)))


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("(logits,)", "gives tuple for 2 images"),
        ("logits[:, :1]", "gives a tensor (2, 1) for 2 images and 10 classes"),
        ("logits.mean(0)", "gives a tensor (10,)"),
        ("logits.detach() if self.requires_grad_(False) else 0", "no weights to train"),
        ("1 / 0", "ZeroDivisionError: division by zero (mine.py, line 27)"),
        ("{}['a']", "fails: KeyError('a') (mine.py, line 27)"),
    ],
)
def test_a_network_of_ones_own_with_other_outputs_is_an_error(vit, mine, result, words):
    code = Path("mine.py").read_text().replace("return self.head(", "logits = self.head(")
    Path("mine.py").write_text(code.replace("mean(dim=1))\n", f"mean(dim=1))\n        return {result}\n", 1))
    vit("train", "digits", "--network", "mine:Columns", *FAST, "--dry_run").failed(2, words)


def test_what_fails_in_the_midst_of_a_training_names_the_line_of_ones_own_code(mine):
    trust("mine:Columns")
    network = NetworkSpec("mine:Columns", 10).build(8)
    with pytest.raises(RuntimeError) as raised:
        network(torch.zeros(1, 3, 9, 8))
    words = _failure(raised.value)
    assert words[0] == 2 and re.match(
        r"mine:Columns fails: RuntimeError: input.* \(mine.py, line 26\); change", words[1]
    )
    assert failure(ValueError("of vit")) == ""
    assert Engine(network, Preprocess(8), torch.device("cpu"), "32-true").keep_features()  # by `get_classifier`


@pytest.mark.parametrize("result", [np.zeros((8, 8, 3)), np.zeros((4, 4, 3), np.uint8), None])
def test_an_augmentation_of_another_shape_or_type_is_an_error(mine, monkeypatch, result):
    monkeypatch.setattr(module, "own_augment", lambda path: lambda image, seed: result)
    with pytest.raises(VitError, match=r"an image of \(8, 8, 3\) uint8"):
        ImageAugment(Augment(own="mine:x"), Preprocess(8)).recolored(torch.zeros(1, 3, 8, 8, dtype=torch.uint8), [1])


@pytest.mark.filterwarnings("ignore")  # Lightning's, of a Trainer that is not ours
def test_a_trainer_of_ones_own_trains_our_module(mine):
    sys.path.append(str(mine))
    from mine import train_by_hand

    assert train_by_hand() > 0.2


def test_a_run_alone_runs_no_code(vit, mine, monkeypatch):
    """Neither a checkpoint nor a run folder makes vit import a module, before the user names it."""
    command = ("train", "digits", "--network", "mine:Columns", "--epochs", 1, *FAST, "--out", mine / "runs")
    trained, run = vit(*command).ok(), run_folder(mine / "runs")
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delitem(sys.modules, "mine")
    with pytest.raises(UsageError, match=r"VIT_OWN_CODE=mine:Columns if you trust this code$"):
        load(run / "checkpoints" / "best.ckpt")
    assert f"Next: {VARIABLE}=mine:Columns vit predict {run}" in trained.out
    answer = vit("inspect", run)
    assert answer.code != 0 and "VIT_OWN_CODE=mine:Columns" in answer.err and "mine" not in sys.modules
    copy = shutil.copytree(run, mine / "copy")
    (copy / "result.json").unlink()
    (copy / "checkpoints" / "last.ckpt").write_bytes((run / "checkpoints" / "best.ckpt").read_bytes())
    answer = vit("train", "--resume", copy)
    assert answer.code != 0 and "VIT_OWN_CODE=mine:Columns" in answer.err and "mine" not in sys.modules

    trust("mine:Columns")
    with pytest.raises(UsageError, match=r"b:c, d:e: code .* set VIT_OWN_CODE=mine:Columns,b:c,d:e if"):
        check_trusted(["mine:Columns", "b:c", "d:e"])
    assert load(run / "checkpoints" / "best.ckpt")[1].spec.name == "mine:Columns"
    trust("gone:Net")
    trust("mine:Broken")
    listed = vit("models", "m[iy]*").ok("mine:Columns", "vit train DATA --network mine:Columns")
    listed.noted("WARNING: VIT_OWN_CODE gone:Net fails: ModuleNotFoundError", "WARNING: --network mine:Broken fails: ")
    vit("export", run, "--format", "safetensors").ok("mine-Columns.safetensors")  # a colon is of Windows and of scp


@pytest.mark.slow
def test_cells_of_a_study_run_the_code_that_its_options_name(mine):
    with open("mine.py", "a") as file:
        file.write("\ndef noted(*given):\n    open('noted', 'a').close()\n    return focal(*given)\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    environment.pop(VARIABLE)
    line = ("study", "digits", "--networks", "mine:Columns,vit_nano_patch2_8", "--set", "optim.loss=mine:noted")
    line += ("--jobs", "1", "--seeds", "1", "--sizes", "100", "--budget", "epochs:1", "--yes", "--wandb", "off")
    answer = run([sys.executable, "-m", "vit", *line], timeout=300, env=environment)
    assert answer.returncode == 0, answer.stderr
    names = [json.loads(path.read_text())["network"]["name"] for path in Path("studies").rglob("result.json")]
    assert sorted(names) == ["mine:Columns", "vit_nano_patch2_8"] and Path("noted").is_file()


def test_a_network_of_ones_own_takes_the_place_of_a_files(vit, mine):
    Path("nano.yaml").write_text("model: {network: {name: vit_nano_patch2_8, depth: 2}}")
    words = ("train", "digits", "--config", "nano.yaml", "--network", "mine:Columns", "--dry_run")
    vit(*words).ok("mine:Columns")
    vit(*words, "--optim.layer_decay", 0.7).failed(2, "--optim.layer_decay 0.7 needs an order of layers")


def test_a_pretraining_runs_the_network_that_its_command_names(vit, mine):
    words = ("pretrain", "digits", "--network", "mine:Columns", "--dry_run")
    vit(*words).ok()
    Path("mine.py").write_text(Path("mine.py").read_text().replace("get_classifier", "other"))
    sys.modules.pop("mine")
    vit(*words).failed(2, "does not say which of its layers computes the classes")


def test_a_loss_of_ones_own_that_is_not_a_number_is_named(vit, mine):
    with open("mine.py", "a") as file:
        file.write("\n\ndef bad(logits, labels):\n    return logits.sum() * float('nan')\n")
    words = ("train", "digits", "--optim.loss", "mine:bad", *FAST, "--out", mine / "runs")
    vit(*words).failed(6, "not a number at step 1", "; check mine:bad, or lower --lr")


def test_the_code_that_a_recipe_names():
    own = Recipe(model=ModelConfig({"name": "a:B"}), augment=AugmentConfig(own="c:d"), optim=OptimConfig(metric="e:f"))
    assert own_code(own) == ["a:B", "c:d", "e:f"] and own_code(Recipe()) == []


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--network", "mine:Missing", "has no attribute 'Missing'"),
        ("--network", "nowhere.at_all:Net", "No module named 'nowhere'"),
        ("--network", "mine:focal", "is not a network"),
        ("--network", "mine:Broken", "--network mine:Broken fails: TypeError"),
        ("--optim.loss", "focal", "MODULE:NAME"),
        ("--augment.own", "mine:missing", "has no attribute 'missing'"),
        ("--optim.metric", "mine:missing", "has no attribute 'missing'"),
    ],
)
def test_what_a_path_does_not_name_is_an_error(vit, mine, option, value, words):
    vit("train", "digits", option, value, *FAST, "--out", mine / "runs").failed(2, words)
    assert not (mine / "runs").exists()


def test_a_loss_of_ones_own_has_no_class_weights(vit, mine):
    words = ("train", "digits", "--optim.loss", "mine:focal", "--optim.class_weights", "auto", *FAST, "--out", mine)
    vit(*words).failed(2, "--optim.loss with class weights")


def test_the_plan_names_the_loss_of_ones_own_and_not_the_one_in_whose_place_it_is(vit, mine, labels_csv):
    """The plan named the asymmetric loss, which trained nothing."""
    loss = ("--optim.loss", "mine:focal", "--optim.multilabel_loss", "asymmetric")
    answer = vit("train", labels_csv, *loss, "--wandb", "off", "--dry_run")
    answer.ok("mine:focal; best.ckpt has the lowest val/loss", "mine:focal; validation keeps the binary cross-entropy")
    assert "asymmetric loss" not in answer.out
    assert "--optim.multilabel_loss changes nothing with --optim.loss, which takes its place" in answer.err


@pytest.mark.parametrize(
    ("name", "answer"),
    [("a.b:C", True), ("mine:f", True), ("vit_tiny_patch16_224", False), ("timm:x.y", False), ("C:\\x", False)],
)
def test_what_is_a_path(name, answer):
    assert is_path(name) is answer


def test_code_that_ends_itself_does_not_end_the_program_as_done(mine, monkeypatch):
    Path("ends.py").write_text("import sys\nsys.exit(0)\n")
    trust("ends:Net")
    with pytest.raises(UsageError, match="line 2"):
        load_code("ends:Net", "--network")


def test_a_file_of_the_same_name_is_not_the_user_s(monkeypatch):
    monkeypatch.setenv(VARIABLE, "losses:Mine")
    with pytest.raises(Exception) as raised:
        OwnLoss(None)  # type: ignore[arg-type]
    assert failure(raised.value) == ""
