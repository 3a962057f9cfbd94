"""The copy that computes predictions gives the logits of the network itself."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from vit.data.pixels.preprocess import Preprocess
from vit.inference import deployment as module
from vit.inference.deployment import PackedLinear, PackedViT, can_pack, prepared
from vit.inference.engine import CPU_BYTES, Engine, images_of_a_pass
from vit.models.timm_network import SmallImageResNet, SmallImageResNetConfig, TimmConfig, TimmNetwork
from vit.models.vision_transformer import VisionTransformer
from vit.models.vit_config import ViTConfig

CPU = torch.device("cpu")
SIZES = {"image_size": 16, "num_classes": 5, "patch_size": 4, "embed_dim": 48, "depth": 2, "num_heads": 3}
VARIANTS = [
    {},
    {"activation": "quick_gelu"},
    {"activation": "swiglu"},
    {"pool": "mean", "pool_norm": True},
    {"pool": "map"},
    {"pool": "cls_dist"},
    {"norm_placement": "post"},
    {"qk_norm": True},
    {"layer_scale": 0.5, "num_registers": 2},
    {"embed_norm": True, "pos_embed": "none"},
    {"qkv_bias": False},
    {"pos_embed": "rope2d", "num_registers": 2},
    {"pos_embed": "learned_rope2d_eva", "activation": "swiglu", "mlp_norm": True},
    {"stem": "conv"},
]
needs_packing = pytest.mark.skipif(not can_pack(torch.bfloat16), reason="this CPU does not compute in bfloat16")


def images(side=16):
    return torch.randn(6, 3, side, side, generator=torch.Generator().manual_seed(1))


def vit(**options):
    torch.manual_seed(0)
    network = VisionTransformer(ViTConfig(**SIZES, **options)).eval()
    for head in (network.head, network.head_dist):
        if head is not None:  # a head starts at zero, where every network has the same logits
            nn.init.normal_(head.weight, std=0.1)
    return network


def resnet(image_size=16):
    torch.manual_seed(0)
    network = SmallImageResNet(SmallImageResNetConfig(image_size=image_size, widths=(8, 8, 16, 16))).eval()
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            for values in (part.weight, part.running_var):
                nn.init.uniform_(values, 0.5, 1.5)
            for values in (part.bias, part.running_mean):
                nn.init.uniform_(values, -0.5, 0.5)
    return network


@torch.no_grad()
def errors(network, computed, side=16):
    """Root mean square errors of autocast and of the copy, as fractions of the spread of the logits."""
    exact = network(images(side))
    with torch.autocast("cpu", torch.bfloat16):
        found = [network(images(side)).float(), computed(images(side)).float()]
    return [((logits - exact).square().mean().sqrt() / exact.std()).item() for logits in found]


@needs_packing
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_a_packed_vit_is_as_exact_as_autocast(options):
    network = vit(**options)
    computed = prepared(network, CPU, "bf16-mixed")
    assert isinstance(computed, PackedViT)
    autocast, own = errors(network, computed)
    assert 0 < own < max(2 * autocast, 0.01)


@needs_packing
def test_logits_are_float32_to_the_last_digit():
    with torch.inference_mode():
        logits = prepared(vit(), CPU, "bf16-mixed")(images())
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, logits.to(torch.bfloat16).float())


@needs_packing
@pytest.mark.parametrize("rows", [(1,), (3, 5), (2, 197)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_layer_computes_any_number_of_rows(rows, bias):
    linear = nn.Linear(24, 40, bias=bias).to(torch.bfloat16)
    tokens = torch.randn(*rows, 24, dtype=torch.bfloat16)
    expected = nn.functional.gelu(linear.float()(tokens.float()))
    found = PackedLinear(linear, torch.bfloat16, "gelu")(tokens).float()
    torch.testing.assert_close(found, expected, atol=1e-2, rtol=1e-2)


@pytest.mark.skipif(not can_pack(torch.float32), reason="this CPU is not of Intel's or AMD's newer ones")
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_a_packed_vit_in_float32_is_the_network_to_rounding(options):
    network = vit(**options)
    computed = prepared(network, CPU, "32-true")
    assert isinstance(computed, PackedViT)
    with torch.inference_mode():
        torch.testing.assert_close(computed(images()), network(images()), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("make", [resnet, vit])
def test_float32_equals_the_network(make):
    network = make()
    before = copy.deepcopy(network.state_dict())
    with torch.inference_mode():
        torch.testing.assert_close(prepared(network, CPU, "32-true")(images()), network(images()), atol=1e-5, rtol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_batch_norm_is_folded_into_convolutions():
    computed = prepared(resnet(), CPU, "bf16-mixed")
    assert not any(isinstance(part, nn.BatchNorm2d) for part in computed.modules())
    autocast, own = errors(resnet(), computed)
    assert own < max(2 * autocast, 0.01)


@pytest.mark.parametrize("name", ["resnet10t", "mobilenetv3_small_050", "convnext_atto", "vit_tiny_patch16_224"])
def test_networks_of_timm(name):
    torch.manual_seed(0)
    network = TimmNetwork(TimmConfig(model=name, image_size=32, num_classes=5)).eval()
    autocast, own = errors(network, prepared(network, CPU, "bf16-mixed"), side=32)
    assert own < max(2 * autocast, 0.01)


def test_a_network_that_cannot_be_folded_stays_as_it_is(monkeypatch):
    def fail(model):
        raise TypeError

    monkeypatch.setattr("torch.fx.experimental.optimization.fuse", fail)
    network = resnet()
    with torch.inference_mode():
        assert torch.equal(prepared(network, CPU, "32-true")(images()), network(images()))


def test_without_packed_layers_autocast_finds_cast_weights(monkeypatch):
    monkeypatch.setattr(module, "can_pack", lambda dtype: False)
    network = vit()
    computed = prepared(network, CPU, "bf16-mixed")
    assert computed.head.weight.dtype == torch.bfloat16
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(computed(images()), network(images()))


def test_adapters_are_merged():
    class Twice(nn.Module):
        def forward(self, weight):
            return 2 * weight

    network = vit()
    parametrize.register_parametrization(network.blocks[0].mlp.fc1, "weight", Twice())
    with torch.inference_mode():
        expected = network(images())
        torch.testing.assert_close(prepared(network, CPU, "32-true")(images()), expected, atol=1e-5, rtol=1e-5)
    assert parametrize.is_parametrized(network.blocks[0].mlp.fc1)


@pytest.mark.parametrize("make", [resnet, vit])
def test_a_gpu_computes_with_weights_that_are_cast_once(make):
    network = make()
    computed = prepared(network, torch.device("cuda"), "bf16-mixed")  # computed here on the CPU
    assert computed is not network
    autocast, own = errors(network, computed)
    assert own < max(2 * autocast, 0.01) and (make is resnet or own == autocast)


def test_another_accelerator_computes_with_the_network_itself():
    network = vit()
    assert prepared(network, torch.device("mps"), "bf16-mixed") is network


def test_a_large_batch_is_computed_in_parts():
    network = vit(mlp_ratio=4.0)
    count = images_of_a_pass(network, "bf16-mixed")
    assert count == CPU_BYTES // (17 * 192 * 2) == 2 * images_of_a_pass(network, "32-true")
    assert images_of_a_pass(resnet(224), "bf16-mixed") == 16
    engine = Engine(network, Preprocess(16), CPU, "32-true")
    pixels = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8)
    whole = engine.logits(pixels)
    engine._max_images = 2
    torch.testing.assert_close(engine.logits(pixels), whole, atol=1e-5, rtol=1e-5)
