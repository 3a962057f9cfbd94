"""Relevance propagation: attention multiplied by the gradient of a class's logit, through all blocks"""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from vit.explain.attention import AttentionRecord, patch_map, record_attention
from vit.models.network import Network
from vit.models.vision_transformer import VisionTransformer


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
