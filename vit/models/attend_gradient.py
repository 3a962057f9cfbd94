"""Attention of all tokens in training on a CPU, with a backward pass written by hand

Shape letters are those of vit/models/vision_transformer.py; d is the width of a head, D / H. Queries, keys and values
enter as the one tensor that the layer `qkv` yields, and their gradient leaves as one tensor. Autograd would stack three
gradients, and copy them twice. PyTorch's fused kernel computes the weights again in its backward pass.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from vit.models.attend import attend

MOST_TOKENS = 256  # 197 tokens take 19 ms here and 20 as plain products, 577 tokens 93 ms here and 83 as plain products


def attend_side_by_side(qkv: Tensor, num_heads: int) -> Tensor:
    """Queries, keys and values side by side (B, T, 3 D) -> the heads' outputs side by side (B, T, D), eq. 6 and 7.

    Raises:
        RuntimeError: a gradient of the gradient is asked for, where the backward pass is the one of this file.
    """
    if _is_trained_here(qkv):
        heads: Tensor = _AttendSideBySide.apply(qkv, num_heads)
        return heads
    q, k, v = qkv.unflatten(-1, (3, num_heads, -1)).permute(2, 0, 3, 1, 4).unbind()  # three times (B, H, T, d)
    return attend(q, k, v).transpose(1, 2).flatten(2)


def _is_trained_here(qkv: Tensor) -> bool:
    """Whether the backward pass of this file is the fastest: in a training on a CPU in bfloat16, for few tokens.

    PyTorch's fused kernel is as fast in float32, and faster on a GPU. A compiler writes a backward pass of its own.
    """
    is_trained = qkv.requires_grad and torch.is_grad_enabled() and not torch.compiler.is_compiling()
    return is_trained and qkv.device.type == "cpu" and qkv.dtype == torch.bfloat16 and qkv.shape[1] <= MOST_TOKENS


class _AttendSideBySide(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, num_heads: int) -> Tensor:
        B, T, D, H = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3, num_heads
        heads = qkv.view(B, T, 3, H, D // H).permute(2, 0, 3, 1, 4)  # (3, B, H, T, d)
        q, k, v = heads.reshape(3, B * H, T, D // H).unbind()  # three times (B H, T, d), contiguous
        scale = (D // H) ** -0.5
        weights = torch.baddbmm(q.new_zeros(()), q, k.mT, beta=0, alpha=scale).softmax(dim=-1)  # (B H, T, T)  eq. 6
        ctx.save_for_backward(q, k, v, weights)
        ctx.num_heads, ctx.scale = H, scale
        return (weights @ v).view(B, H, T, D // H).transpose(1, 2).reshape(B, T, D)  # (B, T, D)  eq. 7

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_heads: Tensor) -> tuple[Tensor, None]:
        q, k, v, weights = ctx.saved_tensors
        (B, T, D), H = d_heads.shape, ctx.num_heads
        d_out = d_heads.view(B, T, H, D // H).transpose(1, 2).reshape(B * H, T, D // H)  # (B H, T, d)
        d_qkv = q.new_empty(3, B * H, T, D // H)
        d_q, d_k, d_v = d_qkv.unbind()  # three times (B H, T, d)
        torch.bmm(weights.mT, d_out, out=d_v)
        d_weights = d_out @ v.mT  # (B H, T, T)
        d_scores = torch.ops.aten._softmax_backward_data(d_weights, weights, -1, weights.dtype)  # (B H, T, T)
        torch.baddbmm(d_q, d_scores, k, beta=0, alpha=ctx.scale, out=d_q)
        torch.baddbmm(d_k, d_scores.mT, q, beta=0, alpha=ctx.scale, out=d_k)
        return d_qkv.view(3, B, H, T, D // H).permute(1, 3, 0, 2, 4).reshape(B, T, 3 * D), None  # (B, T, 3 D)
