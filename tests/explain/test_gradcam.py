"""Grad-CAM: the right layer of each kind of network, and an error that helps where there is none."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from tests.explain.conftest import SMALL
from vit.errors import UsageError
from vit.explain import methods
from vit.explain.gradcam import gradcam
from vit.explain.methods import METHODS, choose_methods
from vit.models.ablations import AblatedConfig, AblatedTransformer
from vit.models.network import Network, NetworkConfig
from vit.models.timm_network import SmallImageResNet, SmallImageResNetConfig

pytest.importorskip("pytorch_grad_cam")


def stretched(grid):
    grid = grid.clamp(min=0)
    return (grid - grid.amin()) / (grid.amax() - grid.amin())


def small_resnet(image_size, num_classes, widths):
    return SmallImageResNet(
        SmallImageResNetConfig(image_size=image_size, num_classes=num_classes, layers=(1, 1, 1, 1), widths=widths)
    )


def test_of_a_cnn_it_weights_the_last_features_by_their_gradient():
    torch.manual_seed(0)
    network = small_resnet(32, 4, (4, 4, 8, 8)).eval()
    batch = torch.randn(1, 3, 32, 32)
    (found,) = gradcam(network, batch, torch.tensor([1]))
    assert found.shape == (32, 32)
    features = network.model.forward_features(batch).detach()  # (1, 8, 4, 4), and then their mean and a linear layer
    expected = stretched((features[0] * network.model.fc.weight[1].detach()[:, None, None]).sum(dim=0))
    centers = found[4::8, 4::8]  # it is interpolated; compare where it is nearly exact
    assert np.corrcoef(centers.flatten(), expected.flatten())[0, 1] > 0.98
    assert all(parameter.grad is None for parameter in network.parameters())


def test_of_a_mean_pooled_vit_it_is_the_class_activation_map(small, images):
    network = small(pool="mean")
    found = gradcam(network, images, torch.tensor([1, 2]))
    with torch.no_grad():
        tokens = network.pos_drop(network.patch_embed(images) + network.pos_embed)
        for block in network.blocks:
            tokens = block(tokens)
        normal = network.norm(tokens)
    for place, number in enumerate((1, 2)):
        expected = stretched((normal[place] @ network.head.weight[number].detach()).view(4, 4))
        centers = found[place][2::4, 2::4]
        assert np.corrcoef(centers.flatten(), expected.flatten())[0, 1] > 0.95


@pytest.mark.parametrize(
    "values",
    [{}, {"norm_placement": "post"}, {"norm_placement": "post", "depth": 1}, {"pos_embed": "rope2d"}],
    ids=str,
)
def test_of_a_vit_with_a_class_token_it_depends_on_patches_and_class(small, images, values):
    network = small(**values)
    first, second = (gradcam(network, images, torch.tensor([n, n])) for n in (0, 3))
    assert first.shape == (2, 16, 16) and first.std() > 0
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("values", [{}, {"pool": "mean"}, {"norms": "post"}, {"norms": "post", "depth": 1}], ids=str)
def test_of_a_vit_that_lacks_no_part_it_is_that_of_the_plain_vit(small, images, values):
    """Its blocks are computed without calling them, so that outputs of keys (B, H, T, D / H) come last."""
    plain = {("norm_placement" if name == "norms" else name): value for name, value in values.items()}
    network = small(**plain)
    sizes = {**SMALL, **{name: value for name, value in values.items() if name != "norms"}}
    ablated = AblatedTransformer(AblatedConfig(**sizes, norms=values.get("norms", "pre"))).eval()
    ablated.vit.load_state_dict(network.state_dict(), strict=values.get("norms") != "post")
    classes = torch.tensor([0, 3])
    assert torch.allclose(ablated(images), network(images), atol=1e-5)
    found, expected = gradcam(ablated, images, classes), gradcam(network, images, classes)
    assert expected.std() > 0 and torch.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("values", [{"norms": "none"}, {"scaled": False}, {"norms": "none", "pool": "mean"}], ids=str)
def test_of_a_vit_without_a_part_it_depends_on_patches_and_class(images, values):
    torch.manual_seed(0)
    network = AblatedTransformer(AblatedConfig(**SMALL, **values)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    first, second = (gradcam(network, images, torch.tensor([n, n])) for n in (0, 3))
    assert first.shape == (2, 16, 16) and first.std() > 0
    assert not torch.allclose(first, second)


class Attending(Network):
    """Attention without a convolution: queries (B, H, T, D / H) have four dimensions, and are not a map of an image."""

    def __init__(self):
        super().__init__(NetworkConfig(image_size=16, num_classes=2))
        self.tokens, self.queries, self.head = nn.Linear(48, 8), nn.Identity(), nn.Linear(8, 2)

    def forward(self, images):
        patches = nn.functional.unfold(images, 4, stride=4).transpose(1, 2)  # (B, 16, 48)
        heads = self.queries(self.tokens(patches).unflatten(2, (2, 4)).transpose(1, 2))  # (B, 2, 16, 4)
        return self.head(heads.transpose(1, 2).flatten(2).mean(dim=1))

    def no_weight_decay(self):
        return set()


def test_keys_and_queries_are_not_taken_for_features(images):
    with pytest.raises(UsageError, match="features have positions"):
        gradcam(Attending(), images, torch.tensor([0, 0]))


class Placeless(Network):
    """Features that say of themselves how their channels lie: a Swin's come last, which grad-cam would misread."""

    def __init__(self, output_fmt):
        super().__init__(NetworkConfig(image_size=16, num_classes=2))
        self.model = nn.Conv2d(3, 8, 4, 4)
        self.model.output_fmt = output_fmt
        self.head = nn.Linear(8, 2)

    def forward(self, images):
        return self.head(self.model(images).mean(dim=(2, 3)))

    def no_weight_decay(self):
        return set()


def test_a_network_without_places_is_refused(images):
    class_names = torch.tensor([0, 0])
    assert gradcam(Placeless("NCHW"), images, class_names).shape == (2, 16, 16)
    with pytest.raises(UsageError, match="features have positions"):
        gradcam(Placeless("NHWC"), images, class_names)
    flat = Placeless("NCHW")
    flat.model = nn.Conv2d(3, 8, 16, 16)
    with pytest.raises(UsageError, match="features have positions"):
        gradcam(flat, images, class_names)


def test_without_the_package_the_error_says_what_to_install(small, images, monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_grad_cam", None)
    with pytest.raises(UsageError, match="grad-cam") as error:
        gradcam(small(), images, torch.tensor([0, 0]))
    assert "[explain]'; or --method rollout" in str(error.value)
    monkeypatch.setattr(methods, "find_spec", lambda name: None)
    assert set(choose_methods("all", small())) == set(METHODS) - {"gradcam"}


def test_methods_by_name(small):
    assert list(choose_methods("all", small())) == list(METHODS)
    assert list(choose_methods("best", small())) == ["relevance"]
    assert list(choose_methods("best, gradcam", small())) == ["relevance", "gradcam"]
    assert list(choose_methods("gradcam, rollout", small())) == ["gradcam", "rollout"]
    with pytest.raises(UsageError, match=r"'rolout'.*'rollout'"):
        choose_methods("rolout", small())
    cnn = small_resnet(8, 2, (2, 2, 2, 2))
    assert list(choose_methods("all", cnn)) == ["gradcam"]
    with pytest.raises(UsageError, match=r"SmallImageResNet.*gradcam"):
        choose_methods("attention", cnn)
