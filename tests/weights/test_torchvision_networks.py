"""torchvision's CNNs in timm's names compute what torchvision computes, or are refused."""

import argparse

import pytest
import torch
from torchvision import models

from vit.errors import CheckpointError
from vit.weights import named_model
from vit.weights.named_model import timm_name, timm_weights
from vit.weights.open import open_pretrained

SLOWER = (
    "regnet_x_400mf", "densenet121", "efficientnet_b0", "convnext_tiny", "regnet_y_800mf", "mobilenet_v3_large",
    "efficientnet_v2_s",
)  # fmt: skip


def drawn(name, num_classes=1000):
    """A network of torchvision all of whose numbers are drawn, also those that start as constants."""
    torch.manual_seed(0)
    network = models.get_model(name, weights=None, num_classes=num_classes).eval()
    for key, value in network.state_dict().items():
        if value.is_floating_point() and value.ndim <= 1:
            value.uniform_(0.5, 1.5) if key.endswith(("running_var", "weight")) else value.normal_(0, 0.1)
    return network


@pytest.mark.parametrize(
    "name",
    [
        "mobilenet_v2",
        "resnet18",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("convnext_tiny", "regnet_y_400mf", "swin_t")),
    ],
)
def test_published_weights_give_the_outputs_of_torchvision(name, monkeypatch):
    network = drawn(name)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", lambda *_, **__: dict(network.state_dict()))
    weights = open_pretrained(f"torchvision:{name}")
    assert weights.class_names[:2] == ("tench", "goldfish") and weights.license == "bsd-3-clause"
    filled = weights.build(1000)
    assert filled.preprocess.interpolation in ("bilinear", "bicubic") and not weights.guesses()
    images = torch.randn(2, 3, filled.preprocess.image_size, filled.preprocess.image_size)
    with torch.inference_mode():
        torch.testing.assert_close(filled.network.eval()(images), network(images), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_vgg_has_a_linear_layer_where_timm_has_a_convolution():
    weights = drawn("vgg11").state_dict()
    assert timm_weights("vgg11", weights, 224)["pre_logits.fc1.weight"].shape == (4096, 512, 7, 7)


@pytest.mark.parametrize("named", ["in the file", "by the user"])
@pytest.mark.parametrize(
    "name", ["mobilenet_v3_small", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER)]
)
def test_own_checkpoints_give_the_outputs_of_torchvision(tmp_path, name, named):
    """As torchvision's train.py writes them, with other classes, from several processes."""
    network = drawn(name, 7)
    content = {"model": {f"module.{key}": value for key, value in network.state_dict().items()}, "epoch": 3}
    content |= {"args": argparse.Namespace(model=name)} if named == "in the file" else {}
    torch.save(content, tmp_path / "model_90.pth")
    found = open_pretrained(str(tmp_path / "model_90.pth"), None if named == "in the file" else timm_name(name))
    assert found.num_classes == 7 and found.class_names is None and set(found.guessed) >= {"mean", "std"}
    filled, images = found.build(7, 64), torch.randn(2, 3, 64, 64)
    assert not filled.report.initialized
    with torch.inference_mode():
        torch.testing.assert_close(filled.network.eval()(images), network(images), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("mobilenet_v3_small", "mobilenetv3_small_100"),
        pytest.param("regnet_y_400mf", "regnety_004", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_names_no_network_gets_its_name_as_advice(tmp_path, name, advice):
    torch.save(drawn(name, 3).state_dict(), tmp_path / "mine.pth")
    with pytest.raises(CheckpointError) as caught:
        open_pretrained(str(tmp_path / "mine.pth"))
    assert f"--network {advice} " in caught.value.fix


def test_published_files_are_known_by_their_names(tmp_path):
    network = drawn("mobilenet_v3_small")
    torch.save(network.state_dict(), tmp_path / "mobilenet_v3_small-047dcff4.pth")
    found = open_pretrained(str(tmp_path / "mobilenet_v3_small-047dcff4.pth"))
    assert found.class_names[0] == "tench" and not found.guesses()


def test_networks_that_timm_lacks_are_refused_by_name(tmp_path):
    torch.save(
        {"arch": "shufflenet_v2_x0_5", "state_dict": drawn("shufflenet_v2_x0_5", 3).state_dict()}, tmp_path / "s.pth"
    )
    with pytest.raises(
        CheckpointError, match="timm has no network that computes what torchvision's shufflenet_v2_x0_5"
    ):
        open_pretrained(str(tmp_path / "s.pth"))


def test_tensors_of_another_network_are_refused(tmp_path):
    torch.save(drawn("mobilenet_v3_small", 3).state_dict(), tmp_path / "mine.pth")
    with pytest.raises(CheckpointError, match="not those of mobilenetv3_large_100, which --network names"):
        open_pretrained(str(tmp_path / "mine.pth"), "mobilenetv3_large_100")


def test_a_network_that_timm_computes_in_another_way_is_refused(monkeypatch):
    monkeypatch.setattr(named_model, "_epsilon", lambda network: 0.0)  # of the batch norms
    with pytest.raises(CheckpointError, match="other outputs"):
        timm_weights("mobilenet_v3_small", drawn("mobilenet_v3_small").state_dict(), 128)


def test_weights_of_another_network_are_refused():
    with pytest.raises(CheckpointError, match="not the weights of torchvision's convnext_tiny"):
        timm_weights("convnext_tiny", {"features.0.0.weight": torch.zeros(96, 3, 4, 4)}, 224)
