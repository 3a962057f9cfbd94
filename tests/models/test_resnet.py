"""The small ResNet is timm's, with another stem: the same weights of a seed, results, gradients and layers."""

import pytest
import torch
from timm.models import group_parameters
from timm.models.resnet import BasicBlock, ResNet
from torch import nn

from vit.models.resnet import SmallImageResNet, SmallImageResNetConfig

DEFAULT = {}
SMALL = {"layers": (1, 1, 1, 1), "widths": (32, 64, 128, 256)}
ODD = {"layers": (2, 1, 3, 1), "widths": (16, 16, 24, 8), "num_classes": 3, "zero_init_last": True}
DROPPING = {**SMALL, "drop_rate": 0.2, "drop_path_rate": 0.3}


def of_timm(config):
    network = ResNet(
        BasicBlock,
        config.layers,
        num_classes=config.num_classes,
        channels=config.widths,
        zero_init_last=config.zero_init_last,
        drop_rate=config.drop_rate,
        drop_path_rate=config.drop_path_rate,
    )
    network.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
    network.maxpool = nn.Identity()
    return network


@pytest.mark.parametrize("options", [DEFAULT, SMALL, ODD, DROPPING])
def test_it_is_timms_bit_by_bit(options):
    config = SmallImageResNetConfig(**options)
    found = []
    for make in (of_timm, SmallImageResNet):
        torch.manual_seed(3)
        network = make(config)
        own = network.model if isinstance(network, SmallImageResNet) else network
        images = torch.randn(3, 3, 32, 32)
        logits = network(images)
        logits.square().sum().backward()
        gradients = {name: parameter.grad for name, parameter in own.named_parameters()}
        found.append({"logits": logits, "evaluated": network.eval()(images), **gradients, **own.state_dict()})
    expected, answer = found
    assert list(expected) == list(answer)
    assert [name for name in expected if not torch.equal(expected[name], answer[name])] == []


@pytest.mark.parametrize("options", [DEFAULT, ODD])
def test_its_layers_are_timms(options):
    config = SmallImageResNetConfig(**options)
    timm = of_timm(config)
    layers = group_parameters(timm, timm.group_matcher(coarse=False), reverse=True)
    last = max(layers.values())
    expected = {f"model.{name}": last - layer for name, layer in layers.items()}
    assert SmallImageResNet(config).layers_above() == expected
