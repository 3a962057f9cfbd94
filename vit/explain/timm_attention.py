"""Attention weights of timm's ViTs, read where the modules of timm drop some of them

A module of timm computes softmax(q k^T / sqrt(D / H)) v in one fused kernel, or in steps. In steps, the weights pass
through the module's dropout, which does nothing in evaluation mode. A hook reads them there. Shape letters are those of
vit/models/vision_transformer.py; T counts the tokens of an image, with prefix tokens first.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import timm.layers
import torch
from timm.models import beit, deit, eva, naflexvit, vision_transformer, vision_transformer_relpos
from torch import Tensor, nn

from vit.errors import UsageError
from vit.models.network import Network

NETWORKS: tuple[type, ...] = (  # plain ViTs: all blocks see the same tokens, a square of patches row by row
    vision_transformer.VisionTransformer, deit.VisionTransformerDistilled, eva.Eva, beit.Beit,
    vision_transformer_relpos.VisionTransformerRelPos, naflexvit.NaFlexVit,
)  # fmt: skip
ATTENTION: tuple[type, ...] = (  # modules whose weights pass through `attn_drop`, and sum to 1
    timm.layers.Attention, timm.layers.AttentionRope, beit.Attention, eva.EvaAttention,
    vision_transformer_relpos.RelPosAttention,
)  # fmt: skip
_NETWORK_NAMES = ", ".join(sorted({network.__name__ for network in NETWORKS}))


def attention_modules(network: Network) -> list[nn.Module]:
    """The attention module of each block of a network of timm.

    UsageError where it is not one of `NETWORKS`, or a block does not have one module of `ATTENTION`.
    """
    model: Any = getattr(network, "model", None)
    if type(model) not in NETWORKS:
        kind = type(network if model is None else model).__name__
        problem = f"a {kind} does not have attention between all patches that can be read"
        raise UsageError(problem, f"choose --method gradcam, or one of our ViTs or of timm's {_NETWORK_NAMES}")
    of_blocks = [[module for module in block.modules() if type(module) in ATTENTION] for block in model.blocks]
    others = [block for block, modules in zip(model.blocks, of_blocks, strict=True) if len(modules) != 1]
    if others:
        problem = f"the attention of timm's {type(others[0]).__name__} cannot be read"
        raise UsageError(problem, "choose --method gradcam")
    return [module for (module,) in of_blocks]


def timm_patch_map(network: Network, flow: Tensor) -> Tensor:
    """Flow between tokens (..., T, T) -> the part of it that goes from each patch to the head (..., G, G)."""
    model: Any = network.model
    num_prefix, pool = int(model.num_prefix_tokens), getattr(model, "global_pool", "")
    if isinstance(model, deit.VisionTransformerDistilled):
        read = slice(2)
    elif pool == "token":
        read = slice(1)
    else:  # the attention pooling of Eva reads all tokens
        reads_all = getattr(model, "pool_include_prefix", False) or (pool == "map" and isinstance(model, eva.Eva))
        read = slice(None) if reads_all else slice(num_prefix, None)
    patches = flow[..., read, :].mean(dim=-2)[..., num_prefix:]
    return patches.unflatten(-1, (math.isqrt(patches.shape[-1]), -1))


@contextmanager
def read_weights(network: Network) -> Iterator[list[Tensor]]:
    """Append the attention weights (B, H, T, T) of each block to the list given, in every forward pass meanwhile.

    The fused computation is switched off meanwhile, so logits may differ in the last digits. UsageError as of
    `attention_modules`, or where tokens are not prefix tokens and a square of patches.
    """
    weights: list[Tensor] = []
    modules: list[Any] = list(attention_modules(network))
    model: Any = network.model
    num_prefix = int(model.num_prefix_tokens)

    def keep(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        (seen,) = inputs
        patches = seen.shape[-1] - num_prefix
        if seen.ndim != 4 or seen.shape[-2] != seen.shape[-1] or math.isqrt(max(0, patches)) ** 2 != patches:
            raise UsageError("the tokens of this network are not a square of patches", "choose --method gradcam")
        weights.append(seen)

    with ExitStack() as stack:
        for module in modules:
            stack.callback(setattr, module, "fused_attn", module.fused_attn)
            stack.enter_context(module.attn_drop.register_forward_pre_hook(keep))
            module.fused_attn = False
        yield weights


def weights_and_gradients(network: Network, images: Tensor, class_indices: Tensor) -> list[tuple[Tensor, Tensor]]:
    """(attention weights, gradient of the class's logit with respect to them), each (B, H, T, T), of each block."""
    with read_weights(network) as weights, torch.enable_grad():
        logits = network(images.detach().requires_grad_()).gather(1, class_indices[:, None])  # (B, 1)
        gradients = torch.autograd.grad(logits.sum(), weights, allow_unused=True)
    return [
        (weight.detach(), torch.zeros_like(weight) if gradient is None else gradient)
        for weight, gradient in zip(weights, gradients, strict=True)
    ]
