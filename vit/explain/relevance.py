"""Relevance propagation: attention weighted by how much each weight speaks for a class."""

import torch
from torch import Tensor

from vit.explain.attention import Attended, read_patches, watched
from vit.models.vision_transformer import VisionTransformer


def relevance(network: VisionTransformer, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) and a class for each (B,) -> maps (B, G, G).

    Chefer, Gur and Wolf 2021, "Generic Attention-model Explainability" (arXiv 2103.15679), eq. 5 and 6, as in their
    notebook for ViTs (github.com/hila-chefer/Transformer-MM-Explainability): R starts as the identity, and each block
    adds A' R, where A' is the mean over heads of the positive part of gradient times attention.
    """
    with watched(network) as seen, torch.enable_grad():
        chosen = network(images).gather(1, class_indices[:, None]).sum()
        gradients = torch.autograd.grad(chosen, [layer.gathered for layer in seen])
    with torch.no_grad():
        flow = torch.eye(seen[0].tokens.shape[1], device=images.device)
        for layer, gradient in zip(seen, gradients, strict=True):
            speaking = (weight_gradient(layer, gradient) * layer.weights()).clamp(min=0).mean(dim=1)  # (B, T, T)
            flow = flow + speaking @ flow
        return read_patches(network, flow)


def weight_gradient(layer: Attended, gradient: Tensor) -> Tensor:
    """The gradient with respect to the attention weights (B, H, T, T), which the fused computation never holds.

    A head gathers o_i = sum_j a_ij v_j, so the derivative with respect to a_ij is that with respect to o_i, times v_j.
    Queries that the network left out have none.

    Args:
        layer: an attention module in a forward pass.
        gradient: with respect to `layer.gathered`, (B, queries, D).
    """
    heads = gradient.unflatten(-1, (layer.module.num_heads, -1)).transpose(1, 2)  # (B, H, queries, D / H)
    computed = heads @ layer.values().transpose(-2, -1)  # (B, H, queries, T)
    tokens = layer.tokens.shape[1]
    return torch.nn.functional.pad(computed, (0, 0, 0, tokens - computed.shape[2]))
