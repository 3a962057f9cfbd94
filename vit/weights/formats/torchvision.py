"""torchvision's names for its VisionTransformer

Source: torchvision/models/vision_transformer.py.
"""

from collections.abc import Set

from vit.weights.formats.weight_format import Config, Converted, WeightFormat, Weights, renamed
from vit.weights.preprocess_config import IMAGENET, PreprocessValues

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


def matches(names: Set[str]) -> bool:
    """Whether layers are called encoder_layer_N."""
    return "conv_proj.weight" in names and "encoder.layers.encoder_layer_0.ln_1.weight" in names


def convert(weights: Weights, config: Config) -> Converted:
    """torchvision's weights. A hidden layer in the head (`representation_size`) has no place in our networks."""
    preprocess: PreprocessValues = {**IMAGENET, "interpolation": "bilinear", "crop_fraction": 0.875}
    return Converted(renamed(weights, _RULES), preprocess=preprocess)


FORMAT = WeightFormat("torchvision", matches, convert)
