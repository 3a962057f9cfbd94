"""Names of ViTs with rotary positions: EVA-02 of timm, DINOv3 of Meta, transformers and timm; ours as models of timm

Sources: timm 1.0, models/eva.py (class `Eva`, `vit_*_dinov3`), facebookresearch/dinov3, transformers 5
(`DINOv3ViTModel`). EVA-02 (Fang et al. 2023, arXiv 2303.11331) has learned and rotary positions and a gated MLP, whose
hidden layer is normalized from size B up. DINOv3 has registers and LayerScale. In both, biases of the keys do not exist
or are masked: they are 0 here.
"""

import re
from collections.abc import Set
from functools import partial
from typing import Any

import torch
from torch import nn

from vit.models.catalog import Options, Value
from vit.models.vit_config import PositionEmbedding, ViTConfig
from vit.weights.formats.huggingface import options_of_config
from vit.weights.formats.weight_format import Config, Converted, Weights, having, renamed, translated, weight_format
from vit.weights.preprocess_config import CLIP, IMAGENET, PreprocessValues

_EVA_PREPROCESS: PreprocessValues = {**CLIP, "interpolation": "bicubic"}
_EVA_UNREAD = {r"rope\..*": "frequencies of the rotary positions, which the network computes"}
_OF_TIMM = {
    r"blocks\.(\d+)\.gamma_([12])": r"blocks.\1.ls\2.gamma",
    r"blocks\.(\d+)\.mlp\.fc1_g\.(.*)": r"blocks.\1.mlp.gate.\2",
    r"blocks\.(\d+)\.mlp\.fc1_x\.(.*)": r"blocks.\1.mlp.up.\2",
}
_EVA_RULES = {**_OF_TIMM, r"blocks\.(\d+)\.attn\.([qkv])_proj\.(.*)": r"blocks.\1.attn.\2.\3"}
_EVA_BACK = {r"blocks\.(\d+)\.ls([12])\.gamma": r"blocks.\1.gamma_\2"}
_POOLS = {"cls": "token", "mean": "avg", "patch_mean": "avg"}
_EVA_MODEL = "eva02_base_patch14_224"  # of timm, whose rotary positions are learned_rope2d_eva
_POSITIONS: dict[PositionEmbedding, dict[str, Any]] = {  # arguments of timm for other positions
    "rope2d": {"use_abs_pos_emb": False, "rope_type": "dinov3", "rope_temperature": 100.0, "rope_rotate_half": True},
    "rope2d_eva": {"use_abs_pos_emb": False},
    "learned_rope2d_eva": {},
}


def is_eva(names: Set[str]) -> bool:
    """Whether queries and values have biases and keys have none, beside learned positions or without a class token."""
    has_no_key_bias = {"blocks.0.attn.q_bias", "blocks.0.attn.q_proj.bias"} & names
    is_eva = "pos_embed" in names or not {"cls_token", "mask_token"} & names
    return "patch_embed.proj.weight" in names and bool(has_no_key_bias) and is_eva


@weight_format("EVA (timm)", is_eva)
def eva(weights: Weights, config: Config) -> Converted:
    """timm's weights. EVA-01 and other networks have names and shapes of this kind too."""
    weights, dropped = translated(with_qkv_bias(weights), _EVA_UNREAD, _EVA_RULES)
    positions = "learned_rope2d_eva" if "pos_embed" in weights else "rope2d_eva"
    doubt = "timm's networks with other rotary positions, or with none (eva_giant_patch14_224)"
    return Converted(weights, {"pos_embed": positions}, dropped, _EVA_PREPROCESS, doubt=doubt)


def own_names(weights: Weights) -> Weights:
    """Tensors of timm's class `Eva` in our names. Tensors that have our names already keep them."""
    return translated(with_qkv_bias(weights), {}, _EVA_RULES)[0]


def with_qkv_bias(weights: Weights) -> Weights:
    """Biases of queries and values as one bias of queries, keys and values, which is 0 for the keys."""
    result = dict(weights)
    for name in [name for name in weights if name.endswith(".attn.q_bias")]:
        prefix = name.removesuffix("q_bias")
        q_bias, v_bias = result.pop(name), result.pop(f"{prefix}v_bias")
        result[f"{prefix}qkv.bias"] = torch.cat((q_bias, torch.zeros_like(q_bias), v_bias))
    return result


def arguments_of_timm(config: ViTConfig) -> dict[str, Any]:
    """Arguments that all ViTs of timm have by the same names."""
    same = ("patch_size", "embed_dim", "depth", "num_heads", "qkv_bias", "qk_norm")
    return {name: getattr(config, name) for name in same} | {
        "img_size": config.image_size,
        "init_values": config.layer_scale or None,
        "class_token": config.has_class_token,
        "no_embed_class": not config.prefix_positions,
        "norm_layer": partial(nn.LayerNorm, eps=config.norm_eps),
    }


def to_timm(weights: Weights, config: ViTConfig) -> tuple[Weights, str, dict[str, Any]]:
    """As `to_timm` of timm.py; the attention is timm's kind "rope", whose keys have a bias, as ours after training."""
    if config.pool not in _POOLS or config.activation not in ("gelu", "swiglu"):
        raise ValueError(f"timm does not have a rotary ViT with pool {config.pool!r} and {config.activation!r}")
    is_gated = config.activation == "swiglu"
    hidden = config.mlp_dim // 2 if is_gated else config.mlp_dim
    ratio = hidden / config.embed_dim
    arguments = {
        **arguments_of_timm(config),
        "mlp_ratio": ratio if int(config.embed_dim * ratio) == hidden else (hidden + 0.5) / config.embed_dim,
        "attn_type": "rope",
        "qkv_fused": True,
        "swiglu_mlp": is_gated,
        "scale_mlp": config.mlp_norm,
        "num_reg_tokens": config.num_registers,
        "global_pool": _POOLS[config.pool],
        "use_pre_transformer_norm": config.embed_norm,
        "use_fc_norm": config.pool_norm,
        **_POSITIONS[config.pos_embed],
    }
    weights = renamed(weights, _EVA_BACK)
    return _split(weights) if is_gated and config.mlp_norm else weights, _EVA_MODEL, arguments


def _split(weights: Weights) -> Weights:
    """Gates and values as layers of their own, as timm has them where the hidden layer is normalized."""
    result = dict(weights)
    for name in [name for name in weights if ".mlp.fc1." in name]:
        gate, value = result.pop(name).chunk(2)
        result[name.replace("fc1", "fc1_g")], result[name.replace("fc1", "fc1_x")] = gate.clone(), value.clone()
    return result


_DINOV3: PreprocessValues = {**IMAGENET, "interpolation": "bicubic"}
_GATE = "silu"  # activation of the gates of swiglu
_WIDE_HEADS = {4096: 32}  # ViT-7B has heads of 128 channels, all others of 64
_DINOV3_UNREAD = {
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


def is_dinov3_transformers(names: Set[str]) -> bool:
    """Whether a first layer has queries of its own, and there are registers."""
    has_queries = any(re.fullmatch(_LAYER + r"attention\.q_proj\.weight", name) for name in names)
    return has_queries and any(name.endswith("embeddings.register_tokens") for name in names)


@weight_format("DINOv3 (Meta)", having({"storage_tokens", "blocks.0.attn.qkv.weight"}))
def dinov3_meta(weights: Weights, config: Config) -> Converted:
    """Meta's weights. The periods say how wide a head is."""
    periods = weights.get("rope_embed.periods")
    heads: Options = {} if periods is None else {"num_heads": _width(weights) // (4 * len(periods))}
    return _converted(_without_key_bias(weights), _OF_META, heads)


@weight_format("DINOv3 (Hugging Face)", is_dinov3_transformers)
def dinov3_transformers(weights: Weights, config: Config) -> Converted:
    """transformers' weights with their config.json; ValueError: an activation or periods that ours do not have."""
    is_gated = any(name.endswith("mlp.gate_proj.weight") for name in weights)
    activation = config.get("hidden_act", _GATE if is_gated else "gelu")
    if is_gated and activation != _GATE:
        raise ValueError(f"config.json: hidden_act {activation!r} with gates, and ours have {_GATE!r} alone")
    options = options_of_config({**config, "hidden_act": "gelu" if is_gated else activation}, norm_eps=1e-5)
    if float(config.get("rope_theta", 100.0)) != 100.0:
        raise ValueError(f"config.json: rope_theta is {config['rope_theta']}, and published weights have 100")
    return _converted(weights, _OF_TRANSFORMERS, options)


@weight_format(
    "DINOv3 (timm)", having({"reg_token", "blocks.0.gamma_1", "blocks.0.attn.qkv.weight"}, lacking="pos_embed")
)
def dinov3_timm(weights: Weights, config: Config) -> Converted:
    """timm's weights. Other networks of timm with rotary positions have the same names."""
    doubt = "timm's ViTs with other rotary positions (vit_base_patch16_rope_224)"
    return _converted(with_qkv_bias(weights), _OF_TIMM, {}, doubt)


def _converted(weights: Weights, rules: dict[str, str], options: Options, doubt: str = "") -> Converted:
    weights, dropped = translated(weights, _DINOV3_UNREAD, rules)
    weights = renamed(weights, {r"blocks\.(\d+)\.mlp\.up\.(.*)": r"blocks.\1.mlp.fc1.\2"})  # without gates
    width = _width(weights)
    known: dict[str, Value] = {
        "pos_embed": "rope2d",
        "norm_eps": 1e-5,
        "num_heads": _WIDE_HEADS.get(width, width // 64),
    }
    return Converted(weights, {**known, **options}, dropped, _DINOV3, doubt=doubt)


def _width(weights: Weights) -> int:
    return next(value.shape[-1] for name, value in weights.items() if name.endswith("cls_token"))


def _without_key_bias(weights: Weights) -> Weights:
    """Biases of the keys set to 0, as Meta's mask does."""
    result = dict(weights)
    for name in [name for name in weights if name.endswith(".attn.qkv.bias")]:
        q_bias, k_bias, v_bias = weights[name].chunk(3)
        result[name] = torch.cat((q_bias, torch.zeros_like(k_bias), v_bias))
    return result
