"""The layers of later papers, each against its formula or against timm."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from timm.layers import AttentionPoolLatent
from torch import nn

from vit.models.attend import attend
from vit.models.later_papers import (
    ACTIVATIONS,
    AttentionPool,
    ConvStem,
    DropPath,
    LayerScale,
    RotaryPositions,
    layer_scale,
    mean_pool,
    sincos2d,
)
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


def test_rotated_queries_and_keys_see_the_offset_of_two_patches_alone() -> None:
    config = ViTConfig(image_size=20, patch_size=4, embed_dim=32, num_heads=2, pos_embed="rope2d", num_registers=1)
    rotate, (q, k) = RotaryPositions(config), torch.randn(2, 16)
    heads = torch.stack((q, k))[:, None, None].expand(2, 1, 2 + 25, 16)  # one query and one key at every place
    turned = rotate(heads)
    assert torch.equal(turned[:, :, :2], heads[:, :, :2])  # class token and register
    assert torch.equal(rotate(heads[:, :, :2]), heads[:, :, :2])
    scores = (turned[0, 0, 2:] @ turned[1, 0, 2:].T).view(5, 5, 5, 5)
    for dy, dx in ((0, 0), (1, 0), (0, 1), (2, -1)):
        same = [scores[y, x, y + dy, x + dx] for y in range(5 - dy) for x in range(max(0, -dx), 5 - max(0, dx))]
        assert torch.allclose(torch.stack(same), same[0].expand(len(same)), atol=1e-4)
    assert len(scores[2, 2].flatten().unique()) == 25


@pytest.mark.parametrize("patch_size", [2, 4, 8, 16])
def test_the_convolutional_stem_makes_a_token_of_each_patch(patch_size: int) -> None:
    config = ViTConfig(image_size=32, patch_size=patch_size, embed_dim=16, num_heads=2, stem="conv")
    stem = ConvStem(config).eval()
    image = torch.randn(1, 3, 32, 32)
    tokens = stem(image)
    assert tokens.shape == (1, config.num_patches, 16)
    image[..., -1, -1] += 10.0  # the last pixel reaches the last patch, and not the first one
    moved = (stem(image) - tokens).abs().sum(dim=2)[0] > 0
    assert moved[-1] and (patch_size == 16 or not moved[0])


def test_the_stem_of_xiao_et_al() -> None:
    """Table 1 of arXiv 2106.14881: ViT_C-1GF has 24, 48, 96 and 192 channels, and 192 after the 1x1 convolution."""
    stem = ConvStem(ViTConfig(embed_dim=192, num_heads=3, stem="conv"))
    kernels = [layer.weight.shape for layer in stem.layers if isinstance(layer, nn.Conv2d)]
    assert [tuple(shape) for shape in kernels] == [(24, 3, 3, 3), (48, 24, 3, 3), (96, 48, 3, 3), (192, 96, 3, 3)]
    assert stem.proj.weight.shape == (192, 192, 1, 1)
