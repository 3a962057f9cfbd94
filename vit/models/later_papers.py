"""Changes of later papers to the Vision Transformer, each one off by default

`vision_transformer.py` holds the original paper. Its shape letters are used here, too.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.models.vit_config import Activation, ViTConfig


def quick_gelu(hidden: Tensor) -> Tensor:
    """The approximate GELU x sigmoid(1.702 x), which OpenAI's CLIP uses."""
    return hidden * torch.sigmoid(1.702 * hidden)


def swiglu(hidden: Tensor) -> Tensor:
    """SiLU of the first half of the channels, times the second half (Shazeer 2020, arXiv 2002.05202)."""
    gate, value = hidden.chunk(2, dim=-1)  # twice (B, R, M / 2)
    return F.silu(gate) * value


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "quick_gelu": quick_gelu,
    "swiglu": swiglu,
}


class LayerScale(nn.Module):
    """A learned factor for each channel of a residual branch (Touvron et al. 2021, "CaiT", arXiv 2103.17239)."""

    def __init__(self, embed_dim: int, value: float) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((embed_dim,), value))

    def forward(self, branch: Tensor) -> Tensor:
        return branch * self.gamma


class DropPath(nn.Module):
    """Stochastic depth (Huang et al. 2016, arXiv 1603.09382): drops a branch for whole images, scales the others."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return branch
        mask = branch.new_empty(branch.shape[0], 1, 1).bernoulli_(1.0 - self.rate)  # (B, 1, 1)
        return branch * mask / (1.0 - self.rate)


def optional_norm(is_used: bool, width: int, eps: float) -> nn.Module:
    """A LayerNorm, or the identity where an option leaves the norm out."""
    return nn.LayerNorm(width, eps=eps) if is_used else nn.Identity()


def layer_scale(config: ViTConfig) -> nn.Module:
    """A LayerScale, or the identity where an option leaves the factors out."""
    return LayerScale(config.embed_dim, config.layer_scale) if config.layer_scale else nn.Identity()


def prefix_tokens(num_tokens: int, embed_dim: int) -> nn.Parameter | None:
    """Learned tokens in front of the patches (1, num_tokens, D), or None for 0 tokens."""
    return nn.Parameter(torch.zeros(1, num_tokens, embed_dim)) if num_tokens else None


def fixed_positions(config: ViTConfig) -> Tensor | None:
    """Fixed positions that are added to the tokens (1, N, D) or (1, T, D), or None where nothing is added."""
    if config.pos_embed != "sincos2d":
        return None
    return sincos2d(config.grid_size, config.embed_dim, config.num_positions - config.num_patches)


def sincos2d(grid_size: int, embed_dim: int, num_prefix_tokens: int) -> Tensor:
    """Fixed sine and cosine positions (1, num_prefix_tokens + N, D), which are 0 for the prefix tokens.

    They are those of `posemb_sincos_2d` in big_vision (Beyer et al. 2022, arXiv 2205.01580). Sin x, cos x, sin y and
    cos y take a quarter of the channels each.
    """
    frequencies = torch.exp(torch.arange(embed_dim // 4) * (-math.log(10_000.0) / max(embed_dim // 4 - 1, 1)))
    y, x = torch.meshgrid(torch.arange(grid_size), torch.arange(grid_size), indexing="ij")
    x_phase, y_phase = x.flatten()[:, None] * frequencies, y.flatten()[:, None] * frequencies  # twice (N, D / 4)
    positions = torch.cat((x_phase.sin(), x_phase.cos(), y_phase.sin(), y_phase.cos()), dim=1)  # (N, D)
    return torch.cat((torch.zeros(num_prefix_tokens, embed_dim), positions))[None]  # (1, T, D)


class RotaryPositions(nn.Module):
    """Rotate queries or keys of the patches by their places: (B, H, R, D / H) -> the same shape.

    A frequency rotates two channels by place / period. The attention of two patches then depends on their distance, for
    each frequency and axis. Places cover the same range at each image size. Tokens in front of the patches are not
    rotated. Two papers differ in three numbers:

    - "rope2d" (Siméoni et al. 2025, "DINOv3", arXiv 2508.10104, section 3.2; `RopePositionEmbedding` of its code):
      places from -2 pi to 2 pi, periods from 1 to 100, and a channel turns with the one half a head away. DINOv3's
      shifts and jitter of places in pretraining are left out.
    - "rope2d_eva" (Fang et al. 2023, "EVA-02", arXiv 2303.11331; `VisionRotaryEmbeddingFast` of its code): places from
      0 to 16, the grid of its pretraining, periods from 1 to 10,000, and neighboring channels turn together.
    """

    PERIOD_BASE = 100.0
    PERIOD_BASE_EVA = 10_000.0
    GRID_EVA = 16

    cos: Tensor
    sin: Tensor

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        G, head_dim = config.grid_size, config.embed_dim // config.num_heads
        self.num_prefix_tokens = config.num_prefix_tokens
        self.turns_neighbors = config.pos_embed != "rope2d"
        if self.turns_neighbors:
            base, places = self.PERIOD_BASE_EVA, torch.arange(G) / G * self.GRID_EVA  # (G)
        else:
            base, places = self.PERIOD_BASE, 2 * math.pi * ((torch.arange(G) + 0.5) / G * 2 - 1)  # (G)
        periods = base ** (torch.arange(head_dim // 4) / (head_dim // 4))  # (D / 4 H)
        y, x = torch.meshgrid(places, places, indexing="ij")
        angles = torch.stack((y.flatten(), x.flatten()), dim=1)[:, :, None] / periods  # (N, 2, D / 4 H)
        angles = angles.flatten(1)  # (N, D / 2 H)
        angles = angles.repeat_interleave(2, dim=1) if self.turns_neighbors else angles.tile(2)  # (N, D / H)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, heads: Tensor) -> Tensor:
        prefix, patches = heads.tensor_split((self.num_prefix_tokens,), dim=2)
        if not patches.shape[2]:
            return heads  # the last block computes queries of the tokens that the head reads, and no others
        if self.turns_neighbors:
            partners = torch.stack((-patches[..., 1::2], patches[..., ::2]), dim=-1).flatten(-2)  # (B, H, N, D / H)
        else:
            first, second = patches.chunk(2, dim=-1)  # twice (B, H, N, D / 2 H)
            partners = torch.cat((-second, first), dim=-1)  # (B, H, N, D / H)
        turned = patches * self.cos + partners * self.sin  # float32
        return torch.cat((prefix, turned.to(heads.dtype)), dim=2)


class ConvStem(nn.Module):
    """Tokens of pixels by convolutions: (B, K, S, S) -> (B, N, D).

    "Early Convolutions Help Transformers See Better" (Xiao et al. 2021, arXiv 2106.14881, section 4 and appendix A):
    four 3x3 convolutions with D / 8, D / 4, D / 2 and D channels, each with batch norm and ReLU, then one 1x1
    convolution. The first log2(P) of them have stride 2, for P = 16 all four as in the paper.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        D = config.embed_dim
        self.patch_size, self.grid_size = config.patch_size, config.grid_size
        widths = (config.in_chans, D // 8, D // 4, D // 2, D)
        num_strided = config.patch_size.bit_length() - 1  # log2(P)
        layers: list[nn.Module] = []
        for number, (before, after) in enumerate(pairwise(widths)):
            stride = 2 if number < num_strided else 1
            layers += [nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.proj = nn.Conv2d(D, D, 1, bias=not config.embed_norm)

    def forward(self, images: Tensor) -> Tensor:
        tokens: Tensor = self.proj(self.layers(images))  # (B, D, G, G)
        return tokens.flatten(2).transpose(1, 2)  # (B, N, D)

    @property
    def pixel_kernels(self) -> Tensor:
        """The kernels that read pixels (D / 8, K, 3, 3)."""
        return self.layers.get_submodule("0").get_parameter("weight")


def mean_pool(tokens: Tensor, config: ViTConfig) -> Tensor:
    """Mean of the patch tokens (B, D), for "cls_mean" with the class token before the mean (B, 2 D)."""
    mean = tokens[:, config.num_prefix_tokens :].mean(dim=1)  # (B, D)
    return torch.cat((tokens[:, 0], mean), dim=1) if config.pool == "cls_mean" else mean


class AttentionPool(nn.Module):
    """Pooling of the patch tokens by the attention of one learned query: (B, N, D) -> (B, D).

    Zhai et al. 2022 (arXiv 2106.04560) and SigLIP use this pooling. State-dict keys are those of timm's
    AttentionPoolLatent. `mlp` is in the residual branch that follows the attention, and `attend` computes softmax(q k^T
    / sqrt(D / H)) v as the blocks do.
    """

    def __init__(self, config: ViTConfig, mlp: nn.Module, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        D = config.embed_dim
        self.num_heads = config.num_heads
        self.attend = attend
        self.latent = nn.Parameter(torch.zeros(1, 1, D))
        self.q = nn.Linear(D, D)
        self.kv = nn.Linear(D, 2 * D)
        self.proj = nn.Linear(D, D)
        self.norm = nn.LayerNorm(D, eps=config.norm_eps)
        self.mlp = mlp

    def forward(self, patches: Tensor) -> Tensor:
        latent = self.latent.expand(patches.shape[0], -1, -1)  # (B, 1, D)
        q = self.q(latent).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, 1, D / H)
        kv = self.kv(patches).unflatten(-1, (2, self.num_heads, -1))  # (B, N, 2, H, D / H)
        k, v = kv.permute(2, 0, 3, 1, 4).unbind()  # twice (B, H, N, D / H)
        pooled = self.proj(self.attend(q, k, v).flatten(1))  # (B, D)
        return pooled + self.mlp(self.norm(pooled))
