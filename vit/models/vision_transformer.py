"""The Vision Transformer of Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words" (arXiv 2010.11929).

The file follows section 3.1 of the paper: an image is cut into patches, each patch is projected to a token (eq. 1),
a class token is put in front, positions are added, a stack of blocks mixes the tokens (eq. 2 and 3), and the class
token, normalised (eq. 4), is classified by one linear layer. State-dict keys are timm's, so that its weights, and those
of DeiT, DINO and MAE, load by name.

Letters in shape comments:
    B images   S image side   P patch side   N patches, (S / P)^2   T tokens, N or N + 1   D embed_dim
    H heads    C classes
"""

import math
from functools import partial
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.models.network import Network

PositionEmbedding = Literal["learned", "sincos2d", "none"]
Pool = Literal["cls", "mean"]
NormPlacement = Literal["pre", "post"]

LayerNorm = partial(nn.LayerNorm, eps=1e-6)


class PatchEmbed(nn.Module):
    """Cut images into patches and project each one to a token: images (B, 3, S, S) -> tokens (B, N, D).

    `proj` is a strided convolution, for its state dict and its initial values. It is computed as a reshape and one
    matrix product, which is the same sum and 3.5 to 5.7 times as fast on a CPU.
    """

    def __init__(self, image_size: int, patch_size: int, embed_dim: int) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"image_size {image_size} is not divisible by patch_size {patch_size}")
        self.patch_size = patch_size
        self.grid_size = image_size // patch_size
        self.num_patches = self.grid_size**2
        self.proj = nn.Conv2d(3, embed_dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, images: Tensor) -> Tensor:
        B, channels, _, _ = images.shape
        G, P = self.grid_size, self.patch_size
        patches = images.reshape(B, channels, G, P, G, P)  # rows and columns of patches, each P x P
        patches = patches.permute(0, 2, 4, 1, 3, 5).reshape(B, G * G, channels * P * P)
        return F.linear(patches, self.proj.weight.flatten(1), self.proj.bias)


class Attention(nn.Module):
    """Multi-head scaled dot-product self-attention: softmax(q k^T / sqrt(D / H)) v (paper, appendix A, eq. 5 to 8)."""

    def __init__(self, embed_dim: int, num_heads: int, qkv_bias: bool, attn_drop_rate: float, drop_rate: float) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} is not divisible by num_heads {num_heads}")
        self.num_heads = num_heads
        self.attn_drop_rate = attn_drop_rate
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim, bias=qkv_bias)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.proj_drop = nn.Dropout(drop_rate)

    def forward(self, tokens: Tensor, queries: int) -> Tensor:
        """Tokens (B, T, D) -> what the first `queries` tokens gather from all of them (B, queries, D)."""
        B, T, D = tokens.shape
        if queries == T:
            q, k, v = self._heads(F.linear(tokens, self.qkv.weight, self.qkv.bias), 3)
        else:
            q_weight, kv_weight = self.qkv.weight.split((D, 2 * D))
            q_bias, kv_bias = (None, None) if self.qkv.bias is None else self.qkv.bias.split((D, 2 * D))
            (q,) = self._heads(F.linear(tokens[:, :queries], q_weight, q_bias), 1)
            k, v = self._heads(F.linear(tokens, kv_weight, kv_bias), 2)
        gathered = attend(q, k, v, self.attn_drop_rate if self.training else 0.0)  # (B, H, queries, D / H)
        gathered = gathered.transpose(1, 2).reshape(B, queries, D)  # heads side by side again
        return self.proj_drop(self.proj(gathered))

    def _heads(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        """Split (B, T, parts * D) into `parts` tensors (B, H, T, D / H)."""
        B, T, width = projected.shape
        heads = projected.reshape(B, T, parts, self.num_heads, width // (parts * self.num_heads))
        return heads.permute(2, 0, 3, 1, 4).unbind(0)


def attend(q: Tensor, k: Tensor, v: Tensor, drop_rate: float) -> Tensor:
    """Scaled dot-product attention over (B, H, T, D / H), by whichever of two equal computations is faster.

    On a CPU, training through PyTorch's fused kernel is 1.3 to 1.6 times slower than the two matrix products written
    out (its backward pass recomputes the scores, which pays only where memory is the limit); on a GPU the fused kernel
    wins, and in inference everywhere.
    """
    if q.device.type == "cpu" and q.requires_grad:
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)  # (B, H, queries, T)
        return F.dropout(scores.softmax(dim=-1), drop_rate) @ v
    return F.scaled_dot_product_attention(q, k, v, dropout_p=drop_rate)


class Mlp(nn.Module):
    """Two linear layers with a GELU between them, for each token on its own: (B, T, D) -> (B, T, D)."""

    def __init__(self, embed_dim: int, hidden_dim: int, drop_rate: float) -> None:
        super().__init__()
        self.fc1 = nn.Linear(embed_dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, embed_dim)
        self.drop = nn.Dropout(drop_rate)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(F.gelu(self.fc1(tokens)))))


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

    "pre" normalises what enters a branch (the paper, and Wang et al. 2019); "post" normalises the sum (Vaswani et al.
    2017), kept so that the difference can be measured.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        mlp_ratio: float,
        qkv_bias: bool,
        norm_placement: NormPlacement,
        drop_rate: float,
        attn_drop_rate: float,
        drop_path_rate: float,
    ) -> None:
        super().__init__()
        self.norm_placement = norm_placement
        self.norm1 = LayerNorm(embed_dim)
        self.attn = Attention(embed_dim, num_heads, qkv_bias, attn_drop_rate, drop_rate)
        self.norm2 = LayerNorm(embed_dim)
        self.mlp = Mlp(embed_dim, int(embed_dim * mlp_ratio), drop_rate)
        self.drop_path = DropPath(drop_path_rate)

    def forward(self, tokens: Tensor, keep: int) -> Tensor:
        """Tokens (B, T, D) -> the first `keep` of them, updated (B, keep, D)."""
        if self.norm_placement == "pre":
            tokens = tokens[:, :keep] + self.drop_path(self.attn(self.norm1(tokens), keep))
            return tokens + self.drop_path(self.mlp(self.norm2(tokens)))
        tokens = self.norm1(tokens[:, :keep] + self.drop_path(self.attn(tokens, keep)))
        return self.norm2(tokens + self.drop_path(self.mlp(tokens)))


class VisionTransformer(Network):
    """Images (B, 3, S, S) -> logits (B, C).

    Args:
        image_size: S, in pixels.
        patch_size: P, in pixels; divides S.
        num_classes: C.
        embed_dim: D, the width of a token.
        depth: number of blocks.
        num_heads: H; divides D.
        mlp_ratio: width of the MLP's hidden layer, in units of D.
        qkv_bias: whether the query, key and value projections have a bias.
        pool: what is classified: the class token ("cls"), or the mean of the patch tokens ("mean": no class token).
        pos_embed: "learned" (the paper), "sincos2d" (fixed; Beyer et al. 2022, arXiv 2205.01580) or "none".
        norm_placement: "pre" (the paper) or "post" (Vaswani et al. 2017).
        drop_rate: dropout after the positions, the attention projection and each MLP layer.
        attn_drop_rate: dropout of attention weights.
        drop_path_rate: stochastic depth of the last block; it grows linearly from 0 at the first.

    Raises:
        ValueError: S is not divisible by P, or D by H, or a size is below 1, or a choice has no such value.
    """

    def __init__(
        self,
        image_size: int = 224,
        patch_size: int = 16,
        num_classes: int = 1000,
        embed_dim: int = 768,
        depth: int = 12,
        num_heads: int = 12,
        mlp_ratio: float = 4.0,
        qkv_bias: bool = True,
        pool: Pool = "cls",
        pos_embed: PositionEmbedding = "learned",
        norm_placement: NormPlacement = "pre",
        drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__()
        for choice, known in ((pool, Pool), (pos_embed, PositionEmbedding), (norm_placement, NormPlacement)):
            if choice not in get_args(known):
                raise ValueError(f"{choice!r} is none of {', '.join(get_args(known))}")
        if min(image_size, patch_size, embed_dim, depth, num_heads) < 1:
            raise ValueError("image_size, patch_size, embed_dim, depth and num_heads must be 1 or more")
        self.image_size = image_size
        self.num_classes = num_classes
        self.pool = pool

        self.patch_embed = PatchEmbed(image_size, patch_size, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim)) if pool == "cls" else None
        num_prefix = 1 if pool == "cls" else 0
        if pos_embed == "learned":
            self.pos_embed = nn.Parameter(torch.zeros(1, num_prefix + self.patch_embed.num_patches, embed_dim))
        else:
            fixed = sincos2d(self.patch_embed.grid_size, embed_dim, num_prefix) if pos_embed == "sincos2d" else None
            self.register_buffer("pos_embed", fixed, persistent=False)
        self.pos_drop = nn.Dropout(drop_rate)
        drop_path_rates = torch.linspace(0.0, drop_path_rate, depth, device="cpu").tolist()
        self.blocks = nn.ModuleList(
            Block(embed_dim, num_heads, mlp_ratio, qkv_bias, norm_placement, drop_rate, attn_drop_rate, rate)
            for rate in drop_path_rates
        )
        self.norm = LayerNorm(embed_dim) if norm_placement == "pre" else nn.Identity()
        self.head = nn.Linear(embed_dim, num_classes)
        self.initialise()

    def initialise(self) -> None:
        """Draw the initial weights: matrices by Xavier, patch kernels by fan-in (as the authors' code), a zero head.

        Positions start with variance 1, that of a patch token. Smaller ones are lost beside the patches: on
        Fashion-MNIST the loss after 250 steps is 0.86 with variance 1 / D and 0.59 with variance 1 (docs/results.md).
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        kernel = self.patch_embed.proj
        nn.init.trunc_normal_(kernel.weight, std=kernel.weight[0].numel() ** -0.5)
        assert kernel.bias is not None
        nn.init.zeros_(kernel.bias)
        if self.cls_token is not None:
            nn.init.normal_(self.cls_token, std=1e-6)
        if isinstance(self.pos_embed, nn.Parameter):
            nn.init.normal_(self.pos_embed)
        nn.init.zeros_(self.head.weight)  # so that training starts from equal probabilities (paper, section 3.2)

    def forward(self, images: Tensor) -> Tensor:
        self.check_images(images)
        tokens = self.patch_embed(images)  # (B, N, D)
        if self.cls_token is not None:
            tokens = torch.cat((self.cls_token.expand(tokens.shape[0], -1, -1), tokens), dim=1)  # (B, T, D)
        if self.pos_embed is not None:
            tokens = tokens + self.pos_embed
        tokens = self.pos_drop(tokens)
        everything, *_, last = tokens.shape[1], *self.blocks
        for block in self.blocks[:-1]:
            tokens = block(tokens, keep=everything)
        # The head reads the class token alone, so the last block updates nothing else: exact, and 6 to 15 % cheaper.
        tokens = last(tokens, keep=1 if self.pool == "cls" else everything)
        return self.head(self.norm(tokens).mean(dim=1))

    def no_weight_decay(self) -> set[str]:
        return {"cls_token", "pos_embed"}

    def layers_above(self, name: str) -> int:
        """0 for the last norm and the head, 1 for the last block, depth + 1 for the embeddings (as BEiT counts)."""
        depth = len(self.blocks)
        if name.startswith("blocks."):
            return depth - int(name.split(".")[1])
        return 0 if name.startswith(("norm.", "head.")) else depth + 1


def sincos2d(grid_size: int, embed_dim: int, num_prefix: int) -> Tensor:
    """Fixed two-dimensional sine and cosine positions (1, num_prefix + grid_size^2, embed_dim); zeros for the prefix.

    As `posemb_sincos_2d` of big_vision (Beyer et al. 2022): a quarter of the channels each for sin x, cos x, sin y and
    cos y.
    """
    if embed_dim % 4:
        raise ValueError(f"sincos2d needs embed_dim divisible by 4, got {embed_dim}")
    frequencies = torch.exp(torch.arange(embed_dim // 4) * (-math.log(10_000.0) / max(embed_dim // 4 - 1, 1)))
    y, x = torch.meshgrid(torch.arange(grid_size), torch.arange(grid_size), indexing="ij")
    x_phase, y_phase = x.flatten()[:, None] * frequencies, y.flatten()[:, None] * frequencies  # (N, D / 4)
    positions = torch.cat((x_phase.sin(), x_phase.cos(), y_phase.sin(), y_phase.cos()), dim=1)
    return torch.cat((torch.zeros(num_prefix, embed_dim), positions))[None]
