"""Files as Meta, OpenAI and OpenCLIP released them, made from timm's models, against timm's own readers of them."""

import re

import pytest
import timm
import torch
from timm.models import deit, vision_transformer

SMALL = {"depth": 2, "embed_dim": 96, "num_heads": 3, "img_size": 42, "num_classes": 0}


class Features(torch.nn.Module):
    """What a model of timm would classify."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images):
        return self.model.forward_head(self.model.forward_features(images), pre_logits=True)


def draw(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {k: torch.randn(v.shape, generator=generator) * 0.2 for k, v in model.state_dict().items()}


@pytest.mark.parametrize(
    "name", ["vit_small_patch14_dinov2", "vit_small_patch14_reg4_dinov2", "vit_giant_patch14_dinov2"]
)
def test_dinov2(name, ours, same):
    theirs = timm.create_model(name, **SMALL).eval()
    released = draw(theirs)
    if "reg_token" in released:
        released["register_tokens"] = released.pop("reg_token")
        released["pos_embed"] = torch.randn(1, 10, 96) * 0.2
    for key in [key for key in released if "giant" in name and ".mlp." in key]:
        released[key.replace("fc1", "w12").replace("fc2", "w3")] = released.pop(key)
    released["mask_token"] = torch.zeros(1, 96)
    theirs.load_state_dict(vision_transformer.checkpoint_filter_fn(dict(released), theirs))
    wrapped = {f"module.backbone.{key}": value for key, value in released.items()}
    wrapped["module.dino_head.mlp.0.weight"] = torch.zeros(2, 2)
    same(Features(theirs), ours(wrapped, "DINO, MAE, DeiT III", num_heads=3), 42)


def test_deit3(ours, same):
    theirs = timm.create_model("deit3_small_patch16_224", **{**SMALL, "img_size": 48, "num_classes": 7}).eval()
    released = {re.sub(r"ls([12])\.gamma", r"gamma_\1", key): value for key, value in draw(theirs).items()}
    assert "blocks.0.gamma_1" in released
    filtered = deit.checkpoint_filter_fn({"model": released}, theirs, adapt_layer_scale=True)
    theirs.load_state_dict(filtered)
    same(theirs, ours(released, "DINO, MAE, DeiT III", num_heads=3), 48)


def test_mae_before_and_after_fine_tuning(ours, same):
    options = {**SMALL, "img_size": 48}
    theirs = timm.create_model("vit_base_patch16_224", **options).eval()
    released = draw(theirs)
    theirs.load_state_dict(released)
    decoder = {"mask_token": torch.zeros(1, 1, 32), "decoder_embed.weight": torch.zeros(32, 96)}
    same(Features(theirs), ours({**released, **decoder}, "DINO, MAE, DeiT III", num_heads=3), 48)
    theirs = timm.create_model("vit_base_patch16_224", **{**options, "num_classes": 7}, global_pool="avg").eval()
    released = draw(theirs)
    theirs.load_state_dict(released)
    same(theirs, ours(released, "timm", num_heads=3), 48)


BACK = [
    (r"patch_embed\.proj", "conv1"), (r"pos_embed", "positional_embedding"), (r"blocks\.", "transformer.resblocks."),
    (r"norm_pre", "ln_pre"), (r"^norm", "ln_post"), (r"norm([12])", r"ln_\1"), (r"qkv\.", "in_proj_"),
    (r"attn\.proj", "attn.out_proj"), (r"mlp\.fc1", "mlp.c_fc"), (r"mlp\.fc2", "mlp.c_proj"),
    (r"cls_token", "class_embedding"),
]  # fmt: skip


@pytest.mark.parametrize("quick", [True, False])
def test_openclip(quick, ours, same):
    name = "vit_base_patch16_clip_quickgelu_224" if quick else "vit_base_patch16_clip_224"
    theirs = timm.create_model(name, **{**SMALL, "img_size": 48}).eval()
    released = {"logit_scale": torch.ones(()), "transformer.resblocks.0.ln_1.weight": torch.ones(8)}
    for key, value in draw(theirs).items():
        for ours_name, released_name in BACK:
            key = re.sub(ours_name, released_name, key)
        released[f"visual.{key}"] = value[0, 0] if "class_emb" in key else value[0] if "positional" in key else value
    theirs.load_state_dict(vision_transformer.checkpoint_filter_fn(dict(released), theirs))
    released["visual.proj"] = torch.zeros(96, 8)
    config = {"model_cfg": {"quick_gelu": True}} if quick else {}
    same(Features(theirs), ours(released, "CLIP", config, num_heads=3), 48)
