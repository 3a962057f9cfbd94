"""The layers of later papers, each against its formula or against timm."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from timm.layers import AttentionPoolLatent
from torch import nn

from vit.models.attend import attend
from vit.models.later_papers import ACTIVATIONS, AttentionPool, DropPath, LayerScale, layer_scale, mean_pool, sincos2d
from vit.models.vision_transformer import Mlp
from vit.models.vit_config import ViTConfig


def test_activations_are_their_formulas() -> None:
    hidden = torch.randn(2, 5, 8)
    assert torch.equal(ACTIVATIONS["gelu"](hidden), F.gelu(hidden))
    assert torch.allclose(ACTIVATIONS["gelu_tanh"](hidden), F.gelu(hidden), atol=1e-3)
    assert torch.allclose(ACTIVATIONS["quick_gelu"](hidden), hidden / (1 + torch.exp(-1.702 * hidden)), atol=1e-6)
    gate, value = hidden[..., :4], hidden[..., 4:]
    assert torch.allclose(ACTIVATIONS["swiglu"](hidden), gate / (1 + torch.exp(-gate)) * value, atol=1e-6)


def test_layer_scale_is_a_factor_for_each_channel_or_nothing() -> None:
    scale = layer_scale(ViTConfig(embed_dim=4, num_heads=2, layer_scale=0.1))
    assert isinstance(scale, LayerScale)
    assert torch.allclose(scale(torch.ones(2, 3, 4)), torch.full((2, 3, 4), 0.1))
    assert isinstance(layer_scale(ViTConfig()), nn.Identity)


def test_drop_path_drops_whole_images_and_keeps_the_expectation() -> None:
    drop = DropPath(0.25)
    torch.manual_seed(0)
    rows = drop(torch.ones(20_000, 2, 3))
    assert (rows == rows[:, :1, :1]).all()
    assert rows.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert rows.mean().item() == pytest.approx(1.0, abs=0.02)  # 5 standard deviations
    assert torch.equal(drop.eval()(torch.ones(100, 2, 3)), torch.ones(100, 2, 3))


def test_fixed_positions_are_those_of_big_vision() -> None:
    """`posemb_sincos_2d` of big_vision/models/vit.py, in numpy."""
    y, x = np.mgrid[:5, :5]
    omega = 1.0 / 10_000.0 ** (np.arange(16) / 15)
    y, x = np.einsum("m,d->md", y.flatten(), omega), np.einsum("m,d->md", x.flatten(), omega)
    expected = np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], axis=1)[None]
    assert np.allclose(sincos2d(5, 64, num_prefix_tokens=0).numpy(), expected, atol=1e-5)
    assert np.allclose(
        sincos2d(5, 64, num_prefix_tokens=1).numpy(), np.pad(expected, ((0, 0), (1, 0), (0, 0))), atol=1e-5
    )


def test_mean_pools_leave_the_prefix_tokens_out() -> None:
    tokens = torch.randn(2, 19, 6)
    sizes = {"image_size": 16, "patch_size": 4, "embed_dim": 6, "num_heads": 2, "num_registers": 2}
    mean = tokens[:, 3:].mean(dim=1)
    assert torch.equal(mean_pool(tokens, ViTConfig(**sizes, pool="patch_mean")), mean)
    both = mean_pool(tokens, ViTConfig(**sizes, pool="cls_mean"))
    assert torch.equal(both, torch.cat((tokens[:, 0], mean), dim=1))


def test_attention_pooling_is_that_of_timm() -> None:
    config = ViTConfig(embed_dim=24, num_heads=3, pool="map")
    ours = AttentionPool(config, Mlp(config), attend)
    theirs = AttentionPoolLatent(24, num_heads=3, norm_layer=nn.LayerNorm).eval()
    theirs.norm.eps = config.norm_eps
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    ours.load_state_dict(theirs.state_dict())
    patches = torch.randn(2, 16, 24)
    assert torch.allclose(ours(patches), theirs(patches), atol=1e-5)
