"""Small ViTs with all parameters moved away from their start, so that no zero hides a difference."""

import pytest
import torch

from vit.models.vision_transformer import VisionTransformer

SMALL = {"image_size": 16, "patch_size": 4, "num_classes": 5, "embed_dim": 24, "depth": 3, "num_heads": 3}


@pytest.fixture
def small():
    """`small(pool="mean", ...)` -> a ViT in evaluation mode, the same for the same values."""

    def make(**values):
        network = VisionTransformer(**{**SMALL, **values})
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
        return network.eval()

    return make


@pytest.fixture
def images():
    return torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
