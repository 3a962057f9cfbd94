"""OpenCLIP's and OpenAI's names for the image towers of CLIP

Source: mlfoundations/open_clip, src/open_clip/transformer.py. OpenCLIP's towers that are models of timm are in timm.py.
The map into the common space of images and texts is left out, because it is not a classifier.
"""

from collections.abc import Set

import torch

from vit.models.options import Value
from vit.weights.formats.weight_format import Config, Converted, WeightFormat, Weights, renamed, without
from vit.weights.preprocess_config import CLIP

_LAYER = r"visual\.transformer\.resblocks\.(\d+)\."
_RULES = {
    r"visual\.class_embedding": "cls_token",
    r"visual\.positional_embedding": "pos_embed",
    r"visual\.conv1\.(.*)": r"patch_embed.proj.\1",
    r"visual\.ln_pre\.(.*)": r"norm_pre.\1",
    r"visual\.ln_post\.(.*)": r"norm.\1",
    _LAYER + r"ln_([12])\.(.*)": r"blocks.\1.norm\2.\3",
    _LAYER + r"attn\.in_proj_(.*)": r"blocks.\1.attn.qkv.\2",
    _LAYER + r"attn\.out_proj\.(.*)": r"blocks.\1.attn.proj.\2",
    _LAYER + r"mlp\.c_fc\.(.*)": r"blocks.\1.mlp.fc1.\2",
    _LAYER + r"mlp\.c_proj\.(.*)": r"blocks.\1.mlp.fc2.\2",
    _LAYER + r"ls_([12])\.gamma": r"blocks.\1.ls\2.gamma",
}
_LEFT_OUT = {
    r"visual\.proj": "the map into CLIP's common space of images and texts",
    r"(?!visual\.).*": "the text tower",
}
# What a config states, and a tower of ours computes with any value of it, or with this value alone
_ANY = {"layers", "width", "head_width", "mlp_ratio", "patch_size", "image_size", "ls_init_value", "patch_dropout",
        "no_ln_pre", "output_tokens", "pool_type", "final_ln_after_pool", "norm_kwargs", "act_kwargs"}  # fmt: skip
_ONLY = {"pos_embed_type": ("learnable", "sin_cos_2d"), "block_type": (None, "default")}
_POOLS = ("tok", "avg")
_WIDTH, _HEAD_WIDTH = 768, 64  # OpenCLIP's defaults
_OPENAI = {"input_resolution", "context_length", "vocab_size"}  # only in OpenAI's files, which use quick GELU


def matches(names: Set[str]) -> bool:
    """Whether there is an image tower called `visual` with residual blocks."""
    return {"visual.conv1.weight", "visual.transformer.resblocks.0.ln_1.weight"} <= names


def convert(weights: Weights, config: Config) -> Converted:
    """Names and shapes do not show quick GELU. Three names show OpenAI's files; others say it in their config.

    ValueError: the config states something that a ViT of ours does not compute.
    """
    openai = names_openai(weights)
    model = config.get("model_cfg", config)
    quick = openai or bool(model.get("quick_gelu", False))
    stated, pool, follows_pool = _tower_options(model.get("vision_cfg") or {})
    weights, dropped = without(weights, _LEFT_OUT)
    weights = renamed(weights, _RULES)
    for name, axes in (("cls_token", 2), ("pos_embed", 1)):
        if name in weights:
            weights[name] = weights[name].reshape((1,) * axes + tuple(weights[name].shape))
    if "norm_pre.weight" not in weights:  # ours has a bias where no norm follows
        weights["patch_embed.proj.bias"] = torch.zeros(len(weights["patch_embed.proj.weight"]))
    if follows_pool:
        weights = renamed(weights, {r"norm\.(.*)": r"fc_norm.\1"})
    options: dict[str, Value] = {"norm_eps": 1e-5, **({"activation": "quick_gelu"} if quick else {}), **stated}
    if pool == "avg":
        options["pool"] = "patch_mean"
    if openai:
        options["num_heads"] = len(weights["cls_token"][0, 0]) // _HEAD_WIDTH
    undecided = () if openai or config else ("activation",)
    return Converted(weights, options, dropped, {**CLIP, "interpolation": "bicubic"}, undecided)


def _tower_options(tower: Config) -> tuple[dict[str, Value], str, bool]:
    """(options that a `vision_cfg` states, its pooling, whether the last norm follows the mean); ValueError as
    `convert`.
    """
    for name, value in tower.items():
        accepted = name in _ANY or value in _ONLY.get(name, (None, False, "")) or name.startswith("timm_")
        if not (accepted or (name.startswith("attn_pooler_") and not tower.get("attentional_pool"))):
            raise ValueError(f"vision_cfg: {name} {value!r} is not supported")
    pool, norm, activation = (tower.get(name) for name in ("pool_type", "norm_kwargs", "act_kwargs"))
    if (pool or "tok") not in _POOLS:
        raise ValueError(f"vision_cfg: pool_type {pool!r} is not one of {', '.join(_POOLS)}")
    if (norm or {}).keys() - {"eps"} or (activation or {}).keys() - {"approximate"}:
        raise ValueError(f"vision_cfg: norm_kwargs {norm!r} and act_kwargs {activation!r} are not supported")
    options: dict[str, Value] = {}
    if tower:
        options["num_heads"] = int(tower.get("width", _WIDTH)) // int(tower.get("head_width", _HEAD_WIDTH))
    if norm:
        options["norm_eps"] = float(norm["eps"])
    if activation and activation["approximate"] == "tanh":
        options["activation"] = "gelu_tanh"
    return options, pool or "tok", pool == "avg" and bool(tower.get("final_ln_after_pool"))


def names_openai(weights: Weights) -> bool:
    """Whether OpenAI made the file."""
    return weights.keys() >= _OPENAI


FORMAT = WeightFormat("CLIP", matches, convert)
