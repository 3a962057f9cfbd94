"""Pooling by attention, as Zhai et al. 2022, "Scaling Vision Transformers" (arXiv 2106.04560), and SigLIP have it."""

import torch
from torch import Tensor, nn

from vit.models.attention import attend, split_heads
from vit.models.block import Activation, Mlp


class AttentionPool(nn.Module):
    """One learned query gathers from all tokens, then an MLP in a residual connection: (B, N, D) -> (B, D).

    State-dict keys are those of timm's AttentionPoolLatent.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, mlp_ratio: float, activation: Activation, norm_eps: float
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.latent = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.q = nn.Linear(embed_dim, embed_dim)
        self.kv = nn.Linear(embed_dim, 2 * embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.norm = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.mlp = Mlp(embed_dim, int(embed_dim * mlp_ratio), 0.0, activation)

    def forward(self, tokens: Tensor) -> Tensor:
        B, _, D = tokens.shape
        (q,) = split_heads(self.q(self.latent.expand(B, -1, -1)), 1, self.num_heads)
        k, v = split_heads(self.kv(tokens), 2, self.num_heads)
        gathered = self.proj(attend(q, k, v, 0.0).transpose(1, 2).reshape(B, D))
        return gathered + self.mlp(self.norm(gathered))
