"""What decays, what the learning rate is when, and that one optimizer can be two."""

import math
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn

from vit.models.spec import create_network
from vit.training.optim import (
    LEVELS,
    Decay,
    layer_decay,
    make_optimizer,
    make_schedule,
    matrices_of_blocks,
    warmup_steps,
)
from vit.training.recipes.recipe import OptimConfig

CONFIG = OptimConfig(lr=0.1, epochs=10, warmup=0.2, min_lr_ratio=0.01, weight_decay=0.3)


@pytest.fixture(scope="module")
def network():
    return create_network("vit_nano_patch2_8", 10, depth=2)


def groups_by_name(network, config):
    """name -> the group of its parameter."""
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    found = {}
    for group in make_optimizer(network, config).param_groups:
        for parameter in group["params"]:
            assert names[id(parameter)] not in found, "a parameter stands in two groups"
            found[names[id(parameter)]] = group
    return found


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [*(("vit_nano_patch2_8", name) for name in ("adamw", "sgd", "muon")), ("resnet10_small", "sgd")],
)
def test_matrices_decay_and_nothing_else_does(name, optimizer):
    network = create_network(name, 10)
    found = groups_by_name(network, replace(CONFIG, optimizer=optimizer))
    assert set(found) == {parameter for parameter, _ in network.named_parameters()}
    free = {name for name, group in found.items() if group["weight_decay"] == 0}
    assert {group["weight_decay"] for group in found.values()} == {0.0, 0.3}
    expected = {name for name, parameter in network.named_parameters() if parameter.ndim < 2}
    if name.startswith("vit"):
        expected |= {"pos_embed", "cls_token"}
        assert {"norm.weight", "blocks.0.norm1.bias", "head.bias", "patch_embed.proj.bias"} <= free
        assert {"head.weight", "blocks.1.attn.qkv.weight", "patch_embed.proj.weight"}.isdisjoint(free)
    assert free == expected


def test_frozen_parameters_are_left_out():
    network = create_network("vit_nano_patch2_8", 10, depth=2)
    network.blocks[0].requires_grad_(False)
    assert not any(name.startswith("blocks.0.") for name in groups_by_name(network, CONFIG))


def test_layer_decay_lowers_the_rate_block_by_block(network):
    found = groups_by_name(network, replace(CONFIG, layer_decay=0.5))
    rates = {name: found[name]["lr"] for name in ("head.weight", "blocks.1.mlp.fc1.weight", "blocks.0.mlp.fc1.weight")}
    assert rates["head.weight"] == 0.1
    step = 0.5 ** (LEVELS / max(network.layers_above().values()))
    assert rates["blocks.0.mlp.fc1.weight"] == pytest.approx(rates["blocks.1.mlp.fc1.weight"] * step)
    assert found["pos_embed"]["lr"] <= rates["blocks.0.mlp.fc1.weight"]


@pytest.mark.parametrize(
    ("name", "stem", "first", "last", "blocks"),
    [
        ("vit_small_patch16_rope_224", "model.patch_embed.proj.weight", "model.blocks.0.mlp.fc1.weight",
         "model.blocks.11.mlp.fc1.weight", 11),
        ("resnet10t", "model.conv1.0.weight", "model.layer1.0.conv1.weight", "model.layer4.0.conv1.weight", 3),
        ("resnet10_small", "model.conv1.weight", "model.layer1.0.conv1.weight", "model.layer4.0.conv1.weight", 3),
        ("poolformer_s12", "model.stem.conv.weight", "model.stages.0.blocks.0.mlp.fc1.weight",
         "model.stages.3.blocks.0.mlp.fc1.weight", 3),
    ],
)  # fmt: skip
def test_layer_decay_reaches_networks_of_timm(name, stem, first, last, blocks):
    with torch.device("meta"):
        network = create_network(name, 10)
    found = groups_by_name(network, replace(CONFIG, layer_decay=0.5, optimizer="sgd"))
    head = max(group["lr"] for group in found.values())
    step = 0.5 ** (LEVELS / max(network.layers_above().values()))
    assert head == 0.1 and found[last]["lr"] < 0.1
    assert found[first]["lr"] == pytest.approx(found[last]["lr"] * step**blocks)
    assert found[stem]["lr"] < found[first]["lr"]


@pytest.mark.faults("K42")
@pytest.mark.parametrize(
    "name", ["vit_tiny_patch16_224", "vit_large_patch16_224", "resnet152", "densenet121", "efficientnet_b4", "resnet18"]
)
def test_no_network_is_frozen_by_layer_decay(name):
    """Before, the exponent was the number of blocks: half of a ResNet-101 and most of a DenseNet hardly learned."""
    with torch.device("meta"):
        network = create_network(name, 10)
    config = replace(CONFIG, layer_decay=0.75, optimizer="adamw")
    factors = {key: group["lr"] / config.lr for key, group in groups_by_name(network, config).items()}
    assert max(factors.values()) == 1 and min(factors.values()) == pytest.approx(0.75**13)
    if name == "vit_tiny_patch16_224":  # as published, block by block
        blocks = [factors[f"blocks.{block}.mlp.fc1.weight"] for block in range(12)]
        assert blocks == pytest.approx([0.75 ** (12 - block) for block in range(12)])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("vit_tiny_patch16_224", 0.75), ("swin_tiny_patch4_window7_224", 0.75), ("resnet18", 1.0),
     ("tf_efficientnet_lite0", 1.0), ("convnext_tiny", 1.0)],
)  # fmt: skip
def test_auto_lowers_the_rate_of_the_lower_layers_of_a_transformer_alone(name, expected):
    with torch.device("meta"):
        network = create_network(name, 10)
    found = groups_by_name(network, replace(CONFIG, layer_decay="auto", optimizer="adamw"))
    assert min(group["lr"] for group in found.values()) == pytest.approx(CONFIG.lr * expected**LEVELS)
    assert layer_decay(network, replace(CONFIG, layer_decay=0.9)) == 0.9


def rates(config, steps, network):
    optimizer = make_optimizer(network, config)
    schedule = make_schedule(optimizer, config, steps, Decay.planned(config, steps))
    found = []
    for _ in range(steps + 1):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


def test_rate_warms_up_then_follows_a_cosine(network):
    found = rates(CONFIG, 100, network)
    warmup = found[:20]
    assert warmup[0] == pytest.approx(0.1 / 21)
    assert all(b - a == pytest.approx(0.1 / 21) for a, b in pairwise(warmup))
    assert found[20] == pytest.approx(0.1)  # the peak
    assert found[60] == pytest.approx(0.1 * (0.01 + 0.99 * 0.5))  # half way down
    assert found[100] == pytest.approx(0.001)
    assert max(found) == found[20] and all(b < a for a, b in pairwise(found[20:]))


def test_rate_without_a_warm_up_begins_at_its_peak(network):
    found = rates(replace(CONFIG, warmup=0.0, min_lr_ratio=0.0), 10, network)
    assert found[0] == pytest.approx(0.1) and found[10] == pytest.approx(0.0, abs=1e-12)
    assert found[5] == pytest.approx(0.1 * (1 + math.cos(math.pi / 2)) / 2)


@pytest.mark.parametrize("epochs", [1, 3, 5, 6, 50])
def test_a_short_training_leaves_its_warm_up_as_a_long_one_does(network, epochs):
    found = rates(OptimConfig(lr=0.1, epochs=epochs), 20 * epochs, network)
    assert found.index(max(found)) == 2 * epochs and max(found) == pytest.approx(0.1)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("warmup", [0.5, 0.99])
def test_a_warm_up_of_nearly_all_steps_leaves_one_at_the_highest_rate(network, steps, warmup):
    found = rates(replace(CONFIG, warmup=warmup), steps, network)
    assert all(0 < rate <= 0.1 for rate in found) and max(found[:steps]) == pytest.approx(0.1)


def test_a_warm_up_is_never_longer_than_10_000_steps():
    assert warmup_steps(OptimConfig(warmup=0.1), 90_000) == 9_000
    assert warmup_steps(OptimConfig(warmup=0.1), 1_000_000) == 10_000


@pytest.mark.parametrize("name", ["convnext_tiny", "convnext_atto", "convnextv2_tiny"])
def test_a_cnn_whose_blocks_have_linear_layers_is_no_transformer(name):
    with torch.device("meta"):
        network = create_network(name, 10)
    assert not matrices_of_blocks(network.named_parameters())


@pytest.mark.parametrize(
    ("name", "table"),
    [("swin_tiny_patch4_window7_224", "relative_position_bias_table"), ("tiny_vit_5m_224", "attention_biases")],
)
def test_tables_of_positions_are_no_matrices(name, table):
    with torch.device("meta"):
        network = create_network(name, 10)
    names = [name for name, _ in matrices_of_blocks(network.named_parameters())]
    assert any(name.endswith("attn.qkv.weight") for name in names) and not any(name.endswith(table) for name in names)
    assert any(name.endswith(table) for name, _ in network.named_parameters())


def test_muon_moves_every_parameter_and_its_state_round_trips():
    def step(network, optimizer):
        torch.manual_seed(1)
        optimizer.zero_grad()
        network(torch.randn(4, 3, 8, 8)).square().sum().backward()
        optimizer.step()

    config = replace(CONFIG, optimizer="muon", lr=0.01)
    torch.manual_seed(0)
    network = create_network("vit_nano_patch2_8", 10, depth=2)
    nn.init.normal_(network.head.weight)  # it begins at zero, and nothing below it would move
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    optimizer = make_optimizer(network, config)
    step(network, optimizer)
    assert not [name for name, value in network.named_parameters() if torch.equal(before[name], value)]

    twin = create_network("vit_nano_patch2_8", 10, depth=2)
    twin.load_state_dict(network.state_dict())
    resumed = make_optimizer(twin, config)
    resumed.load_state_dict(deepcopy(optimizer.state_dict()))
    for group in [*optimizer.param_groups, *resumed.param_groups]:
        group["lr"] = 0.02  # a schedule reaches both optimizers inside, after loading too
    step(network, optimizer)
    step(twin, resumed)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), twin.parameters(), strict=True))
    assert {group["lr"] for group in (*resumed.muon.param_groups, *resumed.adamw.param_groups)} == {0.02}


@pytest.mark.parametrize(("optimizer", "expected"), [("sgd", 0.4), ("adamw", 0.2), ("muon", 0.2)])
def test_the_rate_follows_the_batch_size_by_the_rule_of_its_optimizer(network, optimizer, expected):
    config = replace(CONFIG, optimizer=optimizer, batch_size=256, lr_batch_size=64)
    assert all(group["lr"] == pytest.approx(expected) for group in make_optimizer(network, config).param_groups)
    assert replace(config, lr_batch_size=None).scaled_lr == replace(config, batch_size="auto").scaled_lr == 0.1
