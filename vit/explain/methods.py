"""The methods of `vit explain` by name, and the choice of methods for a network

Our ViTs have all methods. So do the ViTs of timm whose attention can be read (`timm_attention.NETWORKS`). Other
networks have Grad-CAM.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec

import torch
from torch import Tensor

from vit.errors import UsageError, nearest
from vit.explain.attention import (
    AttentionRecord,
    attention_weights,
    last_attention,
    patch_map,
    record_attention,
)
from vit.explain.gradcam import gradcam
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer

Method = Callable[..., Tensor]  # (network, normalized images (B, 3, S, S), classes (B,)) -> maps (B, h, w), not below 0


def rollout(network: Network, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) -> maps (B, G, G), the same for every class.

    Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers" (arXiv 2005.00928), eq. 1. A block passes half
    of a token on, and mixes half by its attention, averaged over heads. The product of these matrices over all blocks
    is the flow.
    """
    return patch_map(network, rolled(attention_weights(network, images)))


def rolled(layers: list[Tensor]) -> Tensor:
    """Attention weights (B, H, T, T) of each block, the first block first -> flow through all blocks (B, T, T).

    A row says how much of each input token is in an output token, and sums to 1.
    """
    num_tokens = layers[0].shape[-1]
    identity = torch.eye(num_tokens, device=layers[0].device)
    flow = identity
    for weights in layers:
        flow = (weights.mean(dim=1) + identity) / 2 @ flow
    return flow


def relevance(network: Network, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) and a class for each (B,) -> maps (B, G, G).

    Chefer, Gur and Wolf 2021, "Generic Attention-model Explainability" (arXiv 2103.15679), eq. 5 and 6, as in the
    authors' notebook for ViTs (github.com/hila-chefer/Transformer-MM-Explainability). R starts as the identity. Each
    block adds A' R, where A' is the mean over heads of the positive part of gradient times attention.
    """
    if isinstance(network, VisionTransformer):
        found: Iterable[tuple[Tensor, Tensor]] = _weights_and_gradients(network, images, class_indices)
    else:
        from vit.explain.timm_attention import weights_and_gradients  # not above: timm takes seconds

        found = weights_and_gradients(network, images, class_indices)
    flow: Tensor | None = None
    with torch.no_grad():
        for weights, gradient in found:
            positive = (gradient * weights).clamp(min=0).mean(dim=1)  # (B, T, T)
            flow = torch.eye(positive.shape[-1], device=images.device) if flow is None else flow
            flow = flow + positive @ flow
    assert flow is not None
    return patch_map(network, flow)


def _weights_and_gradients(
    network: VisionTransformer, images: Tensor, class_indices: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """(attention weights, gradient of the class's logit with respect to them), each (B, H, T, T), of each block."""
    with record_attention(network) as records, torch.enable_grad():
        logits = network(images).gather(1, class_indices[:, None])  # (B, 1)
        gradients = torch.autograd.grad(logits.sum(), [record.heads for record in records])
    for record, gradient in zip(records, gradients, strict=True):
        with torch.no_grad():
            yield record.weights(), weight_gradient(record, gradient)


def weight_gradient(record: AttentionRecord, gradient: Tensor) -> Tensor:
    """The gradient with respect to the attention weights (B, H, T, T), which the fused computation never stores.

    The output of a head is o_i = sum_j a_ij v_j. So the derivative with respect to a_ij is the derivative with respect
    to o_i, times v_j. The derivative is 0 for queries that the forward pass left out.

    Args:
        record: an attention module in a forward pass.
        gradient: gradient with respect to `record.heads` (B, R, D).
    """
    heads = gradient.unflatten(-1, (record.module.num_heads, -1)).transpose(1, 2)  # (B, H, R, D / H)
    computed = heads @ record.values().transpose(-2, -1)  # (B, H, R, T)
    num_tokens = record.tokens.shape[1]
    return torch.nn.functional.pad(computed, (0, 0, 0, num_tokens - computed.shape[2]))


METHODS: Mapping[str, Method] = {
    "attention": last_attention,
    "rollout": rollout,
    "relevance": relevance,
    "gradcam": gradcam,
}


def choose_methods(names: str, network: Network) -> dict[str, Method]:
    """The methods that a comma-separated list names.

    "all" stands for all methods that fit the network and the installed packages. "best" stands for one method:
    relevance where attention can be read, and Grad-CAM for other networks. Relevance is as faithful as Grad-CAM
    (docs/measurements.md), and needs no other package.

    Raises:
        UsageError: a method is unknown, or reads attention that the network does not have.
    """
    has_attention = num_readable_blocks(network) > 0
    if names == "best":
        names = "relevance" if has_attention else "gradcam"
    if names == "all":
        possible = METHODS if has_attention else {"gradcam": gradcam}
        found = {
            name: method for name, method in possible.items() if name != "gradcam" or find_spec("pytorch_grad_cam")
        }
        return found or {"gradcam": gradcam}  # its error says what to install
    chosen = {}
    for name in (part.strip() for part in names.split(",")):
        if name not in METHODS:
            raise UsageError(f"there is no method {name!r}", nearest(name, [*METHODS, "all", "best"]))
        if name != "gradcam" and not has_attention:
            raise UsageError(
                f"the method {name} needs a ViT whose attention can be read, and this network is a {_kind(network)}",
                "choose --method gradcam",
            )
        chosen[name] = METHODS[name]
    return chosen


def num_readable_blocks(network: Network) -> int:
    """Number of blocks whose attention the methods read; 0 where they cannot."""
    if isinstance(network, VisionTransformer):
        return len(network.blocks)
    if getattr(network, "model", None) is None:
        return 0
    from vit.explain.timm_attention import attention_modules  # not above: timm takes seconds

    try:
        return len(attention_modules(network))
    except UsageError:
        return 0


def _kind(network: Network) -> str:
    """The type of a network, for an error; of a network of timm, the type in timm."""
    name = type(network).__name__
    return f"{type(network.model).__name__} of timm" if name == "TimmNetwork" else name
