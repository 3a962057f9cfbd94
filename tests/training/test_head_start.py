"""A fine-tuning starts from a linear probe: the last layer alone is fitted, and knows the classes before any step."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.parity.test_processes import ROOT, torchrun
from tests.runs import run_folder, trained
from tests.tables import rows
from vit.checkpoints.format import checkpoint_content
from vit.checkpoints.load import load
from vit.commands.cli.recipe_layers import RecipeLayers
from vit.data.loading.loader import labeled_images
from vit.models.spec import create_network
from vit.training.network.features import FrozenBackbone, labeled
from vit.training.network.initial_network import fits_head, initial_network, start_head
from vit.training.planning.plan import plan_of
from vit.weights.open import open_pretrained

FITTED = "weights, last layer: a linear probe"
FIT = ("--model.init_head", "probe")


@pytest.fixture
def tuned_plan(colors, digits_run):
    """A plan to fine-tune the ViT of digits on colored images, with further options of the model."""

    def make(**model):
        start = {"init_from": str(digits_run.best), "init_head": "probe"}
        options = {f"model.{name}": value for name, value in {**start, **model}.items()}
        options["data.source"] = str(colors)
        return plan_of(RecipeLayers(options=options).recipe())

    return make


def start(plan, resume=False):
    """(network, lines that were said)."""
    torch.manual_seed(0)
    lines = []
    return initial_network(plan, resume, lines.append).network, lines


def share_right(network, plan):
    """Share of the training images that a network without any training step has right."""
    right = []
    for batch in labeled_images(plan.source.splits["train"], plan.preprocess):
        with torch.inference_mode():
            guesses = network.eval()(plan.preprocess.normalize(batch.image)).argmax(dim=1)
        right.append((guesses == batch.label)[batch.valid])
    return float(torch.cat(right).float().mean())


def test_only_the_last_layer_is_fitted_and_training_begins_in_training_mode(tuned_plan):
    plan = tuned_plan()
    fitted, lines = start(plan)
    drawn, _ = start(tuned_plan(init_head="random"))
    assert fitted.training  # an engine has computed with it: norms and dropout would stay as in evaluation
    before, after = drawn.state_dict(), fitted.state_dict()
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"head.weight", "head.bias"}
    assert share_right(fitted, plan) > 0.9
    (line,) = (line for line in lines if line.startswith(FITTED))
    assert f"{len(plan.source.splits['train'])} training images" in line


@pytest.mark.parametrize(
    ("name", "expected"), [("resnet10_small", True), ("convnext_tiny", True), ("vit_nano_patch2_8", False)]
)
def test_the_recipe_fits_the_last_layer_of_a_cnn(name, expected):
    recipe = RecipeLayers(options={"model.init_from": "weights.safetensors"}).recipe()
    assert recipe.model.init_head == "auto"
    network = create_network(name, 3)
    assert fits_head(recipe.model, network) == expected
    assert fits_head(replace(recipe.model, init_head="probe"), network)
    assert not fits_head(replace(recipe.model, init_head="random"), network)
    assert not fits_head(replace(recipe.model, freeze="backbone"), network)


@pytest.mark.parametrize("case", ["random", "auto", "resumed", "frozen"])
def test_where_no_probe_is_needed_none_is_fitted(tuned_plan, case):
    model = {"random": {"init_head": "random"}, "auto": {"init_head": "auto"}, "frozen": {"freeze": "backbone"}}
    plan = tuned_plan(**model.get(case, {}))
    _, lines = start(plan, resume=case == "resumed")
    assert not any("last layer" in line for line in lines)


def test_a_head_for_these_classes_stays(digits_run):
    plan = plan_of(RecipeLayers(options={"model.init_from": str(digits_run.best), "model.init_head": "probe"}).recipe())
    network, lines = start(plan)
    assert not any("last layer" in line for line in lines)
    assert torch.equal(network.state_dict()["head.weight"], load(digits_run.best)[0].state_dict()["head.weight"])


def test_the_plan_says_nothing_of_a_head_that_stays(vit, colors, digits_run, tmp_path):
    for data, is_new in ((colors, True), ("digits", False)):
        answer = vit("train", data, "--init_from", digits_run.best, *FIT, "--dry_run", "--out", tmp_path).ok()
        assert ("a last layer for new classes is fitted first" in " ".join(answer.out.split())) == is_new


@pytest.fixture
def two_colors(colors, digits_run, tmp_path):
    """A network that knows two of the three colors by a head of its own."""
    digits, description = load(digits_run.best)
    weights = digits.state_dict()
    generator = torch.Generator().manual_seed(1)
    weights |= {"head.weight": torch.randn(2, 64, generator=generator), "head.bias": torch.tensor([0.5, -0.5])}
    about = replace(description, class_names=("red", "blue"), spec=replace(description.spec, num_classes=2))
    torch.save(checkpoint_content(replace(about, validation_scores=None), weights), tmp_path / "two.ckpt")
    return tmp_path / "two.ckpt", weights


def test_rows_of_known_classes_stay_and_a_new_class_starts_from_its_mean_feature(tuned_plan, two_colors):
    path, weights = two_colors
    plan = tuned_plan(init_from=str(path), init_head="auto")
    assert plan.source.class_names == ("blue", "green", "red")
    assert plan.kept_rows == (
        "the last layer keeps the rows of 2 known classes; new, from the mean feature of their images: green"
    )
    network, lines = start(plan)
    assert network.training and "weights, resampled: head.weight: rows of 2 classes kept" in lines
    assert torch.equal(network.head.weight[[2, 0]], weights["head.weight"])
    assert torch.equal(network.head.bias[[2, 0]], weights["head.bias"])
    new = network.head.weight[1].detach()
    assert torch.isclose(new.norm(), weights["head.weight"].norm(dim=1).mean())
    samples = plan.source.splits["train"]
    backbone = FrozenBackbone(network, plan)
    values, labels = labeled(samples, backbone.features_of(samples))
    projections = [float((values[labels == number] @ new).mean()) for number in range(3)]
    assert projections[1] == max(projections)


def test_a_class_less_keeps_the_other_rows(tuned_plan, two_colors, draw_classes, tmp_path):
    path, weights = two_colors
    data = draw_classes(tmp_path / "fewer", ("blue", "violet"), 14)
    make = {"model.init_from": str(path), "data.source": str(data)}
    plan = plan_of(RecipeLayers(options=make).recipe())
    assert plan.kept_rows.startswith("the last layer keeps the rows of 1 known class")
    network, _ = start(plan)
    assert torch.equal(network.head.weight[0], weights["head.weight"][1])


@pytest.mark.parametrize("model", [{"init_head": "random"}, {"init_head": "probe"}, {"freeze": "backbone"}])
def test_a_head_that_is_asked_for_is_all_new(tuned_plan, two_colors, model):
    path, _ = two_colors
    plan = tuned_plan(**{"init_from": str(path), "init_head": "auto", **model})
    assert plan.kept_rows == "" and plan.has_new_head


def test_classes_of_others_are_not_compared_by_name(colors, digits_run, two_colors):
    path, _ = two_colors
    pretrained = replace(open_pretrained(str(path)), format="timm")
    report = pretrained.fill(create_network("vit_nano_patch2_8", 3), ("blue", "green", "red"), keeps_rows=True)
    assert not report.kept_rows and report.initialized


def test_random_weights_have_no_features_to_fit_a_layer_to(vit, colors, tmp_path):
    answer = vit("train", colors, "--network", "resnet10_small", *FIT, "--wandb", "off", "--out", tmp_path)
    assert answer.code == 2 and not list(tmp_path.iterdir())
    assert "--model.init_head probe without weights to start from; give --init_from, or leave it out" in answer.err


def test_a_network_with_two_heads_starts_from_random_ones(tuned_plan):
    network, lines = create_network("vit_nano_patch2_8", 3, pool="cls_dist"), []
    before = {name: value.clone() for name, value in network.state_dict().items()}
    start_head(network, tuned_plan(), lines.append)
    assert lines == ["weights, last layer: random, because the network does not end in one linear layer"]
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_of_many_images_some_are_used(tuned_plan, monkeypatch):
    monkeypatch.setattr("vit.training.network.initial_network.MOST_IMAGES", 12)
    plan = tuned_plan()
    network, lines = start(plan)
    assert any(f"{FITTED} on 12 training images" in line for line in lines)
    assert share_right(network, plan) > 0.8


def test_one_training_image_is_sufficient(tuned_plan):
    plan = tuned_plan()
    few = {**plan.source.splits, "train": plan.source.splits["train"].select(np.array([0]))}
    network, lines = start(replace(plan, source=replace(plan.source, splits=few)))
    assert any(f"{FITTED} on 1 training images" in line for line in lines)
    assert all(value.isfinite().all() for value in network.parameters())


def test_the_run_says_it_and_its_config_keeps_it(vit, colors, digits_run, tmp_path):
    answer = vit(
        "train", colors, "--init_from", digits_run.best, *FIT, "--epochs", 1, "--wandb", "off", "--out", tmp_path
    ).ok()
    assert FITTED in answer.err
    assert "a last layer for new classes is fitted first" in " ".join(answer.out.split())
    run = run_folder(tmp_path)
    assert "init_head: probe" in (run / "config.yaml").read_text()


def test_the_time_of_the_probe_is_a_part_of_the_training(colors, digits_run, tmp_path, monkeypatch):
    monkeypatch.setattr("vit.training.network.initial_network.start_head", lambda *_: time.sleep(2))
    options = ("--epochs", 1, "--model.init_head", "probe", "--wandb", "off")
    run = trained(tmp_path, colors, "--init_from", digits_run.best, *options)
    assert float(rows(run / "metrics.csv")[0]["seconds"]) > 2
    assert json.loads((run / "result.json").read_text())["seconds"] > 2


@pytest.mark.slow
def test_two_processes_start_from_the_same_layer(colors, digits_run, tmp_path):
    """Each process fits the layer itself. Weights that differ would end the training at its first validation."""
    options = (colors, "--init_from", digits_run.best, *FIT, "--epochs", 1, "--wandb", "off", "--out", tmp_path)
    done = torchrun(tmp_path, ROOT / "train.py", *map(str, options))
    assert done.returncode == 0, done.stderr
    assert FITTED in done.stderr + done.stdout
    assert json.loads((run_folder(tmp_path) / "result.json").read_text())["steps"] > 0
