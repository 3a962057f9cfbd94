"""Small ViTs with all parameters moved away from their start, so that no zero hides a difference."""

import pytest
import torch

from vit.models.vision_transformer import VisionTransformer
from vit.models.vit_config import ViTConfig

SMALL = {"image_size": 16, "patch_size": 4, "num_classes": 5, "embed_dim": 24, "depth": 3, "num_heads": 3}


@pytest.fixture
def small():
    """`small(pool="mean", ...)` -> a ViT in evaluation mode, the same for the same values."""

    def make(**values):
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(0)
            network = VisionTransformer(ViTConfig(**{**SMALL, **values}))
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
        return network.eval()

    return make


@pytest.fixture
def images():
    return torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
