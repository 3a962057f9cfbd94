"""timm's names, which are ours; its releases under them are ViT, DeiT, AugReg, SigLIP, DINO, ... Source: timm 1.0."""

from collections.abc import Mapping, Set
from functools import partial
from typing import Any

from torch import nn

from vit.weights.formats.reading import IMAGENET, Config, Dialect, Reading, Weights, renamed, without

_TOWER = "visual.trunk."  # an image tower of OpenCLIP that is a model of timm
_WIDE_SIGLIP = 1536  # heads of 96 channels, where DINOv2's giant has 64
_POOLS = {"cls": "token", "cls_dist": "token", "mean": "avg", "patch_mean": "avg", "map": "map"}


def read(weights: Weights, config: Config) -> Reading:
    """timm's weights: `dist_token` without a head of its own is a register."""
    left_out = {r"pre_logits\..*": "a layer that published weights no longer use"}
    if any(name.startswith(_TOWER) for name in weights):
        left_out |= {r"visual\.(?!trunk\.).*": "the map into CLIP's common space", r"(?!visual\.).*": "the text tower"}
    weights, dropped = without(weights, left_out)
    weights = {name.removeprefix(_TOWER): value for name, value in weights.items()}
    if "dist_token" in weights and "head_dist.weight" not in weights:
        weights = renamed(weights, {"dist_token": "reg_token"})
    values = {"norm_eps": 1e-5} if "norm_pre.weight" in weights else {}  # CLIP's
    preprocess = {**IMAGENET, "interpolation": "bicubic"}
    return Reading(weights, values, dropped, preprocess, _undecided(weights), _doubt(weights))


def _undecided(weights: Weights) -> tuple[str, ...]:
    """What timm's models with these names do differently: CLIP's have GELU or quick GELU, SigLIP's GELU or its tanh."""
    if "norm_pre.weight" in weights:
        return ("activation",)
    if "cls_token" in weights or not {"blocks.0.attn.qkv.bias", "pos_embed"} <= weights.keys():
        return ()
    if "blocks.0.ls1.gamma" in weights or "fc_norm.weight" in weights:
        return ()
    is_wide = weights["pos_embed"].shape[-1] == _WIDE_SIGLIP
    return ("activation",) if "attn_pool.latent" in weights and not is_wide else ("activation", "num_heads")


def _doubt(weights: Weights) -> str:
    """Networks of timm whose blocks are others, under names and shapes that a plain ViT could have."""
    if "pos_embed" not in weights:
        return "networks with rotary or relative positions"
    mean_norm = "fc_norm.weight" in weights and "cls_token" not in weights
    plain = {"blocks.0.attn.qkv.bias", "blocks.0.ls1.gamma", "reg_token"} & weights.keys()
    return "timm's vit_base_patch16_rpn_224, which normalizes after each branch" if mean_norm and not plain else ""


def speaks(names: Set[str]) -> bool:
    """Whether patch embedding and a first block with fused queries, keys and values are there."""
    return any({f"{p}patch_embed.proj.weight", f"{p}blocks.0.attn.qkv.weight"} <= names for p in ("", _TOWER))


DIALECT = Dialect("timm", speaks, read)


def to_timm(weights: Weights, values: Mapping[str, Any]) -> tuple[Weights, str, dict[str, Any]]:
    """Our weights for timm: (state dict, name of a model in timm, arguments of timm.create_model beside that name).

    `timm.create_model(name, **arguments).load_state_dict(state)` computes our logits.

    Args:
        weights: a state dict of VisionTransformer, with the buffer `pos_embed` of fixed positions put in.
        values: the network's description.

    Raises:
        ValueError: timm has no such network.
    """
    pool = values.get("pool", "cls")
    if pool not in _POOLS or values.get("norm_placement", "pre") != "pre":
        raise ValueError(
            f"timm has no ViT with pool {pool!r} and norm_placement {values.get('norm_placement', 'pre')!r}"
        )
    arguments: dict[str, Any] = {
        "img_size": values["image_size"],
        "num_classes": values["num_classes"],
        "qkv_bias": values.get("qkv_bias", True),
        "qk_norm": values.get("qk_norm", False),
        "init_values": values.get("layer_scale", 0.0) or None,
        "reg_tokens": values.get("num_registers", 0),
        "global_pool": _POOLS[pool],
        "class_token": pool not in ("mean", "map"),
        "no_embed_class": not values.get("prefix_positions", True),
        "pre_norm": values.get("embed_norm", False),
        "fc_norm": values.get("pool_norm", False),
        "norm_layer": partial(nn.LayerNorm, eps=values.get("norm_eps", 1e-6)),
        "pos_embed": "none" if values.get("pos_embed") == "none" else "learn",
    }
    for name in ("patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio"):
        arguments[name] = values[name]
    activation = values.get("activation", "gelu")
    if activation == "swiglu":
        from timm.layers import SwiGLUPacked

        arguments |= {"mlp_layer": SwiGLUPacked, "act_layer": nn.SiLU}
    else:
        arguments["act_layer"] = activation
    if pool == "cls_dist":
        if arguments.pop("reg_tokens"):
            raise ValueError("timm has no ViT with a distillation token and registers")
        return dict(weights), "deit_base_distilled_patch16_224", arguments
    return dict(weights), "vit_base_patch16_224", arguments
