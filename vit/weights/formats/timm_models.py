"""Models of timm as timm builds them: tensors, config, and options of those that are plain ViTs"""

from functools import partial
from typing import Any

import timm
import torch
from timm.layers import Attention, GluMlp, Mlp, PatchEmbed, RotaryEmbeddingCat, RotaryEmbeddingDinoV3
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva, EvaBlock
from timm.models.vision_transformer import Block, LayerScale, VisionTransformer
from torch import nn

from vit.errors import UsageError
from vit.models.catalog import Options, Value
from vit.models.later_papers import RotaryPositions
from vit.models.network import Undrawn
from vit.models.spec import NetworkSpec
from vit.models.timm_network import sized
from vit.models.vit_config import PositionEmbedding
from vit.weights.adapt import adapt
from vit.weights.formats.detect import convert_weights
from vit.weights.formats.weight_format import TimmModel, shown_network

_POOLS_OF_VIT = ("token", "avg", "")
_POOLS = {"token": "cls", "": "cls", "map": "map"}
_ACTIVATIONS = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu"}


def timm_model(name: str, image_size: int | None = None, global_pool: str | None = None) -> TimmModel | None:
    """The model of that name, with or without the tag of its weights; None when timm does not have it.

    Without an image side in pixels, or a word of timm's for how it pools before the classifier, it is as timm builds
    it. ValueError: it pools in another way than timm builds it, and is not a plain ViT.
    """
    if not timm.is_model(name):
        return None
    try:
        config = timm.models.get_pretrained_cfg(name)
    except RuntimeError:  # a tag that timm does not know: of somebody's own weights
        name = name.partition(".")[0]
        config = timm.models.get_pretrained_cfg(name)
    with torch.device("meta"), Undrawn():
        model: Any = sized(partial(timm.create_model, name, pretrained=False), image_size)
    head = getattr(model, "head", None)
    pools = (getattr(head, "global_pool", None), getattr(head, "pool_type", None), getattr(model, "global_pool", None))
    kinds = [getattr(pool, "pool_type", pool) for pool in pools]
    own_pool = next((kind for kind in kinds if isinstance(kind, str)), "")  # as timm's hub folders state it
    options = options_of_model(model)
    if global_pool not in (None, own_pool):
        if options is None or "pool" not in options or global_pool not in _POOLS_OF_VIT:
            raise ValueError(f"it pools by {global_pool!r}, and timm's {name} by {own_pool!r}")
        options = {**options, "pool": _pool(global_pool, model.cls_token is not None)}
    shapes = {key: value.shape for key, value in model.state_dict().items()}
    stated = {} if config is None else config.to_dict()
    side = image_size or int(stated.get("input_size", (3, 224, 224))[-1])
    return TimmModel(name.split(".")[0], stated, options, side, shapes)


def options_of_model(model: Any) -> Options | None:
    """Options that shapes do not show of a model of timm; None: a part is of a type that our ViT does not compute."""
    if type(model) not in (VisionTransformer, VisionTransformerDistilled, Eva):
        return None
    patches = model.patch_embed
    if type(patches) is not PatchEmbed or getattr(model, "pool_include_prefix", False):
        return None
    if any(side % patch for side, patch in zip(patches.img_size, patches.patch_size, strict=True)):
        return None  # its convolution leaves out a border, as that of SigLIP so400m for 384 pixels
    rotary = _rotary_positions(model) if type(model) is Eva else ""
    if rotary is None or not (rotary or all(_is_plain(block) for block in model.blocks)):
        return None
    one: Any = model.blocks[0]
    options: dict[str, Value] = {"num_heads": one.attn.num_heads, "norm_eps": one.norm1.eps}
    options |= {"embed_dim": model.embed_dim} | ({"pos_embed": rotary} if rotary else {})
    if getattr(model, "num_reg_tokens", 0) and model.pos_embed is not None:  # else the number of positions shows it
        options["prefix_positions"] = not model.no_embed_class
    activation = "swiglu" if isinstance(one.mlp.act, nn.SiLU) else _ACTIVATIONS.get(type(one.mlp.act).__name__)
    if activation not in (None, "gelu"):
        options["activation"] = activation
    if not isinstance(model, VisionTransformerDistilled):
        if model.global_pool not in ("avg", *_POOLS):
            return None
        options["pool"] = _pool(model.global_pool, model.cls_token is not None)
    return options if _fits(model, options) else None


def _pool(global_pool: str, has_class_token: bool) -> str:
    return ("patch_mean" if has_class_token else "mean") if global_pool == "avg" else _POOLS[global_pool]


def _is_plain(block: Any) -> bool:
    """Whether a block of timm computes what a block of ours does."""
    if type(block) is not Block or type(block.attn) is not Attention or not isinstance(block.norm1, nn.LayerNorm):
        return False
    if not all(isinstance(scale, nn.Identity | LayerScale) for scale in (block.ls1, block.ls2)):
        return False
    mlp, activation = block.mlp, type(block.mlp.act)
    if type(mlp) is GluMlp:
        return activation is nn.SiLU and not mlp.gate_last and isinstance(mlp.norm, nn.Identity)
    return type(mlp) is Mlp and activation.__name__ in _ACTIVATIONS and isinstance(mlp.norm, nn.Identity)


def _rotary_positions(model: Any) -> PositionEmbedding | None:
    """Our name for the positions of a model of timm's class `Eva`; None: ours do not compute the model."""
    if not all(type(block) is EvaBlock and type(block.mlp.act) in (nn.GELU, nn.SiLU) for block in model.blocks):
        return None
    rope, is_learned = model.rope, model.pos_embed is not None
    if type(rope) is RotaryEmbeddingDinoV3 and rope.temperature == RotaryPositions.PERIOD_BASE:
        settings = (rope.normalize_coords, rope.grid_offset, rope.grid_indexing, rope.rotate_half)
        return None if is_learned or settings != ("separate", 0.0, "ij", True) else "rope2d"
    if type(rope) is RotaryEmbeddingCat and rope.temperature == RotaryPositions.PERIOD_BASE_EVA:
        grid = (RotaryPositions.GRID_EVA, RotaryPositions.GRID_EVA)
        layout = (rope.grid_type, rope.in_pixels, rope.ref_feat_shape, rope.grid_offset, rope.grid_indexing)
        if layout != ("index", False, grid, 0.0, "ij") or rope.rotate_half:
            return None
        return "learned_rope2d_eva" if is_learned else "rope2d_eva"
    return None


def _fits(model: nn.Module, options: Options) -> bool:
    """Whether our network of these options has exactly the model's tensors."""
    weights = {name: torch.empty_like(value, device="meta") for name, value in model.state_dict().items()}
    try:
        if (matched := convert_weights(weights, {})) is None:
            return False
        converted = matched[1]
        others = {name: value for name, value in options.items() if name != "embed_dim"}
        shown = shown_network(converted.weights, {**converted.options, **others})
        head = converted.weights.get("head.weight")
        ours = NetworkSpec.named("vit", 1 if head is None else len(head), shown.options).build_empty(shown.image_size)
        adapt(ours, converted.weights)
    except (ValueError, UsageError):
        return False
    return shown.options["embed_dim"] == options["embed_dim"]
