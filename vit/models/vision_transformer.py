"""The Vision Transformer of Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words" (arXiv 2010.11929).

The file follows section 3.1 of the paper: an image is cut into patches, each patch is projected to a token (eq. 1),
a class token is put in front, positions are added, a stack of blocks mixes the tokens (eq. 2 and 3), and the class
token, normalized (eq. 4), is classified by one linear layer. State-dict keys are timm's. What later papers changed and
their weights need (registers, LayerScale, other pooling, ...) is an option that is off by default.

Letters in shape comments:
    B images   S image side   P patch side   N patches, (S / P)^2   T tokens, N and those in front   D embed_dim
    H heads    C classes
"""

import math
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.models.attention_pool import AttentionPool
from vit.models.block import Activation, Block, NormPlacement
from vit.models.network import Network

PositionEmbedding = Literal["learned", "sincos2d", "none"]
Pool = Literal["cls", "mean", "patch_mean", "cls_mean", "cls_dist", "map"]


class PatchEmbed(nn.Module):
    """Cut images into patches and project each one to a token: images (B, 3, S, S) -> tokens (B, N, D).

    `proj` is a strided convolution, for its state dict and its initial values. It is computed as a reshape and one
    matrix product, which is the same sum and 3.5 to 5.7 times as fast on a CPU.
    """

    def __init__(self, image_size: int, patch_size: int, embed_dim: int, bias: bool = True) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"image_size {image_size} is not divisible by patch_size {patch_size}")
        self.patch_size = patch_size
        self.grid_size = image_size // patch_size
        self.num_patches = self.grid_size**2
        self.proj = nn.Conv2d(3, embed_dim, kernel_size=patch_size, stride=patch_size, bias=bias)

    def forward(self, images: Tensor) -> Tensor:
        B, channels, _, _ = images.shape
        G, P = self.grid_size, self.patch_size
        patches = images.reshape(B, channels, G, P, G, P)  # rows and columns of patches, each P x P
        patches = patches.permute(0, 2, 4, 1, 3, 5).reshape(B, G * G, channels * P * P)
        return F.linear(patches, self.proj.weight.flatten(1), self.proj.bias)


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
        qk_norm: whether each head's queries and keys are normalized (Dehghani et al. 2023, arXiv 2302.05442).
        activation: of the MLP: "gelu" (the paper), "gelu_tanh", "quick_gelu" (CLIP) or "swiglu" (DINOv2 giant; the
            hidden layer then holds gate and value).
        layer_scale: first value of a learned factor for each channel of a branch (Touvron et al. 2021, arXiv
            2103.17239); 0: none.
        num_registers: tokens that stand beside the class token and are not read (Darcet et al. 2023, arXiv 2309.16588).
        pool: what is classified: the class token ("cls"); the mean of the patch tokens, without a class token ("mean")
            or beside one ("patch_mean": MAE); class token and patch mean side by side ("cls_mean": DINOv2); class and
            distillation token, by a head each, logits averaged ("cls_dist": DeiT); attention ("map": SigLIP).
        pos_embed: "learned" (the paper), "sincos2d" (fixed; Beyer et al. 2022, arXiv 2205.01580) or "none".
        prefix_positions: whether tokens in front of the patches have positions, too (the paper) or not (DeiT III).
        embed_norm: whether tokens are normalized before the first block (CLIP), in place of a bias in patch_embed.
        pool_norm: whether a mean is normalized after it was taken (MAE, BEiT) and not before.
        norm_placement: "pre" (the paper) or "post" (Vaswani et al. 2017).
        norm_eps: what LayerNorm adds to the variance.
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
        qk_norm: bool = False,
        activation: Activation = "gelu",
        layer_scale: float = 0.0,
        num_registers: int = 0,
        pool: Pool = "cls",
        pos_embed: PositionEmbedding = "learned",
        prefix_positions: bool = True,
        embed_norm: bool = False,
        pool_norm: bool = False,
        norm_placement: NormPlacement = "pre",
        norm_eps: float = 1e-6,
        drop_rate: float = 0.0,
        attn_drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__()
        choices = ((pool, Pool), (pos_embed, PositionEmbedding), (norm_placement, NormPlacement))
        for choice, known in (*choices, (activation, Activation)):
            if choice not in get_args(known):
                raise ValueError(f"{choice!r} is none of {', '.join(get_args(known))}")
        if min(image_size, patch_size, embed_dim, depth, num_heads) < 1 or num_registers < 0:
            raise ValueError("image_size, patch_size, embed_dim, depth and num_heads must be 1 or more")
        if pool_norm and (pool not in ("mean", "patch_mean") or norm_placement == "post"):
            raise ValueError('pool_norm is for pool "mean" or "patch_mean" and norm_placement "pre"')
        self.image_size = image_size
        self.num_classes = num_classes
        self.pool = pool
        self.prefix_positions = prefix_positions

        self.patch_embed = PatchEmbed(image_size, patch_size, embed_dim, bias=not embed_norm)
        has_class_token, has_dist_token = pool not in ("mean", "map"), pool == "cls_dist"
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim)) if has_class_token else None
        self.dist_token = nn.Parameter(torch.zeros(1, 1, embed_dim)) if has_dist_token else None
        self.reg_token = nn.Parameter(torch.zeros(1, num_registers, embed_dim)) if num_registers else None
        self.num_prefix = has_class_token + has_dist_token + num_registers
        prefix = self.num_prefix if prefix_positions else 0
        if pos_embed == "learned":
            self.pos_embed = nn.Parameter(torch.zeros(1, prefix + self.patch_embed.num_patches, embed_dim))
        else:
            fixed = sincos2d(self.patch_embed.grid_size, embed_dim, prefix) if pos_embed == "sincos2d" else None
            self.register_buffer("pos_embed", fixed, persistent=False)
        self.pos_drop = nn.Dropout(drop_rate)
        self.norm_pre = nn.LayerNorm(embed_dim, eps=norm_eps) if embed_norm else nn.Identity()
        drop_path_rates = torch.linspace(0.0, drop_path_rate, depth, device="cpu").tolist()
        self.blocks = nn.ModuleList(
            Block(
                embed_dim=embed_dim,
                num_heads=num_heads,
                mlp_ratio=mlp_ratio,
                qkv_bias=qkv_bias,
                qk_norm=qk_norm,
                activation=activation,
                layer_scale=layer_scale,
                norm_placement=norm_placement,
                norm_eps=norm_eps,
                drop_rate=drop_rate,
                attn_drop_rate=attn_drop_rate,
                drop_path_rate=rate,
            )
            for rate in drop_path_rates
        )
        last_norm = nn.LayerNorm(embed_dim, eps=norm_eps) if norm_placement == "pre" else nn.Identity()
        self.norm: nn.Module = nn.Identity() if pool_norm else last_norm
        self.fc_norm: nn.Module = last_norm if pool_norm else nn.Identity()
        pools = pool == "map"
        self.attn_pool = AttentionPool(embed_dim, num_heads, mlp_ratio, activation, norm_eps) if pools else None
        self.head = nn.Linear(2 * embed_dim if pool == "cls_mean" else embed_dim, num_classes)
        self.head_dist = nn.Linear(embed_dim, num_classes) if has_dist_token else None
        self.initialize()

    def initialize(self) -> None:
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
        if kernel.bias is not None:
            nn.init.zeros_(kernel.bias)
        for token in (self.cls_token, self.dist_token, self.reg_token):
            if token is not None:
                nn.init.normal_(token, std=1e-6)
        if isinstance(self.pos_embed, nn.Parameter):
            nn.init.normal_(self.pos_embed)
        if self.attn_pool is not None:
            nn.init.trunc_normal_(self.attn_pool.latent, std=self.attn_pool.latent.shape[-1] ** -0.5)
        for head in (self.head, self.head_dist):
            if head is not None:
                nn.init.zeros_(head.weight)  # so that training starts from equal probabilities (paper, section 3.2)

    def forward(self, images: Tensor) -> Tensor:
        self.check_images(images)
        tokens = self.norm_pre(self.pos_drop(self.embed(images)))  # (B, T, D)
        everything, *_, last = tokens.shape[1], *self.blocks
        for block in self.blocks[:-1]:
            tokens = block(tokens, keep=everything)
        # A head that reads the first tokens alone needs no others of the last block: exact, and 6 to 15 % cheaper.
        tokens = self.norm(last(tokens, keep={"cls": 1, "cls_dist": 2}.get(self.pool, everything)))
        if self.head_dist is not None:
            return (self.head(tokens[:, 0]) + self.head_dist(tokens[:, 1])) / 2
        return self.head(self.fc_norm(self.pooled(tokens)))

    def embed(self, images: Tensor) -> Tensor:
        """Images (B, 3, S, S) -> patch tokens with those in front of them, and with positions (B, T, D)."""
        tokens = self.patch_embed(images)  # (B, N, D)
        if self.pos_embed is not None and not self.prefix_positions:
            tokens = tokens + self.pos_embed
        prefix = [token for token in (self.cls_token, self.dist_token, self.reg_token) if token is not None]
        if prefix:
            tokens = torch.cat((*(token.expand(tokens.shape[0], -1, -1) for token in prefix), tokens), dim=1)
        if self.pos_embed is not None and self.prefix_positions:
            tokens = tokens + self.pos_embed
        return tokens

    def pooled(self, tokens: Tensor) -> Tensor:
        """Tokens after the last block -> what is classified: (B, D), or (B, 2 D) for "cls_mean"."""
        if self.pool == "cls":
            return tokens.mean(dim=1)  # of one token
        patches = tokens[:, self.num_prefix :]
        if self.attn_pool is not None:
            return self.attn_pool(patches)
        if self.pool == "cls_mean":
            return torch.cat((tokens[:, 0], patches.mean(dim=1)), dim=1)
        return patches.mean(dim=1)

    def no_weight_decay(self) -> set[str]:
        return {"cls_token", "dist_token", "reg_token", "pos_embed", "attn_pool.latent"}

    def layers_above(self) -> dict[str, int]:
        """0 for the last norm and the head, 1 for the last block, depth + 1 for the embeddings (as BEiT counts)."""
        return {name: self._layers_above(name) for name, _ in self.named_parameters()}

    def _layers_above(self, name: str) -> int:
        depth = len(self.blocks)
        if name.startswith("blocks."):
            return depth - int(name.split(".")[1])
        return 0 if name.startswith(("norm.", "fc_norm.", "attn_pool.", "head.", "head_dist.")) else depth + 1


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
