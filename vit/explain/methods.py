"""Attention weights of a ViT, the methods of `vit explain` by name, and the choice of methods for a network

The forward pass keeps no attention weights, because it uses a fused computation. They are computed from what enters the
attention modules. Shape letters are those of vit/models/vision_transformer.py. Our ViTs have all methods, and so have
those of timm whose attention can be read (`timm_attention.NETWORKS`). Other networks have Grad-CAM.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from vit.errors import UsageError, nearest
from vit.explain.gradcam import gradcam
from vit.models.network import Network
from vit.models.vision_transformer import Attention, VisionTransformer

Method = Callable[..., Tensor]  # (network, normalized images (B, 3, S, S), classes (B,)) -> maps (B, h, w), not below 0


@dataclass(frozen=True)
class AttentionRecord:
    """Input and output of one attention module in one forward pass."""

    module: Attention
    tokens: Tensor  # input of the module (B, T, D)
    heads: Tensor  # outputs of the heads side by side, before the last projection (B, R, D)

    def weights(self) -> Tensor:
        """softmax(q k^T / sqrt(D / H)) of all tokens (B, H, T, T), also of those that the forward pass left out."""
        q, k, _ = self.module.project(self.tokens)
        return (q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)).softmax(dim=-1)

    def values(self) -> Tensor:
        """The values v of all tokens (B, H, T, D / H)."""
        return self.module.project(self.tokens)[2]


@contextmanager
def record_attention(network: VisionTransformer) -> Iterator[list[AttentionRecord]]:
    """Append a record of each attention module, in order, to the list given, in every forward pass meanwhile.

    Hooks read the inputs of modules. The computation stays as it is, also where it is fused.
    """
    records: list[AttentionRecord] = []
    entered: list[tuple[Attention, Tensor]] = []  # a module ends before the next one begins

    def enter(module: Attention, inputs: tuple[Tensor, ...]) -> None:
        entered.append((module, inputs[0]))

    def leave(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        records.append(AttentionRecord(*entered.pop(), inputs[0]))

    with ExitStack() as stack:
        for module in network.modules():
            if isinstance(module, Attention):
                stack.enter_context(module.register_forward_pre_hook(enter))
                stack.enter_context(module.proj.register_forward_pre_hook(leave))
        yield records


@torch.no_grad()
def attention_weights(network: Network, images: Tensor) -> list[Tensor]:
    """Normalized images (B, 3, S, S) -> the attention weights (B, H, T, T) of each block.

    Row i of a matrix holds the weights with which token i gathers from every token. A row sums to 1. Prefix tokens
    (class token, registers) come first, as in the network. UsageError where the attention cannot be read.
    """
    if not isinstance(network, VisionTransformer):
        from vit.explain.timm_attention import read_weights  # not above: timm takes seconds

        with read_weights(network) as weights:
            network(images)
        return weights
    with record_attention(network) as records:
        network(images)
    return [record.weights() for record in records]


def patch_map(network: Network, flow: Tensor) -> Tensor:
    """Flow between tokens (..., T, T) -> the part of it that goes from each patch to the head (..., G, G).

    Row i of the flow says how much token i takes of every token. The head reads the row of the class token, the mean of
    the patches' rows, or both, as the option `pool` says. Prefix tokens have no position: their columns are left out.
    """
    if not isinstance(network, VisionTransformer):
        from vit.explain.timm_attention import timm_patch_map

        return timm_patch_map(network, flow)
    N, G, pool = network.config.num_patches, network.config.grid_size, network.config.pool
    prefix = flow[..., : network.config.num_read or 1, :].mean(dim=-2)  # (..., T)
    patches = flow[..., -N:, :].mean(dim=-2)  # (..., T)
    read = {"cls": prefix, "cls_dist": prefix, "cls_mean": (prefix + patches) / 2}.get(pool, patches)
    return read[..., -N:].unflatten(-1, (G, G))


def last_attention(network: Network, images: Tensor, class_indices: Tensor) -> Tensor:
    """Normalized images (B, 3, S, S) -> the last block's attention, averaged over heads (B, G, G), for every class."""
    return patch_map(network, attention_weights(network, images)[-1].mean(dim=1))


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
    flow = identity = torch.eye(layers[0].shape[-1], device=layers[0].device)
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
        pairs: Iterable[tuple[Tensor, Tensor]] = _weights_and_gradients(network, images, class_indices)
    else:
        from vit.explain.timm_attention import weights_and_gradients  # not above: timm takes seconds

        pairs = weights_and_gradients(network, images, class_indices)
    flow: Tensor | None = None
    with torch.no_grad():
        for weights, gradient in pairs:
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
        gradient: gradient with respect to `record.heads` (B, R, D).
    """
    heads = gradient.unflatten(-1, (record.module.num_heads, -1)).transpose(1, 2)  # (B, H, R, D / H)
    computed = heads @ record.values().transpose(-2, -1)  # (B, H, R, T)
    num_tokens = record.tokens.shape[1]
    return torch.nn.functional.pad(computed, (0, 0, 0, num_tokens - computed.shape[2]))


METHODS: Mapping[str, Method] = {
    "attention": last_attention, "rollout": rollout, "relevance": relevance, "gradcam": gradcam,
}  # fmt: skip


def choose_methods(names: str, network: Network) -> dict[str, Method]:
    """The methods that a comma-separated list names.

    "all" stands for all methods that fit the network and the installed packages. "best" stands for one method:
    relevance where attention can be read, which needs no other package, and Grad-CAM for other networks. UsageError
    where a method is unknown, or reads attention that the network does not have.
    """
    has_attention = num_readable_blocks(network) > 0
    every = [name for name in METHODS if name != "gradcam" and has_attention]
    if not every or find_spec("pytorch_grad_cam"):  # without both, its error says what to install
        every.append("gradcam")
    stands_for = {"all": every, "best": ["relevance" if has_attention else "gradcam"]}
    methods = {}
    for name in (name for part in names.split(",") for name in stands_for.get(part.strip(), [part.strip()])):
        if name not in METHODS:
            raise UsageError(f"there is no method {name!r}", nearest(name, [*METHODS, *stands_for]))
        if name != "gradcam" and not has_attention:
            kind = type(network).__name__
            kind = f"{type(network.model).__name__} of timm" if kind == "TimmNetwork" else kind
            problem = f"the method {name} needs a ViT whose attention can be read, and this network is a {kind}"
            raise UsageError(problem, "choose --method gradcam")
        methods[name] = METHODS[name]
    return methods


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
