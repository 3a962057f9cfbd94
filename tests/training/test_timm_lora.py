"""LoRA in timm's networks: every adapter changes the answer, and the merged weights give the same answer."""

import pytest
import torch
from torch import nn

from tests.installed import skip_without
from tests.timm_networks import BATCH_NORM, SMALL, random_images, small_network
from vit.errors import UsageError
from vit.training.lora import add_adapters, layers_to_adapt, merged
from vit.training.optim import LEVELS, parameter_groups
from vit.training.recipes.recipe import OptimConfig
from vit.weights.adapt import head_names

pytestmark = pytest.mark.usefixtures("small_timm")

skip_without("peft", "the extra 'lora' is not installed")
NO_LINEAR = ("convnext_atto",)  # its MLPs are convolutions


@pytest.mark.parametrize("name", [name for name in SMALL if name not in (*BATCH_NORM, *NO_LINEAR)])
def test_every_adapter_changes_the_answer_and_merges_exactly(name):
    network, images = small_network(name), random_images(count=1)
    names = layers_to_adapt(network, 4)
    wide = {key for key, layer in network.named_modules() if isinstance(layer, nn.Linear)}
    left_out = wide - set(names) - {key.rpartition(".")[0] for key in head_names(network)}
    assert all(min(network.get_submodule(key).weight.shape) <= 4 for key in left_out)
    with torch.no_grad():
        before = network(images)
        add_adapters(network, 4)
        assert torch.equal(network(images), before)
        draw = torch.Generator().manual_seed(0)
        for key in names:
            up = network.get_submodule(key).lora_B.default.weight
            up.copy_(torch.randn(up.shape, generator=draw) * 0.3)
            after = network(images)
            assert (after - before).abs().max() > 1e-6, key
            before = after
        plain = small_network(name, seed=9)
        plain.load_state_dict(merged(network.state_dict(), 4))
        assert torch.allclose(plain(images), after, atol=1e-5)


@pytest.mark.parametrize("name", ["deit_tiny_distilled_patch16_224", "swin_tiny_patch4_window7_224"])
def test_layer_decay_reaches_adapters(name):
    network = small_network(name)
    deepest = network.layers_above()
    add_adapters(network, 4)
    named = [(key, value) for key, value in network.named_parameters() if value.requires_grad]
    groups = parameter_groups(network, named, OptimConfig(lr=1.0, layer_decay=0.5))
    rates = {id(value): group["lr"] for group in groups for value in group["params"]}
    for key, value in named:
        layer = key.partition(".lora_")[0] + ".weight" if ".lora_" in key else key
        assert rates[id(value)] == 0.5 ** (LEVELS * deepest[layer] / max(deepest.values())), key


@pytest.mark.faults("T4")
@pytest.mark.parametrize("name", [*BATCH_NORM, *NO_LINEAR])
def test_networks_that_lora_cannot_adapt_are_refused(name):
    with pytest.raises(UsageError, match="--lora is for networks of linear layers without batch norm"):
        layers_to_adapt(small_network(name), 4)
