"""EVA-02 and ViTs with EVA's rotary positions by timm, and ours from their weights: the same logits at two sizes."""

import copy

import pytest
import timm
import torch

from vit.models.spec import create_network
from vit.weights.formats.detect import convert_weights
from vit.weights.formats.timm import to_timm
from vit.weights.formats.timm_models import options_of_model

SMALL = {"depth": 2, "embed_dim": 96, "num_heads": 3, "img_size": 56, "patch_size": 14, "num_classes": 7}
OURS = [
    "eva02_tiny_patch14_224",  # queries, keys and values in one matrix, no norm inside the MLP
    "eva02_base_patch14_448",  # three matrices, a norm inside the MLP
    "vit_medium_patch16_rope_reg1_gap_256",  # no learned positions, LayerScale, a register, no class token
]
NOT_OURS = [
    "eva_giant_patch14_224",  # not rotary
    "eva02_base_patch16_clip_224",  # a norm inside attention
    "vit_pe_core_tiny_patch16_384",  # places from 1 with columns first, and pooling of all tokens by 8 heads
    "vit_pe_spatial_tiny_patch16_512",
    "vit_small_patch16_rope_224",  # periods to 100
    "vit_small_patch16_rope_mixed_ape_224",  # learned frequencies
]


def drawn(model: torch.nn.Module) -> torch.nn.Module:
    """Weights of a size at which attention matters, with LayerScale around 0.3, in evaluation mode."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, value in model.named_parameters():
            noise = 0.2 * torch.randn(value.shape, generator=generator)
            value.copy_(noise + (0.3 if "gamma" in name else float("norm" in name and name.endswith("weight"))))
    return model.eval()


@pytest.mark.parametrize("name", OURS)
def test_logits_at_two_image_sizes(name, ours, same):
    theirs = drawn(timm.create_model(name, **{**SMALL, "init_values": 0.3 if "rope" in name else None}))
    known = options_of_model(theirs)
    assert known["pos_embed"] == ("rope2d_eva" if "rope" in name else "learned_rope2d_eva")
    weights = copy.deepcopy(theirs.state_dict())
    for side in (56, 98):
        theirs.set_input_size(img_size=(side, side))
        same(theirs, ours(weights, "EVA (timm)", image_size=side, **known), side)


@pytest.mark.parametrize("name", NOT_OURS)
def test_other_networks_of_the_class_are_left_to_timm(name):
    theirs = timm.create_model(name, **{**SMALL, "embed_dim": 64, "num_heads": 2})
    assert options_of_model(theirs) is None


def test_the_names_alone_do_not_decide():
    theirs = timm.create_model(OURS[0], **SMALL)
    _, converted, _ = convert_weights(theirs.state_dict(), {})
    assert converted.doubt  # a file of such weights needs a name or a config


@pytest.mark.parametrize("positions", ["rope2d", "rope2d_eva", "learned_rope2d_eva"])
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"layer_scale": 0.3, "num_registers": 2, "qk_norm": True, "norm_eps": 1e-5, "qkv_bias": False},
        {"activation": "swiglu", "pool": "patch_mean", "pool_norm": True, "mlp_ratio": 5.34, "prefix_positions": False},
        {"activation": "swiglu", "pool": "mean", "mlp_norm": True, "embed_norm": True},
    ],
    ids=str,
)
def test_our_weights_in_timm(positions, values, same):
    spec = {"patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 3, "pos_embed": positions}
    network = drawn(create_network("vit", 5, 16, **spec, **values))
    state, name, arguments = to_timm(network.state_dict(), network.config)
    theirs = timm.create_model(name, **arguments, num_classes=5)
    theirs.load_state_dict(state)
    same(theirs.eval(), network, 16)


@pytest.mark.parametrize("values", [{"pool": "cls_mean"}, {"activation": "quick_gelu"}, {"stem": "conv"}])
def test_what_timm_has_not_is_refused(values):
    network = create_network("vit_nano_patch2_8", 5, 8, pos_embed="rope2d", **values)
    with pytest.raises(ValueError, match="timm does not have a"):
        to_timm(network.state_dict(), network.config)
