"""LoRA: adapters and head alone are trained, checkpoints hold ordinary weights, and an ended run goes on exactly."""

import json
import os
import re
import signal
import sys
from copy import deepcopy

import pytest
import torch
from torch import nn

from tests.runs import at_step, checkpoint, die, run_folder, same_end, trained
from tests.tables import rows
from vit.checkpoints.load import load
from vit.models.spec import create_network
from vit.training.lora import add_adapters, layers_to_adapt, merged

QUICK = ("--precision", "32-true", "--keep_state", "true", "--wandb", "off")


@pytest.fixture
def without_peft(monkeypatch):
    """As if it were not installed: importing it fails, and a search does not find it."""
    for name in [name for name in sys.modules if name.split(".")[0] == "peft"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "peft", None)


@pytest.fixture(scope="module")
def tuned(vit, digits_run, tmp_path_factory):
    """The digits' ViT, tuned for two more epochs with averaged weights."""
    out = tmp_path_factory.mktemp("lora")
    options = ("--lora", 4, "--epochs", 2, "--optim.ema_decay", 0.9)
    answer = vit("train", "digits", "--init_from", digits_run.path, *options, *QUICK, "--out", out, drawn=True).ok()
    return run_folder(out), answer


def states(run, digits_run):
    """The weights before and after."""
    return [load(path)[0].state_dict() for path in (digits_run.best, run / "checkpoints" / "best.ckpt")]


def test_adapted_layers_and_the_head_change_and_nothing_else(tuned, digits_run):
    before, after = states(tuned[0], digits_run)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    layers = {
        f"blocks.{block}.{layer}.weight"
        for block in range(4)
        for layer in ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
    }
    assert changed == layers | {"head.weight", "head.bias"}
    for name in layers:
        values = torch.linalg.svdvals((after[name] - before[name]).double())
        assert values[3] > 1e-6 and values[4] < 1e-6, name


def test_it_learns_and_says_what_is_trained(tuned, digits_run):
    run, answer = tuned
    before, after = (json.loads((path / "result.json").read_text()) for path in (digits_run.path, run))
    assert after["metrics"]["acc1"]["value"] > before["metrics"]["acc1"]["value"] + 0.05
    assert after["temperature"] != 1.0 and after["parameters"] == before["parameters"]
    adapters = 4 * sum(
        sum(value.shape)
        for name, value in states(run, digits_run)[1].items()
        if name.startswith("blocks.") and value.ndim == 2
    )
    trained, kept = (
        int(re.search(rf"weights, {word}: ([\d,]+) parameters", answer.err)[1].replace(",", ""))
        for word in ("trained", "kept")
    )
    head = 65 * 10
    assert trained == adapters + head and kept == before["parameters"] - head
    assert "in 16 linear layers, and the head" in answer.err and "adamw, learning rate 0.002," in answer.out
    assert "; LoRA of rank 4" in answer.out  # in the plan, which --dry_run shows, too


def test_the_lowest_rate_of_a_plan_is_of_weights_that_are_trained(vit, digits_run):
    words = ("train", "digits", "--init_from", digits_run.path, "--lora", 4, "--optim.layer_decay", 0.5, "--dry_run")
    vit(*words).ok("learning rate 0.002, down to 1.5e-06 in the lowest layer")  # of 5 levels the embeddings' is frozen


def test_its_checkpoint_is_any_other_s(tuned, vit, mixed, here, without_peft):
    run, _ = tuned
    assert (run / "report.html").is_file()
    for words in (
        ["predict", run, mixed / "a b.png", "--output", "rows.csv"],
        ["evaluate", run],
        ["explain", run, mixed / "a b.png", "--output", "explained"],
        ["export", run, "--format", "safetensors", "--output", "w.safetensors"],
        ["train", "digits", "--init_from", run, "--freeze", "backbone", *QUICK],
    ):
        vit(*words).ok()
    found = [row["label"] == row["predicted"] for row in rows(run / "predictions" / "validation.csv")]
    result = json.loads((run / "result.json").read_text())
    assert sum(found) / len(found) == pytest.approx(result["validation"]["val/acc1"])


def adapted(name="vit_nano_patch2_8", rank=3, **values):
    """A small network with adapters that all change something, as after some steps, and a batch for it."""
    torch.manual_seed(0)
    network = create_network(name, 5, **values)
    add_adapters(network, rank)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.requires_grad:
                parameter.normal_(std=0.1)
    return network, torch.randn(4, 3, network.image_size, network.image_size)


SHAPES = [
    {},
    {"pool": "cls_dist"},
    {"pool": "mean", "activation": "swiglu"},
    {"pool": "map"},
    {"qk_norm": True, "qkv_bias": False},
]


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("values", SHAPES, ids=str)
def test_gradients_reach_every_adapter_and_only_these_and_the_head(values, bf16):
    """The last block's attention, which computes the class token's query alone, is no exception."""
    network, images = adapted(**values)
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        network(images)[:, 0].sum().backward()
    reached = {name for name, value in network.named_parameters() if value.grad is not None and value.grad.any()}
    layers = layers_to_adapt(create_network("vit_nano_patch2_8", 5, **values), 3)
    expected = {f"{layer}.lora_{letter}.default.weight" for layer in layers for letter in "AB"}
    heads = {name for name in network.state_dict() if name.startswith("head")}
    assert reached == expected | heads and len(layers) == 4 * 4 + 5 * ("map" in values.values())


@pytest.mark.parametrize("values", SHAPES, ids=str)
def test_merged_weights_are_those_that_were_computed_with(values):
    network, images = adapted(**values)
    plain = create_network("vit_nano_patch2_8", 5, **values)
    plain.load_state_dict(merged(network.state_dict(), 3))
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        for name in layers_to_adapt(plain, 3):
            assert torch.equal(plain.get_submodule(name).weight, network.get_submodule(name).weight)
    with torch.inference_mode():
        torch.testing.assert_close(plain.eval()(images), network.eval()(images), atol=1e-5, rtol=1e-5)


def test_merging_is_peft_s():
    network, _ = adapted()
    ours, theirs = merged(network.state_dict(), 3), deepcopy(network)
    for name in layers_to_adapt(create_network("vit_nano_patch2_8", 5), 3):
        layer = theirs.get_submodule(name)
        layer.merge()
        assert torch.equal(ours[f"{name}.weight"], layer.base_layer.weight)


def test_a_network_of_timm_s():
    network, images = adapted("test_vit", image_size=64)
    network(images)[:, 0].sum().backward()
    grads = {name: value.grad for name, value in network.named_parameters() if "lora_" in name}
    assert len(grads) == 2 * 24 and all(grad is not None and grad.any() for grad in grads.values())


@pytest.fixture(scope="module")
def start(colors, tmp_path_factory):
    """A ViT that has seen the colors for a step, as weights to start from."""
    words = ("--network", "vit_nano_patch2_8", "--model.network.depth", 2, "--optim.steps", 1, "--batch_size", 8)
    return trained(tmp_path_factory.mktemp("start"), colors, *words, *QUICK)


@pytest.mark.faults("R1", "R5", simulated="an exception where a process would die")
@pytest.mark.parametrize(
    "action",
    [die, pytest.param(lambda: os.kill(os.getpid(), signal.SIGTERM), marks=pytest.mark.slow)],
    ids=["killed", "asked"],
)
def test_an_ended_run_ends_bit_equal(vit, colors, start, tmp_path, action):
    options = (
        "--init_from", start, "--lora", 4, "--model.network.drop_path_rate", 0.2, "--augment", "strong", "--epochs", 2,
        "--batch_size", 8, "--optim.accumulate", 2, "--optim.ema_decay", 0.9, "--checkpoint_every", "0s", *QUICK,
    )  # fmt: skip
    whole = trained(tmp_path / "whole", colors, *options)
    with at_step(5, action):
        assert vit("train", colors, *options, "--out", tmp_path / "ended").code in (1, 143)
    run = run_folder(tmp_path / "ended")
    assert checkpoint(run)["global_step"] in (4, 5)
    load(run / "checkpoints" / "last.ckpt")  # by whoever wants its weights
    vit("train", "--resume", run).ok()
    assert same_end(run, whole)


@pytest.mark.faults("K11")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lora", 8], ["--lora without weights to start from; give --init_from"]),
        (["--lora", 8, "--freeze", "backbone", "--init_from", "RUN"], ["--lora with --freeze backbone", "leave one"]),
        (["--lora", 64, "--init_from", "RUN"], ["--lora 64: the widest layer's rank is 64 at most", "4 to 64"]),
        (["--lora", 0, "--init_from", "RUN"], ["model.lora", "0"]),
        (["--lora", 8, "--init_from", "RUN", "--network", "resnet10_small"], ["linear layers", "leave --lora out"]),
    ],
)  # fmt: skip
def test_where_it_cannot_be(vit, digits_run, here, words, said):
    words = [digits_run.path if word == "RUN" else word for word in words]
    vit("train", "cifar100", *words).failed(2, *said)
    assert not list(here.iterdir())


@pytest.mark.faults("K11", simulated="the import of peft fails")
def test_without_peft_it_says_how_to_install_it(vit, digits_run, here, without_peft):
    answer = vit("train", "cifar100", "--lora", 8, "--init_from", digits_run.path)
    answer.failed(2, "--lora needs peft; ", " -m pip install -e ", "[lora]")
    assert not list(here.iterdir())


def test_layers_that_are_no_wider_than_the_rank_are_left_alone():
    network = create_network("vit_nano_patch2_8", 5)
    network.extra = nn.Linear(2, 64)
    assert "extra" in layers_to_adapt(network, 1) and "extra" not in layers_to_adapt(network, 2)
