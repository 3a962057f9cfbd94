"""Recomputed attention is what the fused forward pass did, and the head's share of it is read as the head reads."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from vit.explain.methods import attention_weights, last_attention, patch_map, record_attention
from vit.models.vision_transformer import Attention

KINDS = [
    {}, {"pool": "mean"}, {"norm_placement": "post"}, {"qkv_bias": False, "pos_embed": "none", "qk_norm": True},
    {"pos_embed": "rope2d", "stem": "conv"},
    {"pos_embed": "learned_rope2d_eva", "activation": "swiglu", "mlp_norm": True},
]  # fmt: skip


@pytest.mark.parametrize("values", KINDS, ids=str)
def test_weights_give_what_the_heads_gathered(small, images, values):
    network = small(**values)
    with torch.no_grad(), record_attention(network) as records:
        network(images)
    assert len(records) == 3
    for layer in records:
        gathered = (layer.weights() @ layer.values()).transpose(1, 2).flatten(2)  # (B, T, D)
        assert gathered.std() > 0.1
        assert torch.allclose(gathered[:, : layer.heads.shape[1]], layer.heads, atol=1e-5)
    assert records[-1].heads.shape[1] == (
        1 if network.config.pool == "cls" else 16
    )  # the shortcut of the last block is records


def test_weights_are_those_of_every_token_of_every_image(small, images):
    layers = attention_weights(small(), images)
    assert [tuple(layer.shape) for layer in layers] == [(2, 3, 17, 17)] * 3
    assert all(torch.allclose(layer.sum(dim=-1), torch.ones(2, 3, 17)) and layer.min() > 0 for layer in layers)
    one = attention_weights(small(), images[1:])
    assert all(torch.allclose(a[1], b[0], atol=1e-4) for a, b in zip(layers, one, strict=True))


def test_watching_leaves_the_network_as_it_was(small, images):
    network = small()
    with torch.no_grad():
        before = network(images)
        with record_attention(network):
            during = network(images)
    assert torch.equal(before, during)
    assert not any(module._forward_pre_hooks for module in network.modules())
    with pytest.raises(RuntimeError, match="broken"), record_attention(network):
        raise RuntimeError("broken")
    assert not any(module._forward_pre_hooks for module in network.modules())


def test_the_head_reads_the_class_token_or_the_mean_of_the_patches(small):
    flow = torch.arange(2 * 17 * 17.0).view(2, 17, 17)
    assert torch.equal(patch_map(small(), flow), flow[:, 0, 1:].view(2, 4, 4))
    flow = flow[:, :16, :16]
    assert torch.equal(patch_map(small(pool="mean"), flow), flow.mean(dim=1).view(2, 4, 4))


def test_heads_that_read_several_tokens(small):
    network, flow = small(), torch.rand(18, 18)  # two tokens in front
    network.config = replace(network.config, pool="cls_dist")
    assert torch.allclose(patch_map(network, flow), flow[:2, 2:].mean(dim=0).view(4, 4))
    network.config = replace(network.config, pool="cls_mean")
    expected = (flow[0, 2:] + flow[2:, 2:].mean(dim=0)) / 2
    assert torch.allclose(patch_map(network, flow), expected.view(4, 4))


def test_tokens_in_front_of_the_patches_are_left_out_however_many(small):
    flow = torch.rand(2, 20, 20)  # a class token and three registers
    assert torch.equal(patch_map(small(), flow), flow[:, 0, 4:].view(2, 4, 4))
    assert torch.allclose(patch_map(small(pool="mean"), flow), flow[:, 4:, 4:].mean(dim=1).view(2, 4, 4))


def test_a_patch_that_the_class_token_looks_at_is_marked(small, images):
    network = small(depth=1, num_heads=1, pos_embed="none", embed_dim=8)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.blocks[0].norm1 = nn.Identity()
        network.cls_token[..., 0] = 10.0
        network.blocks[0].attn.qkv.weight[0, 0] = 1.0  # query of the class token
        network.blocks[0].attn.qkv.weight[8, 1] = 1.0  # key: channel 1 of a token
        network.patch_embed.proj.weight[1] = 0.1  # which is how bright its patch is
    assert isinstance(network.blocks[0].attn, Attention)
    picture = torch.zeros(1, 3, 16, 16)
    picture[..., 4:8, 8:12] = 1.0
    (found,) = last_attention(network, picture, torch.tensor([0]))
    assert found.argmax() == 1 * 4 + 2 and found.max() > 10 * found.median()
