"""Google's .npz files: vision_transformer (AugReg, ViT) and big_vision (SimpleViT, SigLIP)

The two number the layers inside a block differently. big_vision may stack all blocks along a first axis, and gives the
class token no position. Sources: google-research/vision_transformer/vit_jax/models_vit.py, big_vision/models/vit.py.
"""

import re

import torch

from vit.models.catalog import Value
from vit.weights.formats.weight_format import (
    Config,
    Converted,
    Weights,
    fused,
    having,
    renamed,
    weight_format,
    without_pre_logits,
)
from vit.weights.preprocess_config import HALF, PreprocessValues

_PREFIXES = ("opt/target/", "params/img/", "params/", "")
_BLOCK = r"Transformer/encoderblock_(\d+)/"
_RULES = {
    "cls": "cls_token",
    "pos_embedding|Transformer/posembed_input/pos_embedding": "pos_embed",
    r"embedding/(.*)": r"patch_embed.proj.\1",
    r"Transformer/encoder_norm/(.*)": r"norm.\1",
    r"head/(.*)": r"head.\1",
    _BLOCK + r"LayerNorm_0/(.*)": r"blocks.\1.norm1.\2",
    _BLOCK + r"LayerNorm_[12]/(.*)": r"blocks.\1.norm2.\2",
    _BLOCK + r"MultiHeadDotProductAttention_[01]/(query|key|value)/(.*)": r"blocks.\1.attn.\2.\3",
    _BLOCK + r"MultiHeadDotProductAttention_[01]/out/(.*)": r"blocks.\1.attn.proj.\2",
    _BLOCK + r"MlpBlock_[03]/Dense_0/(.*)": r"blocks.\1.mlp.fc1.\2",
    _BLOCK + r"MlpBlock_[03]/Dense_1/(.*)": r"blocks.\1.mlp.fc2.\2",
    r"MAPHead_0/probe": "attn_pool.latent",
    r"MAPHead_0/LayerNorm_0/(.*)": r"attn_pool.norm.\1",
    r"MAPHead_0/MultiHeadDotProductAttention_0/query/(.*)": r"attn_pool.q.\1",
    r"MAPHead_0/MultiHeadDotProductAttention_0/(key|value)/(.*)": r"attn_pool.\1.\2",
    r"MAPHead_0/MultiHeadDotProductAttention_0/out/(.*)": r"attn_pool.proj.\1",
    r"MAPHead_0/MlpBlock_0/Dense_0/(.*)": r"attn_pool.mlp.fc1.\1",
    r"MAPHead_0/MlpBlock_0/Dense_1/(.*)": r"attn_pool.mlp.fc2.\1",
}


@weight_format("JAX", having(*({f"{prefix}embedding/kernel"} for prefix in _PREFIXES)))
def jax(weights: Weights, config: Config) -> Converted:
    """Kernels (in, out) become (out, in), heads are laid side by side, stacked blocks are taken apart.

    The activation is the authors': both sources call `flax.linen.gelu(x)`, whose default is the tanh approximation.
    timm's models of the same weights (AugReg) have exact GELU, so that timm:NAME has it, too.
    """
    prefix = next(prefix for prefix in _PREFIXES if f"{prefix}embedding/kernel" in weights)
    outside = {name: "not the image tower" for name in weights if not name.startswith(prefix)}
    weights = {name.removeprefix(prefix): value for name, value in weights.items() if name not in outside}
    weights, dropped = without_pre_logits(weights, "head/kernel")
    apart: Weights = {}  # blocks that are stacked along a first axis, as blocks of their own
    for name, value in weights.items():
        if name.startswith("Transformer/encoderblock/"):
            apart |= {name.replace("encoderblock", f"encoderblock_{place}"): part for place, part in enumerate(value)}
        else:
            apart[name] = value
    ours = renamed(apart, _RULES)
    query = ours.get("blocks.0.attn.query.kernel")  # (D, H, D / H)
    options: dict[str, Value] = {"activation": "gelu_tanh"}
    if query is not None and query.ndim == 3:
        options["num_heads"] = query.shape[1]
    named = {re.sub(r"\.(kernel|scale)$", ".weight", name): _turned(name, value) for name, value in ours.items()}
    named = fused(fused(named, "qkv", ("query", "key", "value")), "kv", ("key", "value"))
    if "pos_embed" not in named:  # big_vision's ViTs have learned positions, or fixed ones that no file holds
        options |= {"pos_embed": "sincos2d", "prefix_positions": False}
    preprocess: PreprocessValues = {**HALF, "interpolation": "bilinear"}
    return Converted(named, options, outside | {f"{prefix}{name}": why for name, why in dropped.items()}, preprocess)


def _turned(name: str, value: torch.Tensor) -> torch.Tensor:
    """An array of flax in PyTorch's order."""
    if name == "patch_embed.proj.kernel":
        return value.permute(3, 2, 0, 1)
    if re.search(r"\.(query|key|value|q)\.kernel$", name):
        return value.flatten(1).T  # (D, H, D / H)
    if name.endswith("proj.kernel"):
        return value.flatten(0, 1).T if value.ndim == 3 else value.T  # (H, D / H, D)
    if name.endswith(".kernel"):
        return value.T
    return value.flatten() if name.endswith(".bias") else value
