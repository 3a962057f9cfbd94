"""Hugging Face transformers' names for ViT, DeiT and DINOv2, and our ViTs in these names

Source: transformers 5, files as `save_pretrained` writes them, and state dicts as its networks have them in memory.
"""

import re
from collections.abc import Mapping, Set

import torch

from vit.models.catalog import Value
from vit.models.vit_config import ViTConfig
from vit.weights.formats.weight_format import Config, Converted, Weights, renamed, translated, weight_format
from vit.weights.preprocess_config import IMAGENET, square_side

_TRUNK = r"(?:(?:vit|deit|dinov2|dinov2_with_registers)\.)?"
_LAYER = _TRUNK + r"(?:encoder\.layer|layers)\.(\d+)\."
_QUERY = _LAYER + r"attention\.(?:attention\.query|q_proj)\.weight"
_RULES = {
    _TRUNK + r"embeddings\.cls_token": "cls_token",
    _TRUNK + r"embeddings\.distillation_token": "dist_token",
    _TRUNK + r"embeddings\.register_tokens": "reg_token",
    _TRUNK + r"embeddings\.position_embeddings": "pos_embed",
    _TRUNK + r"embeddings\.patch_embeddings\.projection\.(.*)": r"patch_embed.proj.\1",
    _LAYER + r"attention\.attention\.(query|key|value)\.(.*)": r"blocks.\1.attn.\2.\3",
    _LAYER + r"attention\.(q|k|v)_proj\.(.*)": r"blocks.\1.attn.\2.\3",
    _LAYER + r"attention\.(?:output\.dense|o_proj)\.(.*)": r"blocks.\1.attn.proj.\2",
    _LAYER + r"(?:layernorm_before|norm1)\.(.*)": r"blocks.\1.norm1.\2",
    _LAYER + r"(?:layernorm_after|norm2)\.(.*)": r"blocks.\1.norm2.\2",
    _LAYER + r"(?:intermediate\.dense|mlp\.fc1|mlp\.weights_in)\.(.*)": r"blocks.\1.mlp.fc1.\2",
    _LAYER + r"mlp\.(gate|up)_proj\.(.*)": r"blocks.\1.mlp.\2.\3",
    _LAYER + r"(?:output\.dense|mlp\.fc2|mlp\.weights_out|mlp\.down_proj)\.(.*)": r"blocks.\1.mlp.fc2.\2",
    _LAYER + r"layer_scale([12])\.lambda1": r"blocks.\1.ls\2.gamma",
    _TRUNK + r"layernorm\.(.*)": r"norm.\1",
    r"(?:classifier|cls_classifier)\.(.*)": r"head.\1",
    r"distillation_classifier\.(.*)": r"head_dist.\1",
}
_LEFT_OUT = {
    _TRUNK + r"pooler\..*": "a layer for pretraining that no classifier reads",
    _TRUNK + r"embeddings\.mask_token": "hides patches in pretraining alone",
    r"decoder\..*": "paints pixels in pretraining alone",
}
ACTIVATIONS = {"gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh", "quick_gelu": "quick_gelu"}


def matches(names: Set[str]) -> bool:
    """Whether queries of a layer are named as in BERT, or as transformers 5 has them in memory."""
    return any(re.fullmatch(_QUERY, name) for name in names)


@weight_format("Hugging Face", matches)
def plain_vit(weights: Weights, config: Config) -> Converted:
    """DINOv2 with registers has a position for the class token alone: it is added to that token here."""
    is_dino = any(name.endswith("layer_scale1.lambda1") for name in weights)
    weights, dropped = translated(weights, _LEFT_OUT, _RULES)
    options = options_of_config(config, norm_eps=1e-6 if is_dino else 1e-12)
    if "dist_token" in weights and "head_dist.weight" not in weights:
        weights = renamed(weights, {"dist_token": "reg_token"})
    elif "reg_token" in weights:
        weights = with_position_in_class_token(weights)
        options["prefix_positions"] = False
    layers = [weights.get(f"blocks.0.mlp.{name}.weight") for name in ("fc1", "fc2")]
    if layers[0] is not None and layers[1] is not None and len(layers[0]) == 2 * layers[1].shape[-1]:  # SwiGLU
        options.pop("activation", None)
    return Converted(weights, options, dropped, {**IMAGENET, "interpolation": "bicubic" if is_dino else "bilinear"})


def options_of_config(config: Config, norm_eps: float) -> dict[str, Value]:
    """Options that a config.json of transformers says and shapes do not show."""
    for name in ("image_size", "patch_size"):
        square_side(name, config.get(name) or 0)
    activation = config.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise ValueError(f"config.json: hidden_act {activation!r} is not one of {', '.join(ACTIVATIONS)}")
    options: dict[str, Value] = {"norm_eps": float(config.get("layer_norm_eps", norm_eps))}
    if ACTIVATIONS[activation] != "gelu":
        options["activation"] = ACTIVATIONS[activation]
    if "num_attention_heads" in config:
        options["num_heads"] = int(config["num_attention_heads"])
    return options


def with_position_in_class_token(weights: Weights) -> Weights:
    """Positions (1, 1 + N, D) of class token and patches -> of patches alone; the class token has its own added."""
    positions = weights["pos_embed"]
    return {**weights, "cls_token": weights["cls_token"] + positions[:, :1], "pos_embed": positions[:, 1:]}


_BACK = {
    "cls_token": "vit.embeddings.cls_token",
    "pos_embed": "vit.embeddings.position_embeddings",
    r"patch_embed\.proj\.(.*)": r"vit.embeddings.patch_embeddings.projection.\1",
    r"blocks\.(\d+)\.attn\.(query|key|value)\.(.*)": r"vit.encoder.layer.\1.attention.attention.\2.\3",
    r"blocks\.(\d+)\.attn\.proj\.(.*)": r"vit.encoder.layer.\1.attention.output.dense.\2",
    r"blocks\.(\d+)\.norm1\.(.*)": r"vit.encoder.layer.\1.layernorm_before.\2",
    r"blocks\.(\d+)\.norm2\.(.*)": r"vit.encoder.layer.\1.layernorm_after.\2",
    r"blocks\.(\d+)\.mlp\.fc1\.(.*)": r"vit.encoder.layer.\1.intermediate.dense.\2",
    r"blocks\.(\d+)\.mlp\.fc2\.(.*)": r"vit.encoder.layer.\1.output.dense.\2",
    r"norm\.(.*)": r"vit.layernorm.\1",
    r"head\.(.*)": r"classifier.\1",
}
_ACCEPTED: Mapping[str, tuple[Value, ...]] = {  # options of ours that transformers' ViT computes
    "pool": ("cls",),
    "stem": ("patch",),
    "pos_embed": ("learned", "sincos2d"),
    "prefix_positions": (True,),
    "num_registers": (0,),
    "layer_scale": (0.0,),
    "qk_norm": (False,),
    "embed_norm": (False,),
    "mlp_norm": (False,),
    "norm_placement": ("pre",),
    "activation": tuple(ACTIVATIONS.values()),
}


def to_huggingface(weights: Weights, config: ViTConfig) -> tuple[Weights, dict[str, Value]]:
    """(state dict, config) of transformers' ViTForImageClassification; ValueError: it has no such ViT."""
    for name, accepted in _ACCEPTED.items():
        if getattr(config, name) not in accepted:
            raise ValueError(f"transformers' ViT does not have {name} {getattr(config, name)!r}")
    parts: Weights = {}
    for name, value in weights.items():
        if ".attn.qkv." in name:
            for part, rows in zip(("query", "key", "value"), value.chunk(3), strict=True):
                parts[name.replace("qkv", part)] = rows.clone()
        else:
            parts[name] = value
    back = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    theirs: dict[str, Value] = {
        "hidden_size": config.embed_dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.mlp_dim,
        "image_size": config.image_size,
        "patch_size": config.patch_size,
        "qkv_bias": config.qkv_bias,
        "layer_norm_eps": config.norm_eps,
        "hidden_act": back[config.activation],
    }
    return {name: torch.as_tensor(value).contiguous() for name, value in renamed(parts, _BACK).items()}, theirs
