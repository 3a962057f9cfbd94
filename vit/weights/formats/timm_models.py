"""A model of timm by its name: whether it is a plain ViT, options that shapes do not show, its config"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import timm
import torch
from timm.layers import Attention, GluMlp, Mlp, PatchEmbed
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import Block, LayerScale, VisionTransformer
from torch import Tensor, nn

from vit.errors import UsageError
from vit.models.options import Options, Value
from vit.models.spec import NetworkSpec
from vit.weights.adapt import adapt
from vit.weights.formats.detect import convert_weights
from vit.weights.formats.shapes import shown_network
from vit.weights.formats.weight_format import Config, Weights

_POOLS = {"token": "cls", "": "cls", "map": "map"}
_ACTIVATIONS = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu"}
_WRAPPERS = ("", "module.", "_orig_mod.", "model.", "timm_model.", "backbone.", "visual.trunk.")


@dataclass(frozen=True)
class TimmModel:
    """A model of timm.

    Attributes:
        name: without the tag of its weights.
        config: timm's pretrained_cfg: input_size, mean, std, interpolation, crop_pct, num_classes.
        options: options of our VisionTransformer; None: the model is not a plain ViT.
        image_size: side of its images, in pixels.
        shapes: shape of each tensor, by name.
    """

    name: str
    config: Config
    options: Options | None
    image_size: int
    shapes: Mapping[str, torch.Size]

    def weights_of(self, weights: Weights) -> tuple[Weights, int]:
        """(tensors of a file in this model's names, outputs of their classifier; 0: they have none).

        Raises:
            ValueError: a tensor is missing, unexpected or of another shape, and is not the classifier's.
        """
        heads = self.config.get("classifier") or ()
        heads = (heads,) if isinstance(heads, str) else tuple(heads)
        outer = max(_WRAPPERS, key=lambda w: sum(f"{w}{name}" in weights for name in self.shapes))
        own = {name.removeprefix(outer): value for name, value in weights.items() if name.startswith(outer)}
        body = {
            name: shape for name, shape in self.shapes.items() if not name.startswith(tuple(f"{h}." for h in heads))
        }
        rest = {name: value for name, value in own.items() if not name.startswith(tuple(f"{h}." for h in heads))}
        wrong = [f"{name} is missing" for name in body.keys() - rest.keys()]
        wrong += [f"{name} is unexpected" for name in rest.keys() - body.keys()]
        wrong += [
            f"{name} is {tuple(rest[name].shape)}, not {tuple(shape)}"
            for name, shape in body.items()
            if name in rest and rest[name].shape != shape
        ]
        if wrong:
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            raise ValueError("; ".join(sorted(wrong)[:3]) + more)
        rows = [own[f"{head}.weight"] for head in heads if f"{head}.weight" in own]
        return own, len(rows[0]) if rows else 0


def timm_model(name: str, image_size: int | None = None) -> TimmModel | None:
    """The model of that name, with or without the tag of its weights; None when timm does not have it.

    Args:
        image_size: side of its images in pixels; None: as timm builds it.
    """
    if not timm.is_model(name):
        return None
    config = timm.models.get_pretrained_cfg(name)
    size = {} if image_size is None else {"img_size": image_size}
    with torch.device("meta"):
        try:
            model = timm.create_model(name, pretrained=False, **size)
        except TypeError:  # a network without a fixed size
            model = timm.create_model(name, pretrained=False)
    shapes = {key: value.shape for key, value in model.state_dict().items()}
    told = {} if config is None else config.to_dict()
    side = image_size or int(told.get("input_size", (3, 224, 224))[-1])
    return TimmModel(name.split(".")[0], told, options_of_model(model), side, shapes)


def options_of_model(model: Any) -> Options | None:
    """Options of our VisionTransformer for a model of timm that shapes do not show; None: it is not a plain ViT.

    Plain means that every part is of a type which ours computes, and that ours takes all its tensors.
    """
    if type(model) not in (VisionTransformer, VisionTransformerDistilled) or type(model.patch_embed) is not PatchEmbed:
        return None
    if not all(_is_plain(block) for block in model.blocks) or getattr(model, "pool_include_prefix", False):
        return None
    first: Any = model.blocks[0]
    options: dict[str, Value] = {
        "num_heads": first.attn.num_heads,
        "norm_eps": first.norm1.eps,
        "embed_dim": model.embed_dim,
    }
    activation = _ACTIVATIONS.get(type(first.mlp.act).__name__)
    if activation not in (None, "gelu"):
        options["activation"] = activation
    if not isinstance(model, VisionTransformerDistilled):
        if model.global_pool not in ("avg", *_POOLS):
            return None
        averaged = "patch_mean" if model.has_class_token else "mean"
        options["pool"] = averaged if model.global_pool == "avg" else _POOLS[model.global_pool]
    return options if _fits(model, options) else None


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


def _fits(model: nn.Module, options: Options) -> bool:
    """Whether our network of these options has exactly the model's tensors."""
    weights: dict[str, Tensor] = {
        name: torch.empty_like(value, device="meta") for name, value in model.state_dict().items()
    }
    try:
        _, converted = convert_weights(weights, {})
        others = {name: value for name, value in options.items() if name != "embed_dim"}
        shown = shown_network(converted.weights, {**converted.options, **others})
        if shown.options["embed_dim"] != options["embed_dim"]:
            return False
        head = converted.weights.get("head.weight")
        ours = NetworkSpec.named("vit", 1 if head is None else len(head), shown.options).build_empty(shown.image_size)
        adapt(ours, converted.weights)
    except (ValueError, UsageError):
        return False
    return True
