"""Features come out of the forward pass that computes the logits, for networks of every kind."""

import pytest
import torch
from torch import nn

from vit.models.heads import classifier_names, with_features
from vit.models.spec import create_network
from vit.models.timm_network import SmallImageResNet, SmallImageResNetConfig, TimmConfig, TimmNetwork
from vit.models.vision_transformer import VisionTransformer
from vit.models.vit_config import ViTConfig


def tiny_vit(pool):
    return VisionTransformer(
        ViTConfig(image_size=8, patch_size=4, num_classes=5, embed_dim=12, depth=1, num_heads=2, pool=pool)
    )


NETWORKS = {
    "cls": (lambda: tiny_vit("cls"), 12),
    "cls_dist": (lambda: tiny_vit("cls_dist"), 12),
    "ablated": (lambda: create_network("vit_nano_ablated", 5, pool="cls_dist"), 64),
    "cls_mean": (lambda: tiny_vit("cls_mean"), 24),
    "map": (lambda: tiny_vit("map"), 12),
    "resnet": (
        lambda: SmallImageResNet(
            SmallImageResNetConfig(image_size=8, num_classes=5, layers=(1, 1, 1, 1), widths=(4, 4, 4, 6))
        ),
        6,
    ),
    "timm": (lambda: TimmNetwork(TimmConfig(model="test_resnet", image_size=16, num_classes=5)), None),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_logits_stay_and_the_features_explain_them(name):
    make, width = NETWORKS[name]
    network = make().eval()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.2)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    images = torch.randn(3, 3, network.image_size, network.image_size)
    made = with_features(network, classifier_names(network))
    with torch.inference_mode():
        logits, features = made(images).tensor_split([5], dim=1)
        assert torch.equal(logits, network(images))
        (*others, last) = (network.get_submodule(part) for part in classifier_names(network))
        assert others or torch.allclose(last(features), logits, atol=1e-5)
    assert features.shape[1] == (width or features.shape[1]) and features.shape[1] > 0
    assert network.state_dict().keys() == before.keys()  # the network itself is as it was
    assert {id(value) for value in made.parameters()} == {id(value) for value in network.parameters()}
