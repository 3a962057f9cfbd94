"""timm's networks: other image sizes, and an order of parameters from the input to the head."""

import pytest
import timm
import torch

from tests.timm_networks import SMALL, random_images, small_network
from vit.errors import UsageError
from vit.models.spec import NetworkSpec, create_network
from vit.models.timm_network import TimmConfig, TimmNetwork
from vit.training.optim import LEVELS, parameter_groups
from vit.training.recipes.recipe import OptimConfig
from vit.weights.adapt import fill, head_names

pytestmark = pytest.mark.usefixtures("small_timm")

RESAMPLED = {  # families whose weights depend on the image size, and what changes
    "vit_tiny_patch16_224": "pos_embed",
    "deit_tiny_distilled_patch16_224": "pos_embed",
    "vit_base_patch16_siglip_224": "pos_embed",
    "eva02_tiny_patch14_224": "pos_embed",
    "vit_pe_core_tiny_patch16_384": "pos_embed",
    "beit_base_patch16_224": "relative_position_bias_table",
    "beit3_base_patch16_224": "pos_embed",
    "test_maxvit": "relative_position_bias_table",
    "test_coatnet": "relative_position_bias_table",
}
FIXED = {"hiera_tiny_224": "pos_embed", "cait_xxs24_224": "pos_embed", "botnet26t_256": "height_rel"}
NO_SUCH_SIZE = ("hiera_tiny_224", "test_maxvit", "test_coatnet", "botnet26t_256", "lambda_resnet26t")


@pytest.mark.parametrize("name", [name for name in SMALL if name not in FIXED])
def test_another_image_size_takes_the_weights(name):
    native = timm.models.get_pretrained_cfg_value(name, "input_size")[-1]
    before, after = small_network(name, native), small_network(name, 64, seed=7)
    report = fill(after, before.state_dict())
    assert not report.initialized
    assert bool(report.resampled) == (name in RESAMPLED)
    assert all(RESAMPLED[name] in changed for changed in report.resampled)
    with torch.no_grad():
        assert after(random_images()).isfinite().all()
    kept, now = before.state_dict(), after.state_dict()
    assert all(torch.equal(kept[key], now[key]) for key in report.matched)


@pytest.mark.parametrize("name", FIXED)
def test_weights_that_timm_does_not_resize_are_refused(name):
    native = timm.models.get_pretrained_cfg_value(name, "input_size")[-1]
    with pytest.raises(ValueError, match=FIXED[name]):
        fill(small_network(name, 64), small_network(name, native).state_dict())


@pytest.mark.faults("T3")
@pytest.mark.parametrize("name", NO_SUCH_SIZE)
def test_a_size_that_a_network_cannot_compute_is_refused_when_it_is_built(name):
    native = timm.models.get_pretrained_cfg_value(name, "input_size")[-1]
    with pytest.raises(UsageError, match=rf"{name}: it is made for images of {native} pixels.*80 pixels.*--image_size"):
        NetworkSpec.named(name, 5).build_empty(80)
    with pytest.raises(UsageError, match="--image_size"):
        create_network(name, 5, 80)


def test_the_check_of_a_size_draws_no_random_number():
    torch.manual_seed(0)
    TimmNetwork(TimmConfig(model="test_resnet", image_size=160))
    expected = torch.rand(1)
    torch.manual_seed(0)
    TimmNetwork(TimmConfig(model="test_resnet", image_size=64))
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("name", SMALL)
def test_layers_go_from_the_input_to_the_head(name):
    network = small_network(name)
    layers, heads = network.layers_above(), head_names(network)
    named = list(network.named_parameters())
    assert layers.keys() == {key for key, _ in named} and heads
    order = [layers[key] for key, _ in named if "rel" not in key]
    assert all(layers[key] == 0 for key in heads)
    assert order[0] == max(order) >= 3 and set(order) == set(range(max(order) + 1))
    if not name.startswith("cait"):  # timm counts its two blocks of the class token beside the last two others
        assert order == sorted(order, reverse=True)
    groups = parameter_groups(network, named, OptimConfig(lr=1.0, layer_decay=0.5))
    rates = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    assert {rates[id(value)] for key, value in named if key in heads} == {1.0}
    assert rates[id(named[0][1])] == 0.5**LEVELS and len(set(rates.values())) == max(order) + 1


def test_shared_rotary_frequencies_are_below_the_blocks():
    network = small_network("vit_small_patch16_rope_mixed_224")
    layers = network.layers_above()
    assert layers["model.rope.freqs"] >= layers["model.blocks.0.attn.qkv.weight"] > 0


def test_both_heads_of_a_distilled_network_are_heads():
    network = small_network("deit_tiny_distilled_patch16_224")
    expected = {f"model.{head}.{part}" for head in ("head", "head_dist") for part in ("weight", "bias")}
    assert head_names(network) == expected
    with torch.random.fork_rng():
        other = TimmNetwork(TimmConfig(model="deit_tiny_distilled_patch16_224", image_size=64, num_classes=3))
    assert fill(other, network.state_dict()).initialized.keys() == expected


@pytest.mark.parametrize("name", SMALL)
def test_every_family_takes_the_layout_that_it_asks_for(name):
    network = small_network(name, timm.models.get_pretrained_cfg_value(name, "input_size")[-1])
    network.laid_out_for(torch.device("cpu"))
    is_contiguous = "lambda" in name or "fastvit" in name  # see vit.models.memory_format
    assert network.memory_format is (torch.contiguous_format if is_contiguous else torch.channels_last)
