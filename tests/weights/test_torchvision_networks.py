"""torchvision's CNNs in timm's names compute what torchvision computes, or are refused."""

import pytest
import torch
from torchvision import models

from vit.errors import CheckpointError
from vit.weights.open import open_pretrained
from vit.weights.torchvision_networks import timm_weights


def drawn(name):
    """A network of torchvision all of whose numbers are drawn, also those that start as constants."""
    torch.manual_seed(0)
    network = models.get_model(name, weights=None).eval()
    for key, value in network.state_dict().items():
        if value.is_floating_point() and value.ndim <= 1:
            value.uniform_(0.5, 1.5) if key.endswith(("running_var", "weight")) else value.normal_(0, 0.1)
    return network


@pytest.mark.parametrize("name", ["convnext_tiny", "efficientnet_b0", "mobilenet_v2", "resnet18", "swin_t"])
def test_published_weights_give_the_outputs_of_torchvision(name, monkeypatch):
    network = drawn(name)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", lambda *_, **__: dict(network.state_dict()))
    weights = open_pretrained(f"torchvision:{name}")
    assert weights.class_names[:2] == ("tench", "goldfish") and weights.licence == "bsd-3-clause"
    filled = weights.build(1000)
    assert filled.preprocess.interpolation in ("bilinear", "bicubic") and not weights.guesses()
    images = torch.randn(2, 3, filled.preprocess.image_size, filled.preprocess.image_size)
    with torch.inference_mode():
        torch.testing.assert_close(filled.network.eval()(images), network(images), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_vgg_has_a_linear_layer_where_timm_has_a_convolution():
    weights = drawn("vgg11").state_dict()
    assert timm_weights("vgg11", weights, 224)["pre_logits.fc1.weight"].shape == (4096, 512, 7, 7)


def test_a_network_that_timm_computes_in_another_way_is_refused():
    with pytest.raises(CheckpointError, match="other outputs"):  # other epsilons of the batch norms
        timm_weights("efficientnet_b5", drawn("efficientnet_b5").state_dict(), 128)


def test_weights_of_another_network_are_refused():
    with pytest.raises(CheckpointError, match="not the weights of torchvision's convnext_tiny"):
        timm_weights("convnext_tiny", {"features.0.0.weight": torch.zeros(96, 3, 4, 4)}, 224)
