"""DINOv3 by timm, Meta and transformers, and ours from their weights: the same features, at two image sizes."""

import re

import pytest
import timm
import torch
from timm.models.eva import checkpoint_filter_fn
from transformers import DINOv3ViTConfig, DINOv3ViTModel

from vit.weights.formats.detect import convert_weights
from vit.weights.formats.timm_models import options_of_model

SMALL = {"depth": 2, "embed_dim": 96, "num_heads": 3, "img_size": 48, "num_classes": 0, "init_values": 0.3}
IN_TRANSFORMERS = {
    "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 192, "image_size": 48,
    "num_register_tokens": 4,
}  # fmt: skip
NAMES = ["vit_small_patch16_dinov3", "vit_small_patch16_dinov3_qkvb", "vit_small_plus_patch16_dinov3_qkvb"]


class ClassToken(torch.nn.Module):
    """The normalized class token, which the head of ours reads."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model.forward_features(images)[:, 0]


def drawn(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Weights of a size at which attention matters, with LayerScale around 0.3."""
    generator = torch.Generator().manual_seed(3)
    values = {k: torch.randn(v.shape, generator=generator) * 0.2 for k, v in model.state_dict().items()}
    return {k: v + 0.3 if "gamma" in k or "layer_scale" in k else v for k, v in values.items()}


@pytest.mark.parametrize("name", NAMES)
def test_timm(name, ours, same):
    theirs = timm.create_model(name, **SMALL).eval()
    theirs.load_state_dict(drawn(theirs))
    known = {"num_heads": 3, "norm_eps": options_of_model(theirs)["norm_eps"]}
    for side in (48, 80):
        same(ClassToken(theirs), ours(theirs.state_dict(), "DINOv3 (timm)", image_size=side, **known), side)


def test_the_mean_of_patches_is_what_timm_pools(ours, same):
    theirs = timm.create_model(NAMES[0], **{**SMALL, "num_classes": 7}).eval()
    theirs.load_state_dict(drawn(theirs))
    known = options_of_model(theirs)
    assert known["pool"] == "patch_mean" and known["pos_embed"] == "rope2d"
    same(theirs, ours(theirs.state_dict(), "DINOv3 (timm)", image_size=48, **known), 48)


@pytest.mark.parametrize("name", NAMES[1:])
def test_meta(name, ours, same):
    theirs = timm.create_model(name, **SMALL).eval()
    released = {}
    for key, value in drawn(theirs).items():
        if key.endswith(("q_bias", "v_bias")):
            continue
        key = re.sub(r"gamma_([12])", r"ls\1.gamma", key).replace("reg_token", "storage_tokens")
        key = key.replace("fc1_g", "w1").replace("fc1_x", "w2")
        released[key.replace("fc2", "w3") if "plus" in name else key] = value
    for block in range(2):
        released[f"blocks.{block}.attn.qkv.bias"] = torch.randn(3 * 96)  # the part of the keys is masked
        released[f"blocks.{block}.attn.qkv.bias_mask"] = torch.ones(3 * 96)
    released["mask_token"] = torch.zeros(1, 96)
    released["rope_embed.periods"] = torch.ones(8)
    names = {"w1": "fc1_g", "w2": "fc1_x", "w3": "fc2"}  # timm's reader leaves these to timm's own files
    in_timm = {re.sub(r"\b(w[123])\b", lambda found: names[found[1]], key): value for key, value in released.items()}
    theirs.load_state_dict(checkpoint_filter_fn(in_timm, theirs))
    for side in (48, 80):
        same(ClassToken(theirs), ours(released, "DINOv3 (Meta)", image_size=side), side)


@pytest.mark.parametrize(
    "values",
    [{}, {"use_gated_mlp": True, "hidden_act": "silu"}, {"hidden_act": "gelu_new"}, {"layer_norm_eps": 0.01}],
    ids=str,
)
def test_transformers(values, ours, same):
    config = DINOv3ViTConfig(**IN_TRANSFORMERS, **values)
    theirs = DINOv3ViTModel(config).eval()
    theirs.load_state_dict(drawn(theirs))
    network = ours(theirs.state_dict(), "DINOv3 (Hugging Face)", config.to_dict(), image_size=48)
    same(lambda images: theirs(images).last_hidden_state[:, 0], network, 48)


@pytest.mark.parametrize("values", [{"use_gated_mlp": True}, {"hidden_act": "relu"}, {"hidden_act": "silu"}], ids=str)
def test_an_activation_that_ours_do_not_have_is_refused(values):
    config = DINOv3ViTConfig(**IN_TRANSFORMERS, **values)
    with pytest.raises(ValueError, match=f"config.json: hidden_act '{config.hidden_act}'"):
        convert_weights(DINOv3ViTModel(config).state_dict(), config.to_dict())


def test_other_rotary_networks_of_timm_are_not_taken_for_dinov3():
    theirs = timm.create_model("vit_small_patch16_rope_224", depth=1, embed_dim=96, num_heads=3, img_size=64)
    assert options_of_model(theirs) is None
    _, converted, _ = convert_weights({**theirs.state_dict(), "reg_token": torch.zeros(1, 4, 96)}, {})
    assert converted.doubt  # a file of such weights needs a name or a config
