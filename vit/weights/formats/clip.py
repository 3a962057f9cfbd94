"""Names of the image towers of CLIP and SigLIP: those of transformers, and those of OpenCLIP and OpenAI

Sources: transformers 5, models/clip and models/siglip; mlfoundations/open_clip, src/open_clip/transformer.py. Towers of
OpenCLIP that are models of timm are in timm.py. The map into the common space of images and texts is not a classifier.
"""

import torch

from vit.models.catalog import Value
from vit.weights.formats.huggingface import options_of_config
from vit.weights.formats.weight_format import Config, Converted, Weights, having, renamed, translated, weight_format
from vit.weights.preprocess_config import CLIP, HALF, PreprocessValues

_AT = ("", "vision_model.")  # places of a tower
_TOWER = r"(?:vision_model\.)?"
_LAYER = _TOWER + r"encoder\.layers\.(\d+)\."
_RULES = {
    _TOWER + r"embeddings\.class_embedding": "cls_token",
    _TOWER + r"embeddings\.position_embedding\.weight": "pos_embed",
    _TOWER + r"embeddings\.patch_embedding\.(.*)": r"patch_embed.proj.\1",
    _TOWER + r"pre_layrnorm\.(.*)": r"norm_pre.\1",
    _TOWER + r"post_layernorm\.(.*)": r"norm.\1",
    _LAYER + r"layer_norm([12])\.(.*)": r"blocks.\1.norm\2.\3",
    _LAYER + r"self_attn\.(q_proj|k_proj|v_proj)\.(.*)": r"blocks.\1.attn.\2.\3",
    _LAYER + r"self_attn\.out_proj\.(.*)": r"blocks.\1.attn.proj.\2",
    _LAYER + r"mlp\.fc([12])\.(.*)": r"blocks.\1.mlp.fc\2.\3",
    _TOWER + r"head\.probe": "attn_pool.latent",
    _TOWER + r"head\.layernorm\.(.*)": r"attn_pool.norm.\1",
    _TOWER + r"head\.attention\.out_proj\.(.*)": r"attn_pool.proj.\1",
    _TOWER + r"head\.mlp\.fc([12])\.(.*)": r"attn_pool.mlp.fc\1.\2",
    r"classifier\.(.*)": r"head.\1",
}
_LEFT_OUT = {
    r"visual_projection\.weight": "the map into CLIP's common space of images and texts",
    r".*embeddings\.position_ids": "numbers from 0",
    r"text_model\..*|text_projection\..*|logit_.*": "the text tower",
}
_POOLING = {_TOWER + r"head\..*": "the pooling by attention, which transformers' classifier does not read"}


_MARKS = ("embeddings.patch_embedding.weight", "encoder.layers.0.self_attn.q_proj.weight")


@weight_format("Hugging Face CLIP, SigLIP", having(*({f"{at}{mark}" for mark in _MARKS} for at in _AT)))
def transformers(weights: Weights, config: Config) -> Converted:
    """SigLIP pools by attention, but its classifier reads the mean. ValueError: a classifier on CLIP's patches."""
    config = config.get("vision_config", config)
    left_out = {**_LEFT_OUT, **_POOLING} if "classifier.weight" in weights else _LEFT_OUT
    weights, dropped = translated(weights, left_out, _RULES)
    is_clip = "cls_token" in weights
    if is_clip and "head.weight" in weights:
        raise ValueError("its classifier reads patches before the last norm, and a plain ViT reads them after it")
    if is_clip:
        weights["cls_token"] = weights["cls_token"].reshape(1, 1, -1)
    if "pos_embed" in weights:
        weights["pos_embed"] = weights["pos_embed"][None]
    for prefix in _AT:
        for kind in ("weight", "bias"):
            joined = weights.pop(f"{prefix}head.attention.in_proj_{kind}", None)
            if joined is not None:
                third = len(joined) // 3
                weights[f"attn_pool.q.{kind}"], weights[f"attn_pool.kv.{kind}"] = joined.split((third, 2 * third))
    activation, norm_eps = ("quick_gelu", 1e-5) if is_clip else ("gelu_pytorch_tanh", 1e-6)
    options = options_of_config({"hidden_act": activation, **config}, norm_eps=norm_eps)
    undecided: tuple[str, ...] = ()
    if is_clip and not config:  # OpenAI's has quick GELU, LAION's GELU
        options.pop("activation", None)
        undecided = ("activation",)
    preprocess: PreprocessValues = CLIP if is_clip else {**HALF, "resize_mode": "squash"}  # as transformers' processors
    return Converted(weights, options, dropped, {**preprocess, "interpolation": "bicubic"}, undecided)


_OPEN_LAYER = r"visual\.transformer\.resblocks\.(\d+)\."
_OPEN_RULES = {
    r"visual\.class_embedding": "cls_token",
    r"visual\.positional_embedding": "pos_embed",
    r"visual\.conv1\.(.*)": r"patch_embed.proj.\1",
    r"visual\.ln_pre\.(.*)": r"norm_pre.\1",
    r"visual\.ln_post\.(.*)": r"norm.\1",
    _OPEN_LAYER + r"ln_([12])\.(.*)": r"blocks.\1.norm\2.\3",
    _OPEN_LAYER + r"attn\.in_proj_(.*)": r"blocks.\1.attn.qkv.\2",
    _OPEN_LAYER + r"attn\.out_proj\.(.*)": r"blocks.\1.attn.proj.\2",
    _OPEN_LAYER + r"mlp\.c_fc\.(.*)": r"blocks.\1.mlp.fc1.\2",
    _OPEN_LAYER + r"mlp\.c_proj\.(.*)": r"blocks.\1.mlp.fc2.\2",
    _OPEN_LAYER + r"ls_([12])\.gamma": r"blocks.\1.ls\2.gamma",
}
_OPEN_LEFT_OUT = {
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


@weight_format("CLIP", having({"visual.conv1.weight", "visual.transformer.resblocks.0.ln_1.weight"}))
def open_clip(weights: Weights, config: Config) -> Converted:
    """Names and shapes do not show quick GELU. Three names show OpenAI's files; others say it in their config."""
    openai = weights.keys() >= _OPENAI
    model = config.get("model_cfg", config)
    quick = openai or bool(model.get("quick_gelu", False))
    stated, pool, follows_pool = _tower_options(model.get("vision_cfg") or {})
    weights, dropped = translated(weights, _OPEN_LEFT_OUT, _OPEN_RULES)
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
    """(options that a `vision_cfg` states, its pooling, whether the last norm follows the mean); ValueError: others."""
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
