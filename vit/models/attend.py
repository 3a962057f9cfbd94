"""Attention itself, softmax(q k^T / sqrt(D / H)) v, by the fastest of several equal computations

Shape letters are those of vision_transformer.py.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

LONG = 256  # tokens in training in float32; docs/performance.md
CHUNK_BYTES = 16 * 2**20  # of weights at once: 2,305 tokens take 24 ms in chunks of this size, and 47 ms at once


def attend(q: Tensor, k: Tensor, v: Tensor, drop_rate: float = 0.0) -> Tensor:
    """softmax(q k^T / sqrt(D / H)) v (eq. 6, 7), by the fastest of three equal computations.

    - In training on a CPU: two matrix products. The backward pass of PyTorch's fused kernel computes the weights again,
      which takes 1.5 to 2.5 times as long in bfloat16. In float32 this costs nothing from 256 tokens on, and the
      kernel's memory grows with the number of tokens instead of its square, so that the kernel is taken there.
    - In bfloat16 inference on a CPU without AMX: two batched products, which take 0.36 to 0.5 of the fused kernel's
      time.
    - Elsewhere PyTorch's fused kernel. It is faster on a GPU, on a CPU with AMX, and in float32.
    """
    if q.device.type == "cpu" and q.requires_grad and (drop_rate > 0.0 or not _is_long_and_exact(q, k, v)):
        weights = (q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)).softmax(dim=-1)  # (B, H, R, T)  eq. 6
        return F.dropout(weights, drop_rate) @ v  # (B, H, R, D / H)  eq. 7
    if drop_rate == 0.0 and _products_are_faster(q, k, v):
        return _products(q, k, v)
    return F.scaled_dot_product_attention(q, k, v, dropout_p=drop_rate)  # (B, H, R, D / H)  eq. 6, 7


def _is_long_and_exact(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the fused kernel trains these at least as fast as two products; autocast leaves no value in float32."""
    return {q.dtype, k.dtype, v.dtype} == {torch.float32} and q.shape[-2] >= LONG


def _products_are_faster(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """A rule by shapes and by the CPU, never by a timing, so that a result does not depend on the moment."""
    if q.device.type != "cpu" or {q.dtype, k.dtype, v.dtype} != {torch.bfloat16} or torch.is_grad_enabled():
        return False
    weights_of_a_head = q.shape[-2] * k.shape[-2] * q.element_size()
    return weights_of_a_head <= CHUNK_BYTES and not torch.cpu._is_amx_tile_supported()


def _products(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The two products of eq. 6 and 7 for all heads of all images, in chunks that bound the memory of the weights."""
    B, H, R, _ = q.shape
    q, k, v = (heads.flatten(0, 1) for heads in (q, k, v))  # contiguous: (B H, R, D / H), twice (B H, T, D / H)
    count = max(1, CHUNK_BYTES // (R * k.shape[1] * q.element_size()))
    chunks = [_product(*part) for part in zip(q.split(count), k.split(count), v.split(count), strict=True)]
    return (chunks[0] if len(chunks) == 1 else torch.cat(chunks)).unflatten(0, (B, H))  # (B, H, R, D / H)


def _product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.baddbmm(q.new_zeros(()), q, k.transpose(1, 2), beta=0.0, alpha=q.shape[-1] ** -0.5)
    return torch.bmm(torch.softmax(scores, dim=-1, out=scores), v)
