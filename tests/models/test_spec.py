"""The cost of a network: counted for every kind of pooling, without a change to the network."""

from typing import get_args

import pytest

from vit.models.spec import NetworkSpec, count, describe
from vit.models.vit_config import Pool

POOLING = ("vit_base_patch16_siglip_224", "vit_pe_core_tiny_patch16_384", "cait_xxs24_224", "pit_ti_224")


@pytest.mark.parametrize("pool", get_args(Pool))
def test_every_pool_has_a_cost(pool):
    """PyTorch's counter refused attention pooling: it expands a parameter, which gave a view without a gradient."""
    spec = NetworkSpec.named("vit_nano_patch2_8", 10, {"pool": pool})
    blocks = NetworkSpec.named("vit_nano_patch2_8", 10, {"pool": "cls"}).cost(8).flops
    assert spec.cost(8).flops >= 0.9 * blocks


@pytest.mark.parametrize("name", POOLING)
def test_networks_of_timm_that_expand_a_parameter_are_described(name):
    ((found, _, cost, _),) = describe([name], print)
    assert found == name and cost.flops > 2 * cost.parameters > 0


@pytest.mark.parametrize("is_training", [False, True])
def test_counting_leaves_the_network_as_it_was(is_training):
    network = NetworkSpec.named("vit_nano_patch2_8", 10, {"pool": "map"}).build_empty(8).train(is_training)
    network.head.requires_grad_(False)
    before = {name: parameter.requires_grad for name, parameter in network.named_parameters()}
    assert count(network).flops > 0
    assert network.training is is_training and set(before.values()) == {False, True}
    assert {name: parameter.requires_grad for name, parameter in network.named_parameters()} == before
