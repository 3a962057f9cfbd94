"""Sizes and options of the Vision Transformer as one frozen dataclass"""

from dataclasses import dataclass
from typing import Literal, get_type_hints

from vit.models.network import NetworkConfig
from vit.models.network_names import undivided
from vit.options import read_value
from vit.ranges import NonNegative, NonNegativeInt, Positive, PositiveInt, Share

Activation = Literal["gelu", "gelu_tanh", "quick_gelu", "swiglu"]
NormPlacement = Literal["pre", "post"]
Pool = Literal["cls", "mean", "patch_mean", "cls_mean", "cls_dist", "map"]
PositionEmbedding = Literal["learned", "sincos2d", "rope2d", "rope2d_eva", "learned_rope2d_eva", "none"]
Stem = Literal["patch", "conv"]

CONV_PATCH_SIZES = (2, 4, 8, 16)  # at most four convolutions of stride 2


@dataclass(frozen=True, kw_only=True)
class ViTConfig(NetworkConfig):
    """Sizes and options of a VisionTransformer. The defaults are ViT-B/16 of the paper.

    Attributes:
        image_size: side of an image in pixels, S.
        patch_size: side of a patch in pixels, P, which divides S.
        num_classes: number of classes, C.
        embed_dim: width of a token, D.
        depth: number of blocks.
        num_heads: number of attention heads, H, which divides D.
        mlp_ratio: width of the MLP's hidden layer in units of D.
        drop_rate: dropout after the positions, the attention's projection and each layer of an MLP.
        qkv_bias: whether the projections to queries, keys and values have a bias, as in the authors' code.
        norm_eps: number that LayerNorm adds to the variance.
        qk_norm: whether each head normalizes its queries and keys (Dehghani et al. 2023, arXiv 2302.05442).
        activation: activation of the MLP: "gelu" (the paper), "gelu_tanh", "quick_gelu" (CLIP) or "swiglu" (DINOv2
            giant), which halves the hidden layer into gate and value.
        layer_scale: first value of a learned factor for each channel of a branch (Touvron et al. 2021, arXiv
            2103.17239); 0 leaves the factors out.
        num_registers: number of tokens beside the class token that the head does not read (Darcet et al. 2023, arXiv
            2309.16588).
        pool: input of the head. "cls" is the class token (the paper). "mean" is the mean of the patch tokens, without a
            class token. "patch_mean" is the same mean beside a class token (MAE). "cls_mean" is class token and mean
            side by side (DINOv2). "cls_dist" is a class and a distillation token with a head each, whose logits are
            averaged (DeiT). "map" is attention pooling (SigLIP).
        pos_embed: "learned" (the paper), "sincos2d" (fixed; Beyer et al. 2022, arXiv 2205.01580), "rope2d" (queries and
            keys are rotated by their places; Siméoni et al. 2025, "DINOv3", arXiv 2508.10104), "rope2d_eva" (rotated
            with the frequencies of EVA-02; Fang et al. 2023, arXiv 2303.11331), "learned_rope2d_eva" (EVA-02's learned
            positions and rotation) or "none".
        stem: what makes tokens of pixels: "patch" (the paper) or "conv", four 3x3 convolutions (Xiao et al. 2021, arXiv
            2106.14881). They cost about as much as a block, so that paper takes one block less.
        prefix_positions: whether the tokens in front of the patches have positions (the paper) or not (DeiT III).
        embed_norm: whether a norm follows the positions, in place of a bias in the patch embedding (CLIP).
        pool_norm: whether the last norm follows the mean (MAE, BEiT) instead of preceding it.
        mlp_norm: whether the hidden layer of the MLP is normalized (Shleifer et al. 2021, arXiv 2110.09456; EVA-02).
        norm_placement: "pre", before each branch (the paper), or "post", after each sum (Vaswani et al. 2017).
        attn_drop_rate: dropout of attention weights.
        drop_path_rate: stochastic depth of the last block (Huang et al. 2016), growing linearly from 0.

    Raises:
        UsageError: a value is out of its range, or a choice is unknown.
        ValueError: two values do not fit together.
    """

    image_size: PositiveInt = 224
    patch_size: PositiveInt = 16
    num_classes: int = 1000
    embed_dim: PositiveInt = 768
    depth: PositiveInt = 12
    num_heads: PositiveInt = 12
    mlp_ratio: Positive = 4.0
    drop_rate: Share = 0.0
    qkv_bias: bool = True
    norm_eps: Positive = 1e-6

    # later papers, off by default
    qk_norm: bool = False
    activation: Activation = "gelu"
    layer_scale: NonNegative = 0.0
    num_registers: NonNegativeInt = 0
    pool: Pool = "cls"
    pos_embed: PositionEmbedding = "learned"
    stem: Stem = "patch"
    prefix_positions: bool = True
    embed_norm: bool = False
    pool_norm: bool = False
    mlp_norm: bool = False
    norm_placement: NormPlacement = "pre"
    attn_drop_rate: Share = 0.0
    drop_path_rate: Share = 0.0

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            object.__setattr__(self, name, read_value(kind, getattr(self, name), name))  # "12" becomes 12
        if self.image_size % self.patch_size:
            raise ValueError(undivided(self.image_size, self.patch_size))
        if self.embed_dim % self.num_heads:
            raise ValueError(f"embed_dim {self.embed_dim} is not divisible by num_heads {self.num_heads}")
        if self.pos_embed == "sincos2d" and self.embed_dim % 4:
            raise ValueError(f"sincos2d needs embed_dim divisible by 4, got {self.embed_dim}")
        if self.is_rotary and (self.embed_dim // self.num_heads) % 4:
            width = self.embed_dim // self.num_heads
            raise ValueError(f"{self.pos_embed} needs heads of a width divisible by 4, got {width}")
        if self.stem == "conv" and self.patch_size not in CONV_PATCH_SIZES:
            raise ValueError(f"the stem conv is for patch_size {', '.join(map(str, CONV_PATCH_SIZES))}")
        if self.stem == "conv" and self.embed_dim % 8:
            raise ValueError(f"the stem conv needs embed_dim divisible by 8, got {self.embed_dim}")
        if self.mlp_dim == 0:
            raise ValueError(f"mlp_ratio {self.mlp_ratio:g} of embed_dim {self.embed_dim} is a hidden width of 0")
        if self.activation == "swiglu" and self.mlp_dim % 2:
            raise ValueError(f"swiglu needs an even hidden width, got {self.mlp_dim}")
        if self.pool_norm and (self.pool not in ("mean", "patch_mean") or self.norm_placement == "post"):
            raise ValueError('pool_norm is for pool "mean" or "patch_mean" and norm_placement "pre"')

    @property
    def grid_size(self) -> int:
        """Number of patches along a side, G."""
        return self.image_size // self.patch_size

    @property
    def num_patches(self) -> int:
        """Number of patches of an image, N."""
        return self.grid_size**2

    @property
    def has_class_token(self) -> bool:
        """Whether a class token stands in front of the patches."""
        return self.pool not in ("mean", "map")

    @property
    def num_prefix_tokens(self) -> int:
        """Number of tokens in front of the patches: class token, distillation token and registers."""
        return self.has_class_token + (self.pool == "cls_dist") + self.num_registers

    @property
    def has_learned_positions(self) -> bool:
        """Whether learned positions are added to the tokens."""
        return self.pos_embed in ("learned", "learned_rope2d_eva")

    @property
    def is_rotary(self) -> bool:
        """Whether queries and keys are rotated by their places."""
        return "rope2d" in self.pos_embed

    @property
    def num_positions(self) -> int:
        """Number of tokens that have a position."""
        return self.num_patches + (self.num_prefix_tokens if self.prefix_positions else 0)

    @property
    def mlp_dim(self) -> int:
        """Width of the MLP's hidden layer, M."""
        return int(self.embed_dim * self.mlp_ratio)

    @property
    def num_read(self) -> int | None:
        """Number of tokens that the head reads of the last block, R, or None for all."""
        return {"cls": 1, "cls_dist": 2}.get(self.pool)
