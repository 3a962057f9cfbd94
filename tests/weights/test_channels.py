"""Pretrained kernels of three colors for other numbers of channels, against timm's own rule."""

import pytest
import timm
import torch
from timm.models import adapt_input_conv

from vit.models.spec import NetworkSpec
from vit.weights.adapt import adapt, fill


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize(
    "name", ["vit_nano_patch2_8", "vitc_mini_patch4_28", "resnet18_cifar", "resnet18", "convnext_atto"]
)
def test_the_first_layer_of_a_network_takes_other_channels(name: str, channels: int) -> None:
    size = {"vit_nano_patch2_8": 8, "vitc_mini_patch4_28": 28}.get(name, 32)
    before = NetworkSpec.named(name, 3).build(size)
    network = NetworkSpec(name, 3, NetworkSpec.named(name, 3).options, channels).build(size).eval()
    report = fill(network, before.state_dict())
    (kernels,) = network.first_kernels()
    assert list(report.resampled) == [kernels] and f"3 -> {channels} channels" in report.resampled[kernels]
    gray = torch.rand(2, 1, size, size)
    if channels == 1:  # three equal colors give the same answer
        before.eval()
        torch.testing.assert_close(network(gray), before(gray.expand(-1, 3, -1, -1)), rtol=1e-4, atol=1e-4)
    else:
        assert network(gray.expand(-1, channels, -1, -1)).shape == (2, 3)


def test_a_network_of_timm_is_as_timm_builds_it() -> None:
    torch.manual_seed(0)
    weights = timm.create_model("resnet18", num_classes=3).state_dict()
    network = NetworkSpec("resnet18", 3, {}, 5).build(32)
    adapted, _ = adapt(network, {f"model.{name}": value for name, value in weights.items()})
    assert torch.equal(adapted["model.conv1.weight"], adapt_input_conv(5, weights["conv1.weight"]))


def test_kernels_of_other_channels_do_not_fit_three() -> None:
    weights = NetworkSpec("resnet18_cifar", 3, {}, 4).build(32).state_dict()
    with pytest.raises(ValueError, match=r"conv1\.weight"):
        adapt(NetworkSpec("resnet18_cifar", 3).build(32), weights)
