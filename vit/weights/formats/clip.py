"""Hugging Face transformers' names for the image towers of CLIP and SigLIP

Source: transformers 5, models/clip and models/siglip.
"""

from collections.abc import Set

from vit.weights.formats.huggingface import options_of_config
from vit.weights.formats.weight_format import Config, Converted, WeightFormat, Weights, fused, renamed, without
from vit.weights.preprocess_config import CLIP, HALF, PreprocessValues

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


def matches(names: Set[str]) -> bool:
    """Whether there is a patch embedding, and the first layer has a projection for queries alone."""
    return any(
        {f"{p}embeddings.patch_embedding.weight", f"{p}encoder.layers.0.self_attn.q_proj.weight"} <= names
        for p in ("", "vision_model.")
    )


def convert(weights: Weights, config: Config) -> Converted:
    """CLIP's class token is read, SigLIP pools by attention; a classifier on SigLIP reads the mean of the patches.

    ValueError: a classifier on CLIP, which reads patches before the last norm.
    """
    config = config.get("vision_config", config)
    left_out = {**_LEFT_OUT, **_POOLING} if "classifier.weight" in weights else _LEFT_OUT
    weights, dropped = without(weights, left_out)
    weights = fused(renamed(weights, _RULES), "qkv", ("q_proj", "k_proj", "v_proj"))
    is_clip = "cls_token" in weights
    if is_clip and "head.weight" in weights:
        raise ValueError("its classifier reads patches before the last norm, and a plain ViT reads them after it")
    if "cls_token" in weights:
        weights["cls_token"] = weights["cls_token"].reshape(1, 1, -1)
    if "pos_embed" in weights:
        weights["pos_embed"] = weights["pos_embed"][None]
    for prefix in ("", "vision_model."):
        for kind in ("weight", "bias"):
            joined = weights.pop(f"{prefix}head.attention.in_proj_{kind}", None)
            if joined is not None:
                third = len(joined) // 3
                weights[f"attn_pool.q.{kind}"], weights[f"attn_pool.kv.{kind}"] = joined.split((third, 2 * third))
    options = options_of_config(
        {"hidden_act": "quick_gelu" if is_clip else "gelu_pytorch_tanh", **config}, norm_eps=1e-5 if is_clip else 1e-6
    )
    undecided: tuple[str, ...] = ()
    if is_clip and not config:  # OpenAI's has quick GELU, LAION's GELU
        options.pop("activation", None)
        undecided = ("activation",)
    preprocess: PreprocessValues = CLIP if is_clip else {**HALF, "resize_mode": "squash"}  # as transformers' processors
    return Converted(weights, options, dropped, {**preprocess, "interpolation": "bicubic"}, undecided)


FORMAT = WeightFormat("Hugging Face CLIP, SigLIP", matches, convert)
