"""Attention of timm's ViTs: what is read is what the network computed with, and equals ours for the same weights."""

import pytest
import timm
import torch

from tests.timm_networks import VITS, random_images, small_create, small_network
from vit.errors import UsageError
from vit.explain.methods import (
    attention_weights,
    choose_methods,
    last_attention,
    num_readable_blocks,
    relevance,
    rollout,
)
from vit.explain.timm_attention import attention_modules, read_weights
from vit.models.timm_network import TimmConfig, TimmNetwork
from vit.models.vision_transformer import VisionTransformer
from vit.models.vit_config import ViTConfig

pytestmark = pytest.mark.usefixtures("small_timm")

READ = [name for name in VITS if name != "vit_small_patch16_rope_mixed_224"] + ["vit_small_patch16_rope_mixed_224"]


def values(module, tokens):
    """v of an attention module of timm (B, H, T, D / H), computed from its parameters alone."""
    if getattr(module, "qkv", None) is not None:
        v = tokens @ module.qkv.weight.chunk(3)[2].T
        bias = module.qkv.bias.chunk(3)[2] if module.qkv.bias is not None else getattr(module, "v_bias", None)
    else:
        v, bias = tokens @ module.v_proj.weight.T, module.v_proj.bias
    v = v if bias is None else v + bias
    return v.unflatten(-1, (module.num_heads, -1)).transpose(1, 2)


@pytest.mark.parametrize("name", READ)
def test_weights_give_what_the_blocks_computed(name):
    network, images = small_network(name), random_images()
    entered, left = [], []
    for module in attention_modules(network):
        module.register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
        module.proj.register_forward_pre_hook(lambda _, inputs: left.append(inputs[0]))
    with torch.no_grad():
        fused = network(images)
        before = list(left)
        entered.clear()
        with read_weights(network) as weights:
            slow = network(images)
    assert (fused - slow).abs().max() < 1e-4 * fused.abs().max()
    assert all(module.fused_attn for module in attention_modules(network))
    assert len(weights) == 2 == num_readable_blocks(network)
    for seen, tokens, expected, module in zip(weights, entered, before, attention_modules(network), strict=True):
        assert torch.allclose(seen.sum(dim=-1), torch.ones(seen.shape[:-1]), atol=1e-5)
        found = (seen @ values(module, tokens)).transpose(1, 2).flatten(2)
        found = module.norm(found) if hasattr(module, "norm") else found
        assert expected.std() > 1e-3 and torch.allclose(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("method", ["attention", "rollout", "relevance"])
def test_maps_have_a_number_for_each_patch(name, method):
    network, images = small_network(name), random_images()
    maps = choose_methods(method, network)[method](network, images, torch.tensor([0, 3]))
    assert maps.shape == (2, 4, 4) and maps.isfinite().all() and maps.min() >= 0 and maps.std() > 0


@pytest.mark.parametrize(("theirs", "ours"), [("token", "cls"), ("avg", "patch_mean")])
def test_a_plain_vit_gives_the_maps_of_ours(theirs, ours, monkeypatch):
    monkeypatch.setattr(
        timm, "create_model", lambda name, **options: small_create(name, global_pool=theirs, fc_norm=False, **options)
    )
    network, images = small_network("vit_tiny_patch16_224"), random_images()
    sizes = {"image_size": 64, "num_classes": 5, "patch_size": 16, "embed_dim": 48, "depth": 2, "num_heads": 2}
    same = VisionTransformer(ViTConfig(**sizes, pool=ours)).eval()
    same.load_state_dict(network.model.state_dict())
    with torch.no_grad():
        assert torch.allclose(network(images), same(images), atol=1e-5)
    for method in (last_attention, rollout, relevance):
        found, expected = (method(one, images, torch.tensor([1, 4])) for one in (network, same))
        assert torch.allclose(found, expected, atol=1e-5) and expected.std() > 1e-4, method.__name__


@pytest.mark.faults("T1")
@pytest.mark.parametrize("name", ["swin_tiny_patch4_window7_224", "hiera_tiny_224", "cait_xxs24_224", "convnext_atto"])
def test_other_networks_say_which_method_they_have(name):
    network = small_network(name)
    assert list(choose_methods("best", network)) == ["gradcam"] and num_readable_blocks(network) == 0
    with pytest.raises(UsageError, match=r"rollout needs a ViT .* of timm; choose --method gradcam"):
        choose_methods("rollout", network)
    with pytest.raises(UsageError, match="choose --method gradcam"):
        attention_weights(network, random_images())


def test_two_attentions_in_one_block_are_refused():
    network = TimmNetwork.__new__(TimmNetwork)
    torch.nn.Module.__init__(network)
    network.config = TimmConfig(model="vit_tiny_patch16_224", image_size=64)
    from timm.models.vision_transformer import ParallelThingsBlock
    from timm.models.vision_transformer import VisionTransformer as Theirs

    network.model = Theirs(img_size=64, embed_dim=48, depth=1, num_heads=2, block_fn=ParallelThingsBlock)
    with pytest.raises(UsageError, match="ParallelThingsBlock cannot be read"):
        attention_modules(network)


def test_fused_attention_is_on_again_after_an_error():
    network = small_network("vit_tiny_patch16_224")
    with pytest.raises(RuntimeError, match="broken"), read_weights(network):
        raise RuntimeError("broken")
    assert all(module.fused_attn for module in attention_modules(network))
    assert not any(module._forward_pre_hooks for module in network.modules())
