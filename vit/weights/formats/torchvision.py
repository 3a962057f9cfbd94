"""torchvision's names for its VisionTransformer. Source: torchvision/models/vision_transformer.py."""

from collections.abc import Set

from vit.weights.formats.reading import IMAGENET, Config, Dialect, Reading, Weights, renamed

_LAYER = r"encoder\.layers\.encoder_layer_(\d+)\."
_RULES = {
    "class_token": "cls_token",
    r"encoder\.pos_embedding": "pos_embed",
    r"conv_proj\.(.*)": r"patch_embed.proj.\1",
    _LAYER + r"ln_([12])\.(.*)": r"blocks.\1.norm\2.\3",
    _LAYER + r"self_attention\.in_proj_(.*)": r"blocks.\1.attn.qkv.\2",
    _LAYER + r"self_attention\.out_proj\.(.*)": r"blocks.\1.attn.proj.\2",
    _LAYER + r"mlp\.(?:0|linear_1)\.(.*)": r"blocks.\1.mlp.fc1.\2",
    _LAYER + r"mlp\.(?:3|linear_2)\.(.*)": r"blocks.\1.mlp.fc2.\2",
    r"encoder\.ln\.(.*)": r"norm.\1",
    r"heads\.head\.(.*)": r"head.\1",
}


def speaks(names: Set[str]) -> bool:
    """Whether layers are called encoder_layer_N."""
    return "conv_proj.weight" in names and "encoder.layers.encoder_layer_0.ln_1.weight" in names


def read(weights: Weights, config: Config) -> Reading:
    """torchvision's weights; a hidden layer in its head (`representation_size`) has no place here."""
    preprocess = {**IMAGENET, "interpolation": "bilinear", "crop_fraction": 0.875}
    return Reading(renamed(weights, _RULES), preprocess=preprocess)


DIALECT = Dialect("torchvision", speaks, read)
