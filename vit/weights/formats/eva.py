"""timm's names for its class `Eva`: EVA-02, ViTs with EVA's rotary positions, and our rotary ViTs as models of timm

Source: timm 1.0, models/eva.py. EVA-02 (Fang et al. 2023, arXiv 2303.11331) has learned and rotary positions, a gated
MLP, whose hidden layer is normalized from size B up, and no biases of the keys: they are 0 here.
"""

from collections.abc import Set
from functools import partial
from typing import Any

import torch
from torch import nn

from vit.models.vit_config import PositionEmbedding, ViTConfig
from vit.weights.formats.weight_format import Config, Converted, WeightFormat, Weights, fused, renamed, without
from vit.weights.preprocess_config import CLIP, PreprocessValues

_PREPROCESS: PreprocessValues = {**CLIP, "interpolation": "bicubic"}
_UNREAD = {r"rope\..*": "frequencies of the rotary positions, which the network computes"}
_RULES = {
    r"blocks\.(\d+)\.gamma_([12])": r"blocks.\1.ls\2.gamma",
    r"blocks\.(\d+)\.attn\.([qkv])_proj\.(.*)": r"blocks.\1.attn.\2.\3",
    r"blocks\.(\d+)\.mlp\.fc1_g\.(.*)": r"blocks.\1.mlp.gate.\2",
    r"blocks\.(\d+)\.mlp\.fc1_x\.(.*)": r"blocks.\1.mlp.up.\2",
}
_BACK = {r"blocks\.(\d+)\.ls([12])\.gamma": r"blocks.\1.gamma_\2"}
_POOLS = {"cls": "token", "mean": "avg", "patch_mean": "avg"}
_MODEL = "eva02_base_patch14_224"  # of timm, whose rotary positions are learned_rope2d_eva
_POSITIONS: dict[PositionEmbedding, dict[str, Any]] = {  # arguments of timm for other positions
    "rope2d": {"use_abs_pos_emb": False, "rope_type": "dinov3", "rope_temperature": 100.0, "rope_rotate_half": True},
    "rope2d_eva": {"use_abs_pos_emb": False},
    "learned_rope2d_eva": {},
}


def matches(names: Set[str]) -> bool:
    """Whether queries and values have biases and keys have none, beside learned positions or without a class token."""
    has_no_key_bias = {"blocks.0.attn.q_bias", "blocks.0.attn.q_proj.bias"} & names
    is_eva = "pos_embed" in names or not {"cls_token", "mask_token"} & names
    return "patch_embed.proj.weight" in names and bool(has_no_key_bias) and is_eva


def convert(weights: Weights, config: Config) -> Converted:
    """timm's weights. EVA-01 and other networks have names and shapes of this kind too."""
    weights, dropped = without(weights, _UNREAD)
    weights = own_names(weights)
    positions = "learned_rope2d_eva" if "pos_embed" in weights else "rope2d_eva"
    doubt = "timm's networks with other rotary positions, or with none (eva_giant_patch14_224)"
    return Converted(weights, {"pos_embed": positions}, dropped, _PREPROCESS, doubt=doubt)


def own_names(weights: Weights) -> Weights:
    """Tensors of timm's class `Eva` in our names. Tensors that have our names already keep them."""
    weights = fused(renamed(with_qkv_bias(weights), _RULES), "qkv", ("q", "k", "v"))
    return fused(weights, "fc1", ("gate", "up"))


def with_qkv_bias(weights: Weights) -> Weights:
    """Biases of queries and values as one bias of queries, keys and values, which is 0 for the keys."""
    result = dict(weights)
    for name in [name for name in weights if name.endswith(".attn.q_bias")]:
        prefix = name.removesuffix("q_bias")
        q_bias, v_bias = result.pop(name), result.pop(f"{prefix}v_bias")
        result[f"{prefix}qkv.bias"] = torch.cat((q_bias, torch.zeros_like(q_bias), v_bias))
    return result


FORMAT = WeightFormat("EVA (timm)", matches, convert)


def to_timm(weights: Weights, config: ViTConfig) -> tuple[Weights, str, dict[str, Any]]:
    """Weights of a rotary ViT of ours for timm's class `Eva`, as `to_timm` of timm.py; ValueError where timm has none.

    The attention is timm's kind "rope", whose keys have a bias, as ours do after a training.
    """
    if config.pool not in _POOLS or config.activation not in ("gelu", "swiglu"):
        raise ValueError(f"timm does not have a rotary ViT with pool {config.pool!r} and {config.activation!r}")
    is_gated = config.activation == "swiglu"
    hidden = config.mlp_dim // 2 if is_gated else config.mlp_dim
    ratio = hidden / config.embed_dim
    arguments: dict[str, Any] = {
        "img_size": config.image_size,
        "patch_size": config.patch_size,
        "embed_dim": config.embed_dim,
        "depth": config.depth,
        "num_heads": config.num_heads,
        "mlp_ratio": ratio if int(config.embed_dim * ratio) == hidden else (hidden + 0.5) / config.embed_dim,
        "attn_type": "rope",
        "qkv_fused": True,
        "qkv_bias": config.qkv_bias,
        "qk_norm": config.qk_norm,
        "swiglu_mlp": is_gated,
        "scale_mlp": config.mlp_norm,
        "init_values": config.layer_scale or None,
        "class_token": config.has_class_token,
        "num_reg_tokens": config.num_registers,
        "global_pool": _POOLS[config.pool],
        "no_embed_class": not config.prefix_positions,
        "use_pre_transformer_norm": config.embed_norm,
        "use_fc_norm": config.pool_norm,
        "norm_layer": partial(nn.LayerNorm, eps=config.norm_eps),
        **_POSITIONS[config.pos_embed],
    }
    weights = renamed(weights, _BACK)
    return _split(weights) if is_gated and config.mlp_norm else weights, _MODEL, arguments


def _split(weights: Weights) -> Weights:
    """Gates and values as layers of their own, as timm has them where the hidden layer is normalized."""
    result = dict(weights)
    for name in [name for name in weights if ".mlp.fc1." in name]:
        gate, value = result.pop(name).chunk(2)
        result[name.replace("fc1", "fc1_g")], result[name.replace("fc1", "fc1_x")] = gate.clone(), value.clone()
    return result
