"""Names of timm, which are ours as well, of Meta and of torchvision; and our ViTs as models of timm

timm releases ViT, DeiT, AugReg, SigLIP, DINO and others under these names. Meta's are those of DINO, DINOv2, MAE and
DeiT III as released. Sources: timm 1.0; facebookresearch/dino, dinov2, mae and deit on GitHub;
torchvision/models/vision_transformer.py.
"""

import math
from collections.abc import Set
from typing import Any

from torch import nn

from vit.models.catalog import Options
from vit.models.vit_config import ViTConfig
from vit.weights.formats import rotary
from vit.weights.formats.huggingface import with_position_in_class_token
from vit.weights.formats.weight_format import (
    Config,
    Converted,
    Weights,
    having,
    published_heads,
    renamed,
    translated,
    weight_format,
    without,
    without_pre_logits,
)
from vit.weights.preprocess_config import IMAGENET, PreprocessValues

_TOWER = "visual.trunk."  # an image tower of OpenCLIP that is a model of timm
_WIDE_SIGLIP = 1536  # heads of 96 channels, where DINOv2's giant has 64
_POOLS = {"cls": "token", "cls_dist": "token", "mean": "avg", "patch_mean": "avg", "map": "map"}


is_timm = having(*({f"{at}patch_embed.proj.weight", f"{at}blocks.0.attn.qkv.weight"} for at in ("", _TOWER)))


@weight_format("timm", is_timm)
def timm(weights: Weights, config: Config) -> Converted:
    """timm's weights. A `dist_token` without its own head is a register. Old files have a layer `pre_logits`."""
    weights, dropped = without_pre_logits(weights, "head.weight")
    if any(name.startswith(_TOWER) for name in weights):
        left_out = {r"visual\.(?!trunk\.).*": "the map into CLIP's common space", r"(?!visual\.).*": "the text tower"}
        weights, others = without(weights, left_out)
        dropped |= others
    weights = {name.removeprefix(_TOWER): value for name, value in weights.items()}
    if "dist_token" in weights and "head_dist.weight" not in weights:
        weights = renamed(weights, {"dist_token": "reg_token"})
    options: Options = {"norm_eps": 1e-5} if "norm_pre.weight" in weights else {}  # CLIP's
    preprocess: PreprocessValues = {**IMAGENET, "interpolation": "bicubic"}
    return Converted(weights, options, dropped, preprocess, _undecided(weights), _doubt(weights))


def _undecided(weights: Weights) -> tuple[str, ...]:
    """Options in which timm's models of these names differ: CLIP has GELU or quick GELU, SigLIP GELU or its tanh."""
    if "norm_pre.weight" in weights:
        return ("activation",)
    if "cls_token" in weights or not {"blocks.0.attn.qkv.bias", "pos_embed"} <= weights.keys():
        return ()
    if "blocks.0.ls1.gamma" in weights or "fc_norm.weight" in weights:
        return ()
    is_wide = weights["pos_embed"].shape[-1] == _WIDE_SIGLIP
    return ("activation",) if "attn_pool.latent" in weights and not is_wide else ("activation", "num_heads")


def _doubt(weights: Weights) -> str:
    """Networks of timm with other blocks, under names and shapes that a plain ViT could have."""
    if "pos_embed" not in weights:
        return "networks with rotary or relative positions"
    mean_norm = "fc_norm.weight" in weights and "cls_token" not in weights
    plain = {"blocks.0.attn.qkv.bias", "blocks.0.ls1.gamma", "reg_token"} & weights.keys()
    return "timm's vit_base_patch16_rpn_224, which normalizes after each branch" if mean_norm and not plain else ""


_META_RULES = {
    r"blocks\.(\d+)\.gamma_([12])": r"blocks.\1.ls\2.gamma",
    r"blocks\.(\d+)\.mlp\.w12\.(.*)": r"blocks.\1.mlp.fc1.\2",
    r"blocks\.(\d+)\.mlp\.w3\.(.*)": r"blocks.\1.mlp.fc2.\2",
    "register_tokens": "reg_token",
}
_META_LEFT_OUT = {
    "mask_token": "hides patches in pretraining alone",
    r"decoder_.*": "paints pixels in pretraining alone",
    r"(dino_head|ibot_head|head\.(mlp|last_layer))\b.*": "a head for pretraining alone",
}
_RELEASED = (192, 384, 512, 768, 1024, 1280, 1536)  # widths of the released networks
_ROTARY = "timm's ViTs with rotary positions (vit_base_patch16_rope_224)"


def is_meta(names: Set[str]) -> bool:
    """Whether there is a name that timm's files do not have."""
    marks = {"mask_token", "register_tokens", "blocks.0.gamma_1", "blocks.0.mlp.w12.weight", "head.mlp.0.weight"}
    return is_timm(names) and bool(marks & names)


@weight_format("DINO, MAE, DeiT III", is_meta)
def meta(weights: Weights, config: Config) -> Converted:
    """DINOv2 with registers has a position for the class token alone: it is added to that token here."""
    num_positions = weights["pos_embed"].shape[1] if "pos_embed" in weights else 0
    has_class_position = math.isqrt(num_positions) ** 2 != num_positions  # as in all releases but DeiT III
    doubt = _ROTARY if "blocks.0.gamma_1" in weights and not has_class_position else ""
    weights, dropped = translated(weights, _META_LEFT_OUT, _META_RULES)
    width = weights["blocks.0.attn.qkv.weight"].shape[-1]
    options: Options = {"num_heads": published_heads(width)} if width in _RELEASED else {}
    if "reg_token" in weights:
        weights, options = with_position_in_class_token(weights), {**options, "prefix_positions": False}
    return Converted(weights, options, dropped, {**IMAGENET, "interpolation": "bicubic"}, doubt=doubt)


_TORCHVISION_LAYER = r"encoder\.layers\.encoder_layer_(\d+)\."
_TORCHVISION_RULES = {
    "class_token": "cls_token",
    r"encoder\.pos_embedding": "pos_embed",
    r"conv_proj\.(.*)": r"patch_embed.proj.\1",
    _TORCHVISION_LAYER + r"ln_([12])\.(.*)": r"blocks.\1.norm\2.\3",
    _TORCHVISION_LAYER + r"self_attention\.in_proj_(.*)": r"blocks.\1.attn.qkv.\2",
    _TORCHVISION_LAYER + r"self_attention\.out_proj\.(.*)": r"blocks.\1.attn.proj.\2",
    _TORCHVISION_LAYER + r"mlp\.(?:0|linear_1)\.(.*)": r"blocks.\1.mlp.fc1.\2",
    _TORCHVISION_LAYER + r"mlp\.(?:3|linear_2)\.(.*)": r"blocks.\1.mlp.fc2.\2",
    r"encoder\.ln\.(.*)": r"norm.\1",
    r"heads\.head\.(.*)": r"head.\1",
}


@weight_format("torchvision", having({"conv_proj.weight", "encoder.layers.encoder_layer_0.ln_1.weight"}))
def torchvision(weights: Weights, config: Config) -> Converted:
    """torchvision's weights. A hidden layer in the head (`representation_size`) has no place in our networks."""
    preprocess: PreprocessValues = {**IMAGENET, "interpolation": "bilinear", "crop_fraction": 0.875}
    return Converted(renamed(weights, _TORCHVISION_RULES), preprocess=preprocess)


def to_timm(weights: Weights, config: ViTConfig) -> tuple[Weights, str, dict[str, Any]]:
    """(state dict, name, arguments): `timm.create_model(name, **arguments).load_state_dict(state)` gives our logits.

    `weights` has the buffer `pos_embed` of fixed positions put in. ValueError: timm does not have such a network.
    """
    if config.stem != "patch" or config.norm_placement != "pre":
        kind = f"stem {config.stem!r} and norm_placement {config.norm_placement!r}"
        raise ValueError(f"timm does not have a ViT with {kind}")
    if config.is_rotary:
        return rotary.to_timm(weights, config)
    if config.pool == "map" and config.activation == "swiglu":
        raise ValueError("timm does not have a ViT with pool 'map' and activation 'swiglu'")
    if config.pool == "cls_dist" and (config.pos_embed == "none" or not config.prefix_positions):
        raise ValueError("timm does not have a ViT with a distillation token that has no position")
    if config.pool not in _POOLS or config.mlp_norm:
        raise ValueError(f"timm does not have a ViT with pool {config.pool!r} and mlp_norm {config.mlp_norm}")
    arguments = {
        **rotary.arguments_of_timm(config),
        "num_classes": config.num_classes,
        "reg_tokens": config.num_registers,
        "global_pool": _POOLS[config.pool],
        "pre_norm": config.embed_norm,
        "fc_norm": config.pool_norm,
        "pos_embed": "none" if config.pos_embed == "none" else "learn",
        "mlp_ratio": config.mlp_ratio,
    }
    if config.activation == "swiglu":
        from timm.layers import SwiGLUPacked

        arguments |= {"mlp_layer": SwiGLUPacked, "act_layer": nn.SiLU}
    else:
        arguments["act_layer"] = config.activation
    if config.pool == "cls_dist":
        if arguments.pop("reg_tokens"):
            raise ValueError("timm does not have a ViT with a distillation token and registers")
        return dict(weights), "deit_base_distilled_patch16_224", arguments
    return dict(weights), "vit_base_patch16_224", arguments
