"""OpenCLIP's and OpenAI's names for the image towers of CLIP

Source: mlfoundations/open_clip, src/open_clip/transformer.py. OpenCLIP's towers that are models of timm are in timm.py.
The map into the common space of images and texts is left out, because it is not a classifier.
"""

from collections.abc import Set

from vit.models.options import Options
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
_OPENAI = {"input_resolution", "context_length", "vocab_size"}  # only in OpenAI's files, which use quick GELU


def matches(names: Set[str]) -> bool:
    """Whether there is an image tower called `visual` with residual blocks."""
    return {"visual.conv1.weight", "visual.transformer.resblocks.0.ln_1.weight"} <= names


def convert(weights: Weights, config: Config) -> Converted:
    """Names and shapes do not show quick GELU. Three names show OpenAI's files; others say it in their config."""
    openai = names_openai(weights)
    quick = openai or bool(config.get("model_cfg", config).get("quick_gelu", False))
    weights, dropped = without(weights, _LEFT_OUT)
    weights = renamed(weights, _RULES)
    for name, axes in (("cls_token", 2), ("pos_embed", 1)):
        if name in weights:
            weights[name] = weights[name].reshape((1,) * axes + tuple(weights[name].shape))
    options: Options = {"norm_eps": 1e-5} | ({"activation": "quick_gelu"} if quick else {})
    undecided = () if openai or config else ("activation",)
    return Converted(weights, options, dropped, {**CLIP, "interpolation": "bicubic"}, undecided)


def names_openai(weights: Weights) -> bool:
    """Whether OpenAI made the file."""
    return weights.keys() >= _OPENAI


FORMAT = WeightFormat("CLIP", matches, convert)
