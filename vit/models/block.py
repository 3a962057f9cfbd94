"""One encoder layer of the Vision Transformer, and its parts. Letters in shape comments: see vision_transformer.py."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.models.attention import Attention

NormPlacement = Literal["pre", "post"]
Activation = Literal["gelu", "gelu_tanh", "quick_gelu", "swiglu"]


def quick_gelu(hidden: Tensor) -> Tensor:
    """An approximate GELU, x sigmoid(1.702 x), that OpenAI's CLIP was trained with."""
    return hidden * torch.sigmoid(1.702 * hidden)


def swiglu(hidden: Tensor) -> Tensor:
    """Silu of the first half of the channels times the second half (Shazeer 2020, arXiv 2002.05202)."""
    gate, value = hidden.chunk(2, dim=-1)
    return F.silu(gate) * value


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": quick_gelu,
    "swiglu": swiglu,
}


class Mlp(nn.Module):
    """Two linear layers with an activation between them, for each token on its own: (B, T, D) -> (B, T, D).

    The first layer is `hidden_dim` wide; "swiglu" hands half of that to the second.
    """

    def __init__(self, embed_dim: int, hidden_dim: int, drop_rate: float, activation: Activation = "gelu") -> None:
        super().__init__()
        if activation == "swiglu" and hidden_dim % 2:
            raise ValueError(f"swiglu needs an even hidden width, got {hidden_dim}")
        self.fc1 = nn.Linear(embed_dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim // 2 if activation == "swiglu" else hidden_dim, embed_dim)
        self.drop = nn.Dropout(drop_rate)
        self.activation = ACTIVATIONS[activation]

    def forward(self, tokens: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(self.activation(self.fc1(tokens)))))


class LayerScale(nn.Module):
    """A learned factor for each channel of a residual branch, small at first (Touvron et al. 2021, "CaiT")."""

    def __init__(self, embed_dim: int, value: float) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((embed_dim,), value))

    def forward(self, branch: Tensor) -> Tensor:
        return branch * self.gamma


class DropPath(nn.Module):
    """Stochastic depth (Huang et al. 2016): drop a residual branch for whole images while training, scale the rest."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return branch
        kept = branch.new_empty(branch.shape[0], 1, 1).bernoulli_(1.0 - self.rate)
        return branch * kept / (1.0 - self.rate)


class Block(nn.Module):
    """One encoder layer: attention, then MLP, each inside a residual connection (eq. 2 and 3).

    "pre" normalizes what enters a branch (the paper, and Wang et al. 2019); "post" normalizes the sum (Vaswani et al.
    2017), kept so that the difference can be measured.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        mlp_ratio: float,
        qkv_bias: bool,
        qk_norm: bool,
        activation: Activation,
        layer_scale: float,
        norm_placement: NormPlacement,
        norm_eps: float,
        drop_rate: float,
        attn_drop_rate: float,
        drop_path_rate: float,
    ) -> None:
        super().__init__()
        self.norm_placement = norm_placement
        self.norm1 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.attn = Attention(embed_dim, num_heads, qkv_bias, attn_drop_rate, drop_rate, qk_norm, norm_eps)
        self.ls1 = LayerScale(embed_dim, layer_scale) if layer_scale else nn.Identity()
        self.norm2 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.mlp = Mlp(embed_dim, int(embed_dim * mlp_ratio), drop_rate, activation)
        self.ls2 = LayerScale(embed_dim, layer_scale) if layer_scale else nn.Identity()
        self.drop_path = DropPath(drop_path_rate)

    def forward(self, tokens: Tensor, keep: int) -> Tensor:
        """Tokens (B, T, D) -> the first `keep` of them, updated (B, keep, D)."""
        if self.norm_placement == "pre":
            tokens = tokens[:, :keep] + self.drop_path(self.ls1(self.attn(self.norm1(tokens), keep)))
            return tokens + self.drop_path(self.ls2(self.mlp(self.norm2(tokens))))
        tokens = self.norm1(tokens[:, :keep] + self.drop_path(self.ls1(self.attn(tokens, keep))))
        return self.norm2(tokens + self.drop_path(self.ls2(self.mlp(tokens))))
