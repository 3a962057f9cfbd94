"""A ViT without parts: with all of them it is the paper's network, and each part that is left out is left out."""

import pytest
import torch

from vit.errors import UsageError
from vit.models.spec import create_network
from vit.models.vision_transformer import VisionTransformer


def images(count=3):
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def awake(network):
    """The same network with a head that is not zero."""
    torch.manual_seed(1)
    torch.nn.init.normal_(network.vit.head.weight)
    return network.eval()


@pytest.mark.parametrize("pool", ["cls", "mean"])
@pytest.mark.parametrize("norms", ["pre", "post"])
def test_with_all_parts_it_is_the_paper_s_network(norms, pool):
    torch.manual_seed(0)
    network = awake(create_network("vit_nano_ablated", 10, norms=norms, pool=pool))
    plain = create_network("vit_nano_patch2_8", 10, norm_placement=norms, pool=pool).eval()
    missing = plain.load_state_dict(network.vit.state_dict())
    assert not missing.missing_keys and not missing.unexpected_keys
    torch.testing.assert_close(network(images()), plain(images()), rtol=1e-4, atol=1e-5)


def test_no_other_part_takes_it_for_the_paper_s_network():
    assert not isinstance(create_network("vit_nano_ablated", 10), VisionTransformer)


def test_without_the_scale_the_queries_are_larger():
    torch.manual_seed(0)
    scaled = awake(create_network("vit_nano_ablated", 10))
    plain = awake(create_network("vit_nano_ablated", 10, scaled=False))
    plain.load_state_dict(scaled.state_dict())
    assert not torch.allclose(plain(images()), scaled(images()), atol=1e-4)
    with torch.no_grad():
        for block in plain.blocks:
            width = block.attn.qkv.weight.shape[1]
            block.attn.qkv.weight[:width] *= block.attn.head_dim**-0.5
            block.attn.qkv.bias[:width] *= block.attn.head_dim**-0.5
    torch.testing.assert_close(plain(images()), scaled(images()), rtol=1e-4, atol=1e-5)


def test_without_residuals_a_silent_branch_leaves_nothing():
    network = awake(create_network("vit_nano_ablated", 10, residuals=False, norms="none"))
    with torch.no_grad():
        for parameter in network.blocks[0].mlp.parameters():
            parameter.zero_()
    one, other = network(images())[:2]
    torch.testing.assert_close(one, other)  # nothing of the image passes


def test_without_norms_there_is_no_norm():
    network = create_network("vit_nano_ablated", 10, norms="none")
    assert not [module for module in network.modules() if isinstance(module, torch.nn.LayerNorm)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"norms": "both"}, "norms"),
        ({"norm_placement": "post"}, "give norms"),
        ({"drop_path_rate": 0.1}, "without parts"),
        ({"norms": "none", "pool": "mean", "pool_norm": True}, "pool_norm"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(options, words):
    with pytest.raises(UsageError, match=words):
        create_network("vit_nano_ablated", 10, **options)
