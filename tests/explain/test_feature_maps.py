"""Grad-CAM of timm's networks: its maps lie as the image does, whatever the layout of the network's features."""

import numpy as np
import pytest
import torch

from tests.timm_networks import SMALL, random_images, small_network
from vit.errors import UsageError
from vit.explain.gradcam import gradcam, last_features

pytestmark = pytest.mark.usefixtures("small_timm")

pytest.importorskip("pytorch_grad_cam")
IMAGE = 128
SLOW = ("botnet26t_256", "lambda_resnet26t", "test_maxvit")
CLASS = torch.tensor([0])
LAYOUTS = {
    "swin_tiny_patch4_window7_224": ("channels last", 16),
    "hiera_tiny_224": ("tokens", 4),
    "vit_tiny_patch16_224": ("tokens", 8),
    "convnext_atto": ("channels first", 4),
}


def quarters(values):
    """Means of the four quarters (2, 2) of a map (h, w)."""
    return torch.nn.functional.adaptive_avg_pool2d(values[None], 2)[0]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in SMALL])
def test_the_features_under_the_map_follow_an_edited_corner(name):
    network, (image,) = small_network(name, IMAGE), 0.1 * random_images(IMAGE, 1)
    edited = image.clone()
    edited[:, : IMAGE // 4, -IMAGE // 4 :] = 3 * random_images(IMAGE // 4, 1)[0]  # top right
    found = gradcam(network, edited.expand(network.num_classes, -1, -1, -1), torch.arange(network.num_classes))
    assert found.shape == (network.num_classes, IMAGE, IMAGE) and found.isfinite().all() and found.std() > 0
    kept = []
    module, to_map = last_features(network, edited[None], CLASS)
    module.register_forward_hook(lambda _, __, output: kept.append(to_map(output)))
    with torch.no_grad():
        network(image[None])
        network(edited[None])
    change = quarters((kept[1] - kept[0])[0].square().mean(dim=0).sqrt())
    assert change[0, 1] > 1.5 * change.flatten()[[0, 2, 3]].max(), change


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_map_is_the_sum_of_features_weighted_by_their_gradient(name):
    network, images = small_network(name, IMAGE), random_images(IMAGE, 1)
    (found,) = gradcam(network, images, CLASS)
    module, to_map = last_features(network, images, CLASS)
    kept = []
    handle = module.register_forward_hook(lambda _, __, output: kept.append(output))
    logit = network(images)[0, CLASS].sum()
    handle.remove()
    (gradient,) = torch.autograd.grad(logit, kept)
    expected = (to_map(gradient).mean(dim=(2, 3), keepdim=True) * to_map(kept[0])).sum(dim=1)[0].clamp(min=0).detach()
    side = IMAGE // len(expected)
    centers = found[side // 2 :: side, side // 2 :: side]  # the map is interpolated, and nearly exact in the centers
    assert expected.std() > 0 and np.corrcoef(centers.flatten(), expected.flatten())[0, 1] > 0.95


@pytest.mark.parametrize("name", LAYOUTS)
def test_features_become_the_maps_that_timm_gives(name):
    network, images = small_network(name, IMAGE), random_images(IMAGE, 1)
    module, to_map = last_features(network, images, CLASS)
    kept = []
    module.register_forward_hook(lambda _, __, output: kept.append(to_map(output)))
    with torch.no_grad():
        network(images)
        maps = network.model.forward_intermediates(images, output_fmt="NCHW", intermediates_only=True)
    assert any(one.shape == kept[0].shape and torch.allclose(one, kept[0], atol=1e-4) for one in maps)
    layout, side = LAYOUTS[name]
    assert to_map.layout == layout and kept[0].shape[2:] == (side, side)


@pytest.mark.faults("T2")
def test_features_of_unknown_layout_are_refused():
    network = small_network("swin_tiny_patch4_window7_224")

    class Bare(torch.nn.Module):  # a network without forward_intermediates, whose channels come last
        output_fmt = "NHWC"

        def __init__(self, model):
            super().__init__()
            self.inner = [model]

        def forward(self, images):
            return self.inner[0](images)

    network.model = Bare(network.model)
    with pytest.raises(UsageError, match="features have positions; give a CNN"):
        gradcam(network, random_images(), torch.tensor([0, 1]))
