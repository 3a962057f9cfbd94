"""Names of DINOv3's ViTs by Meta, transformers and timm

Sources: facebookresearch/dinov3, transformers 5 (`DINOv3ViTModel`) and timm 1.0 (`vit_*_dinov3`). The weights have
rotary positions, registers and LayerScale. Their biases of the keys do not exist, or are masked: they are 0 here.
"""

import re
from collections.abc import Set

import torch

from vit.models.options import Options, Value
from vit.weights.formats.eva import with_qkv_bias
from vit.weights.formats.huggingface import options_of_config
from vit.weights.formats.weight_format import Config, Converted, WeightFormat, Weights, fused, renamed, without
from vit.weights.preprocess_config import IMAGENET, PreprocessValues

_PREPROCESS: PreprocessValues = {**IMAGENET, "interpolation": "bicubic"}
_GATE = "silu"  # activation of the gates of swiglu
_WIDE_HEADS = {4096: 32}  # ViT-7B has heads of 128 channels, all others of 64
_UNREAD = {
    r"(embeddings\.)?mask_token": "hides patches in pretraining alone",
    r"rope(_embed)?\..*": "periods of the rotary positions, which the network computes",
    r".*\.bias_mask": "masks the biases of the keys, which are 0 here",
    r"local_cls_norm\..*": "a norm for pretraining alone",
    r"(dino_head|ibot_head|projectors)\b.*": "a head for pretraining alone",
}

_TRUNK = r"(?:dinov3_vit\.)?"
_LAYER = _TRUNK + r"(?:model\.)?layer\.(\d+)\."
_OF_TRANSFORMERS = {
    _TRUNK + r"embeddings\.cls_token": "cls_token",
    _TRUNK + r"embeddings\.register_tokens": "reg_token",
    _TRUNK + r"embeddings\.patch_embeddings\.(.*)": r"patch_embed.proj.\1",
    _LAYER + r"attention\.([qkv])_proj\.(.*)": r"blocks.\1.attn.\2.\3",
    _LAYER + r"attention\.o_proj\.(.*)": r"blocks.\1.attn.proj.\2",
    _LAYER + r"norm([12])\.(.*)": r"blocks.\1.norm\2.\3",
    _LAYER + r"layer_scale([12])\.lambda1": r"blocks.\1.ls\2.gamma",
    _LAYER + r"mlp\.gate_proj\.(.*)": r"blocks.\1.mlp.gate.\2",
    _LAYER + r"mlp\.up_proj\.(.*)": r"blocks.\1.mlp.up.\2",
    _LAYER + r"mlp\.down_proj\.(.*)": r"blocks.\1.mlp.fc2.\2",
    _TRUNK + r"norm\.(.*)": r"norm.\1",
    r"classifier\.(.*)": r"head.\1",
}
_OF_META = {
    "storage_tokens": "reg_token",
    r"blocks\.(\d+)\.mlp\.w1\.(.*)": r"blocks.\1.mlp.gate.\2",
    r"blocks\.(\d+)\.mlp\.w2\.(.*)": r"blocks.\1.mlp.up.\2",
    r"blocks\.(\d+)\.mlp\.w3\.(.*)": r"blocks.\1.mlp.fc2.\2",
}
_OF_TIMM = {
    r"blocks\.(\d+)\.gamma_([12])": r"blocks.\1.ls\2.gamma",
    r"blocks\.(\d+)\.mlp\.fc1_g\.(.*)": r"blocks.\1.mlp.gate.\2",
    r"blocks\.(\d+)\.mlp\.fc1_x\.(.*)": r"blocks.\1.mlp.up.\2",
}


def is_meta(names: Set[str]) -> bool:
    """Whether the registers are called storage tokens, and queries, keys and values are fused."""
    return {"storage_tokens", "blocks.0.attn.qkv.weight"} <= names


def is_transformers(names: Set[str]) -> bool:
    """Whether a first layer has queries of its own, and there are registers."""
    has_queries = any(re.fullmatch(_LAYER + r"attention\.q_proj\.weight", name) for name in names)
    return has_queries and any(name.endswith("embeddings.register_tokens") for name in names)


def is_timm(names: Set[str]) -> bool:
    """Whether there are registers, LayerScale as in EVA, and no added positions."""
    return {"reg_token", "blocks.0.gamma_1", "blocks.0.attn.qkv.weight"} <= names and "pos_embed" not in names


def from_meta(weights: Weights, config: Config) -> Converted:
    """Meta's weights. The periods say how wide a head is."""
    periods = weights.get("rope_embed.periods")
    heads: Options = {} if periods is None else {"num_heads": _width(weights) // (4 * len(periods))}
    return _converted(_without_key_bias(weights), _OF_META, heads)


def from_transformers(weights: Weights, config: Config) -> Converted:
    """transformers' weights, with what their config.json says. ValueError: an activation or periods that ours do not
    have.
    """
    is_gated = any(name.endswith("mlp.gate_proj.weight") for name in weights)
    activation = config.get("hidden_act", _GATE if is_gated else "gelu")
    if is_gated and activation != _GATE:
        raise ValueError(f"config.json: hidden_act {activation!r} with gates, and ours have {_GATE!r} alone")
    options = options_of_config({**config, "hidden_act": "gelu" if is_gated else activation}, norm_eps=1e-5)
    if float(config.get("rope_theta", 100.0)) != 100.0:
        raise ValueError(f"config.json: rope_theta is {config['rope_theta']}, and published weights have 100")
    found = _converted(weights, _OF_TRANSFORMERS, options)
    return Converted(fused(found.weights, "qkv", ("q", "k", "v")), found.options, found.dropped, found.preprocess)


def from_timm(weights: Weights, config: Config) -> Converted:
    """timm's weights. Other networks of timm with rotary positions have the same names."""
    doubt = "timm's ViTs with other rotary positions (vit_base_patch16_rope_224)"
    return _converted(with_qkv_bias(weights), _OF_TIMM, {}, doubt)


def _converted(weights: Weights, rules: dict[str, str], options: Options, doubt: str = "") -> Converted:
    weights, dropped = without(weights, _UNREAD)
    weights = renamed(weights, rules)
    if any(name.endswith(".mlp.gate.weight") for name in weights):
        weights = fused(weights, "fc1", ("gate", "up"))
    else:
        weights = renamed(weights, {r"blocks\.(\d+)\.mlp\.up\.(.*)": r"blocks.\1.mlp.fc1.\2"})
    width = _width(weights)
    known: dict[str, Value] = {
        "pos_embed": "rope2d",
        "norm_eps": 1e-5,
        "num_heads": _WIDE_HEADS.get(width, width // 64),
    }
    return Converted(weights, {**known, **options}, dropped, _PREPROCESS, doubt=doubt)


def _width(weights: Weights) -> int:
    return next(value.shape[-1] for name, value in weights.items() if name.endswith("cls_token"))


def _without_key_bias(weights: Weights) -> Weights:
    """Biases of the keys set to 0, as Meta's mask does."""
    result = dict(weights)
    for name in [name for name in weights if name.endswith(".attn.qkv.bias")]:
        q_bias, k_bias, v_bias = weights[name].chunk(3)
        result[name] = torch.cat((q_bias, torch.zeros_like(k_bias), v_bias))
    return result


META = WeightFormat("DINOv3 (Meta)", is_meta, from_meta)
TRANSFORMERS = WeightFormat("DINOv3 (Hugging Face)", is_transformers, from_transformers)
TIMM = WeightFormat("DINOv3 (timm)", is_timm, from_timm)
