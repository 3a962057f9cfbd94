"""The options of the Vision Transformer: the paper's by default, and checked together."""

from dataclasses import FrozenInstanceError

import pytest

from vit.errors import UsageError
from vit.models.vit_config import ViTConfig


def test_the_defaults_are_vit_base_of_the_paper() -> None:
    """Table 1 of Dosovitskiy et al. 2021."""
    config = ViTConfig()
    assert (config.depth, config.embed_dim, config.mlp_dim, config.num_heads) == (12, 768, 3072, 12)
    assert config.num_patches == config.grid_size**2 == 196
    assert config.num_positions == 197 and config.num_prefix_tokens == config.num_read == 1
    with pytest.raises(FrozenInstanceError):
        config.depth = 13


@pytest.mark.parametrize(
    ("values", "num_prefix_tokens", "num_positions", "num_read"),
    [
        ({"pool": "mean"}, 0, 196, None),
        ({"pool": "map", "num_registers": "4"}, 4, 200, None),  # from Python, in quotes
        ({"pool": "cls_mean", "num_registers": 4, "prefix_positions": False}, 5, 196, None),
        ({"pool": "cls_dist"}, 2, 198, 2),
        ({"prefix_positions": False}, 1, 196, 1),
    ],
)
def test_tokens_in_front_of_the_patches(
    values: dict[str, object], num_prefix_tokens: int, num_positions: int, num_read: int | None
) -> None:
    config = ViTConfig(**values)
    found = (config.num_prefix_tokens, config.num_positions, config.num_read)
    assert found == (num_prefix_tokens, num_positions, num_read)


@pytest.mark.parametrize(
    "values",
    [
        {"image_size": 17},
        {"num_heads": 5},
        {"embed_dim": 22, "num_heads": 2, "pos_embed": "sincos2d"},
        {"num_heads": 4, "pos_embed": "rope2d"},
        {"stem": "hybrid"},
        {"patch_size": 1, "stem": "conv"},
        {"embed_dim": 12, "stem": "conv"},
        {"depth": 0},
        {"patch_size": 0},
        {"pool": "max"},
        {"pos_embed": "sincos"},
        {"norm_placement": "sandwich"},
        {"activation": "relu"},
        {"activation": "swiglu", "mlp_ratio": 1.4},
        {"mlp_ratio": 0.04},
        {"num_registers": -1},
        {"pool_norm": True},
        {"pool": "mean", "pool_norm": True, "norm_placement": "post"},
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, object]) -> None:
    with pytest.raises((ValueError, UsageError)):
        ViTConfig(**{"image_size": 16, "patch_size": 4, "embed_dim": 24, "num_heads": 3, **values})
