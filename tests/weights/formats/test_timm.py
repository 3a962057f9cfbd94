"""timm's models and ours from their weights: the same logits, at the native and at another size; and back."""

import pytest
import timm
import torch

from vit.models.spec import create_network
from vit.weights.formats.detect import convert_weights
from vit.weights.formats.timm import to_timm
from vit.weights.formats.timm_models import options_of_model, timm_model

FULL = [
    "vit_tiny_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224", "deit3_base_patch16_224",
    "vit_base_patch14_reg4_dinov2", "vit_base_patch16_siglip_224",
]  # fmt: skip
SHRUNK = [
    ("vit_tiny_patch16_224", 48, 64), ("vit_base_patch32_224", 64, 96), ("vit_huge_patch14_224", 42, 28),
    ("deit3_small_patch16_224", 48, 32), ("deit_tiny_distilled_patch16_224", 48, 32),
    ("vit_small_patch14_dinov2", 42, 56), ("vit_small_patch14_reg4_dinov2", 42, 56),
    ("vit_giant_patch14_dinov2", 42, 28), ("vit_base_patch16_siglip_224", 48, 64),
    ("vit_medium_patch16_gap_256", 48, 64), ("vit_base_patch32_clip_quickgelu_224", 64, 96),
]  # fmt: skip
OURS = [
    {}, {"pool": "mean"}, {"pool": "patch_mean", "pool_norm": True, "num_registers": 2}, {"pool": "cls_dist"},
    {"pool": "map", "activation": "gelu_tanh"}, {"qkv_bias": False, "pos_embed": "none"},
    {"layer_scale": 0.1, "num_registers": 4, "prefix_positions": False, "activation": "swiglu"},
    {"qk_norm": True, "embed_norm": True, "norm_eps": 1e-5, "activation": "quick_gelu"},
]  # fmt: skip


def check(theirs, ours, same, native: int, other: int) -> None:
    known = options_of_model(theirs)
    same(theirs, ours(theirs.state_dict(), "timm", **known), native)
    made = ours(theirs.state_dict(), "timm", image_size=other, **known)
    theirs.set_input_size(img_size=other)  # resamples positions
    same(theirs, made, other)


@pytest.mark.parametrize(("name", "native", "other"), SHRUNK)
def test_logits_of_small_versions(name, native, other, shaken, ours, same):
    small = {"depth": 2, "embed_dim": 96, "num_heads": 3, "img_size": native, "num_classes": 7}
    check(shaken(timm.create_model(name, **small)), ours, same, native, other)


def test_queries_and_keys_that_are_normalized(shaken, ours, same):
    small = {"depth": 2, "embed_dim": 96, "num_heads": 3, "img_size": 48, "num_classes": 7, "qk_norm": True}
    theirs = shaken(timm.create_model("vit_base_patch16_224", **small))
    same(theirs, ours(theirs.state_dict(), "timm"), 48)  # the number of heads follows from the norm's width


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_logits_of_full_size(name, shaken, ours, same):
    theirs = shaken(timm.create_model(name, num_classes=10, img_size=timm_model(name).config["input_size"][-1]))
    patch = theirs.patch_embed.patch_size[0]
    check(theirs, ours, same, theirs.patch_embed.img_size[0], 12 * patch)


@pytest.mark.parametrize("values", OURS, ids=str)
def test_our_weights_in_timm(values, shaken, same):
    network = shaken(create_network("vit", 5, 16, patch_size=4, embed_dim=24, depth=2, num_heads=3, **values))
    state, name, arguments = to_timm(network.state_dict(), network.config)
    theirs = timm.create_model(name, **arguments)
    theirs.load_state_dict(state)
    same(theirs.eval(), network, 16)


@pytest.mark.parametrize(
    "values",
    [
        {"pool": "cls_mean"}, {"norm_placement": "post"}, {"pool": "cls_dist", "num_registers": 1},
        {"pool": "cls_dist", "prefix_positions": False}, {"pool": "cls_dist", "pos_embed": "none"},
        {"pool": "map", "activation": "swiglu"},
    ],
)  # fmt: skip
def test_what_timm_has_not_is_refused(values):
    network = create_network("vit_nano_patch2_8", 5, 8, **values)
    with pytest.raises(ValueError, match="timm does not have a ViT"):
        to_timm(network.state_dict(), network.config)


def test_timm_knows_its_models_by_name():
    known = timm_model("deit_tiny_patch16_224.fb_in1k")
    assert known.name == "deit_tiny_patch16_224" and known.config["crop_pct"] == 0.9
    assert known.options["num_heads"] == 3 and known.options["pool"] == "cls"
    assert timm_model("resnet18").options is None and timm_model("no_such_model") is None
    assert timm_model("vit_base_patch16_rpn_224").options is None  # its blocks are others


def test_a_tower_of_openclip(shaken, ours, same):
    small = {"depth": 2, "embed_dim": 96, "num_heads": 3, "img_size": 48, "num_classes": 0}
    theirs = shaken(timm.create_model("vit_base_patch16_siglip_224", **small))
    weights = {f"visual.trunk.{name}": value for name, value in theirs.state_dict().items()}
    weights |= {"logit_scale": torch.ones(()), "text.transformer.x": torch.ones(2)}
    same(theirs, ours(weights, "timm", num_heads=3), 48)


@pytest.mark.parametrize(("scale", "has_head"), [(1.0, False), (0.0, True)])
def test_a_classifier_that_reads_pre_logits_is_dropped_with_it(scale, has_head):
    """Old versions of timm had a layer with tanh in front of the classifier. Published files have zeros behind it."""
    small = {"depth": 1, "embed_dim": 96, "num_heads": 3, "img_size": 48, "num_classes": 7}
    weights = timm.create_model("vit_tiny_patch16_224", **small).state_dict()
    weights["head.weight"] = scale * torch.ones(7, 96)
    layer = {"pre_logits.fc.weight": torch.ones(96, 96), "pre_logits.fc.bias": torch.ones(96)}
    _, converted, _ = convert_weights({**weights, **layer}, {})
    assert ("head.weight" in converted.weights) == has_head and layer.keys() <= converted.dropped.keys()
    assert ("reads pre_logits" in converted.dropped.get("head.weight", "")) != has_head
    assert "head.weight" in convert_weights(weights, {})[1].weights
