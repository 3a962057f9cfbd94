"""What timm knows of a model by its name: whether it is a plain ViT, the values that shapes do not show, its config."""

from dataclasses import dataclass
from typing import Any

import timm
import torch
from timm.layers import Attention, PatchEmbed
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import Block, VisionTransformer
from torch import nn

_POOLS = {"token": "cls", "": "cls", "map": "map"}


@dataclass(frozen=True)
class TimmModel:
    """A model of timm.

    Attributes:
        name: without the tag of its weights.
        config: timm's pretrained_cfg: input_size, mean, std, interpolation, crop_pct, num_classes.
        values: options of our VisionTransformer; None: it is no plain ViT.
    """

    name: str
    config: dict[str, Any]
    values: dict[str, Any] | None


def timm_model(name: str) -> TimmModel | None:
    """The model of that name, with or without the tag of its weights; None when timm has none."""
    if not timm.is_model(name):
        return None
    config = timm.models.get_pretrained_cfg(name)
    with torch.device("meta"):
        model = timm.create_model(name, pretrained=False)
    return TimmModel(name.split(".")[0], {} if config is None else config.to_dict(), values_of(model))


def values_of(model: Any) -> dict[str, Any] | None:
    """Options of our VisionTransformer for a model of timm that shapes do not show; None: it is no plain ViT."""
    if type(model) not in (VisionTransformer, VisionTransformerDistilled) or type(model.patch_embed) is not PatchEmbed:
        return None
    first: Any = model.blocks[0]
    if type(first) is not Block or type(first.attn) is not Attention or not isinstance(first.norm1, nn.LayerNorm):
        return None
    values = {"num_heads": first.attn.num_heads, "norm_eps": first.norm1.eps, "embed_dim": model.embed_dim}
    activation = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu"}.get(type(first.mlp.act).__name__)
    if activation not in (None, "gelu"):
        values["activation"] = activation
    if not isinstance(model, VisionTransformerDistilled):
        averaged = "patch_mean" if model.has_class_token else "mean"
        values["pool"] = averaged if model.global_pool == "avg" else _POOLS.get(model.global_pool, "cls")
    return values
