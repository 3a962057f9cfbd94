"""Meta's names for DINO, DINOv2, MAE and DeiT III, as released

Sources: facebookresearch/dino, dinov2, mae and deit on GitHub.
"""

import math
from collections.abc import Set

from vit.models.options import Options
from vit.weights.formats import timm
from vit.weights.formats.huggingface import with_position_in_class_token
from vit.weights.formats.shapes import published_heads
from vit.weights.formats.weight_format import Config, Converted, WeightFormat, Weights, renamed, without
from vit.weights.preprocess_config import IMAGENET

_RULES = {
    r"blocks\.(\d+)\.gamma_([12])": r"blocks.\1.ls\2.gamma",
    r"blocks\.(\d+)\.mlp\.w12\.(.*)": r"blocks.\1.mlp.fc1.\2",
    r"blocks\.(\d+)\.mlp\.w3\.(.*)": r"blocks.\1.mlp.fc2.\2",
    "register_tokens": "reg_token",
}
_LEFT_OUT = {
    "mask_token": "hides patches in pretraining alone",
    r"decoder_.*": "paints pixels in pretraining alone",
    r"(dino_head|ibot_head|head\.(mlp|last_layer))\b.*": "a head for pretraining alone",
}
_RELEASED = (192, 384, 512, 768, 1024, 1280, 1536)  # widths of the released networks
_ROTARY = "timm's ViTs with rotary positions (vit_base_patch16_rope_224)"


def matches(names: Set[str]) -> bool:
    """Whether there is a name that timm's files do not have."""
    own = {"mask_token", "register_tokens", "blocks.0.gamma_1", "blocks.0.mlp.w12.weight", "head.mlp.0.weight"}
    return timm.matches(names) and bool(own & names)


def convert(weights: Weights, config: Config) -> Converted:
    """DINOv2 with registers has a position for the class token alone: it is added to that token here."""
    doubt = _ROTARY if "blocks.0.gamma_1" in weights and not _has_class_position(weights) else ""
    weights, dropped = without(weights, _LEFT_OUT)
    weights = renamed(weights, _RULES)
    width = weights["blocks.0.attn.qkv.weight"].shape[-1]
    options: Options = {"num_heads": published_heads(width)} if width in _RELEASED else {}
    if "reg_token" in weights:
        weights, options = with_position_in_class_token(weights), {**options, "prefix_positions": False}
    return Converted(weights, options, dropped, {**IMAGENET, "interpolation": "bicubic"}, doubt=doubt)


def _has_class_position(weights: Weights) -> bool:
    """Whether the class token has a position, as in all releases but DeiT III."""
    return "pos_embed" in weights and math.isqrt(weights["pos_embed"].shape[1]) ** 2 != weights["pos_embed"].shape[1]


FORMAT = WeightFormat("DINO, MAE, DeiT III", matches, convert)
