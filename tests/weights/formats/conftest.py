"""Random networks of other libraries, and ours made from their weights."""

from collections.abc import Callable

import pytest
import torch
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn

from vit.models.spec import create_network
from vit.weights.adapt import fill
from vit.weights.formats.detect import convert_weights
from vit.weights.formats.weight_format import shown_network


@pytest.fixture(scope="session")
def shaken() -> Callable[[nn.Module], nn.Module]:
    """Every parameter moved away from its initial value, so that no zero hides a difference; in evaluation mode."""

    def shake(network: nn.Module) -> nn.Module:
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.05)
        return network.eval()

    return shake


@pytest.fixture(scope="session")
def ours() -> Callable[..., nn.Module]:
    """`ours(weights, name, config, image_size, **given)`: our network from foreign weights of a format."""

    def make(weights, name, config=None, image_size=None, **given):
        found, converted, _ = convert_weights(dict(weights), config or {})
        assert found.name == name
        shown = shown_network(converted.weights, {**converted.options, **given})
        num_classes = len(converted.weights["head.weight"]) if "head.weight" in converted.weights else 3
        network = create_network("vit", num_classes, image_size or shown.image_size, **shown.options)
        report = fill(network, converted.weights, converted.dropped)
        is_resampled = "pos_embed" in converted.weights and image_size not in (None, shown.image_size)
        assert ("pos_embed" in report.resampled) == is_resampled
        assert bool(report.initialized) == ("head.weight" not in converted.weights)
        if report.initialized:
            network.head = nn.Identity()  # features are compared
        return network.eval()

    return make


@pytest.fixture(scope="session")
def same() -> Callable[..., None]:
    """`same(theirs, ours, side)`: two networks give the same numbers for random images, and not all the same ones."""

    def compare(theirs, ours, side):
        images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            expected, found = theirs(images), ours(images)
        assert expected.std() > 0.01
        assert torch.allclose(found, expected, atol=1e-4), (found - expected).abs().max()

    return compare


@pytest.fixture(scope="session")
def resized() -> Callable[..., Tensor]:
    """Positions (1, K + N, D) for another grid, by timm."""
    return lambda positions, grid, prefix=1: resample_abs_pos_embed(positions, [grid, grid], num_prefix_tokens=prefix)
