"""The Vision Transformer of Dosovitskiy et al. 2021 (arXiv 2010.11929), in the paper's order

The file follows section 3.1 and appendix A of "An Image is Worth 16x16 Words", and numbers the equations. What later
papers changed is in `later_papers.py`: options of `ViTConfig` that are off by default. State-dict keys are timm's.

Shape letters:
    B  images in a batch               T  tokens: the class token and N patches
    S  side of an image in pixels      R  tokens that a block computes: T, in the last block those that the head reads
    P  side of a patch in pixels       D  width of a token (embed_dim)
    G  patches along a side, S / P     M  width of the MLP's hidden layer (mlp_ratio * D)
    N  patches of an image, G^2        H  heads
    C  classes
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.models import later_papers
from vit.models.attend import attend
from vit.models.network import Network
from vit.models.vit_config import ViTConfig


class PatchEmbed(nn.Module):
    """Cut images into patches, and project each patch to a token: (B, K, S, S) -> (B, N, D).

    `proj` is a strided convolution, as in the state dicts of timm. A reshape and one matrix product compute the same
    sum. They are 3.5 to 5.7 times as fast on a CPU.
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.patch_size, self.grid_size = config.patch_size, config.grid_size
        size, self.in_chans = config.patch_size, config.in_chans
        self.proj = nn.Conv2d(self.in_chans, config.embed_dim, size, size, bias=not config.embed_norm)

    def forward(self, images: Tensor) -> Tensor:
        B, K, G, P = images.shape[0], self.in_chans, self.grid_size, self.patch_size
        patches = images.reshape(B, K, G, P, G, P).permute(0, 2, 4, 1, 3, 5)  # (B, G, G, K, P, P)
        patches = patches.reshape(B, G * G, K * P * P)  # (B, N, K P^2)
        return F.linear(patches, self.proj.weight.flatten(1), self.proj.bias)  # (B, N, D)  x_p E of eq. 1

    @property
    def pixel_kernels(self) -> Tensor:
        """The kernels that read pixels (D, K, P, P)."""
        return self.proj.weight


class Attention(nn.Module):
    """Multi-head self-attention, MSA (appendix A): each head of a token gathers from all tokens."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        D = config.embed_dim
        self.num_heads, self.head_dim = config.num_heads, D // config.num_heads
        self.attn_drop_rate = config.attn_drop_rate
        self.qkv = nn.Linear(D, 3 * D, bias=config.qkv_bias)
        self.q_norm = later_papers.optional_norm(config.qk_norm, self.head_dim, config.norm_eps)
        self.k_norm = later_papers.optional_norm(config.qk_norm, self.head_dim, config.norm_eps)
        self.rotate = later_papers.RotaryPositions(config) if config.is_rotary else nn.Identity()
        self.proj = nn.Linear(D, D)
        self.proj_drop = nn.Dropout(config.drop_rate)

    def forward(self, tokens: Tensor, num_read: int | None = None) -> Tensor:
        drop_rate = self.attn_drop_rate if self.training else 0.0
        q, k, v = self.project(tokens, num_read)  # (B, H, R, D / H), twice (B, H, T, D / H)  eq. 5
        heads = attend(q, k, v, drop_rate).transpose(1, 2).flatten(2)  # (B, R, D)  eq. 6, 7
        return self.proj_drop(self.proj(heads))  # (B, R, D)  eq. 8

    def project(self, tokens: Tensor, num_read: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the first R = `num_read` tokens (None: of all), keys and values of all tokens (eq. 5)."""
        if num_read is None:
            q, k, v = self._split_heads(self.qkv(tokens))  # three times (B, H, T, D / H)
        else:
            D, bias = tokens.shape[-1], self.qkv.bias
            q_weight, kv_weight = self.qkv.weight.split((D, 2 * D))  # (D, D), (2 D, D)
            q_bias, kv_bias = (None, None) if bias is None else bias.split((D, 2 * D))  # (D), (2 D)
            (q,) = self._split_heads(F.linear(tokens[:, :num_read], q_weight, q_bias))  # (B, H, R, D / H)
            k, v = self._split_heads(F.linear(tokens, kv_weight, kv_bias))  # twice (B, H, T, D / H)
        return self.rotate(self.q_norm(q)), self.rotate(self.k_norm(k)), v

    def _split_heads(self, projected: Tensor) -> tuple[Tensor, ...]:
        """One, two or three tensors (B, T, D) side by side -> each with its heads apart (B, H, T, D / H)."""
        heads = projected.unflatten(-1, (-1, self.num_heads, self.head_dim))  # (B, T, 1 to 3, H, D / H)
        return heads.permute(2, 0, 3, 1, 4).unbind()


class Mlp(nn.Module):
    """Two linear layers with a GELU between them, for each token on its own (section 3.1)."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        D, M = config.embed_dim, config.mlp_dim
        self.fc1 = nn.Linear(D, M)
        narrowed = M // 2 if config.activation == "swiglu" else M
        self.norm = later_papers.optional_norm(config.mlp_norm, narrowed, config.norm_eps)
        self.fc2 = nn.Linear(narrowed, D)
        self.drop = nn.Dropout(config.drop_rate)
        self.activation = later_papers.ACTIVATIONS[config.activation]

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.drop(self.activation(self.fc1(tokens)))  # (B, R, M)
        return self.drop(self.fc2(self.norm(hidden)))  # (B, R, D)


class Block(nn.Module):
    """One encoder layer: z' = MSA(LN(z)) + z (eq. 2), then MLP(LN(z')) + z' (eq. 3)."""

    def __init__(self, config: ViTConfig, drop_path_rate: float) -> None:
        super().__init__()
        self.norm_placement = config.norm_placement
        self.norm1 = nn.LayerNorm(config.embed_dim, eps=config.norm_eps)
        self.attn = Attention(config)
        self.ls1 = later_papers.layer_scale(config)
        self.norm2 = nn.LayerNorm(config.embed_dim, eps=config.norm_eps)
        self.mlp = Mlp(config)
        self.ls2 = later_papers.layer_scale(config)
        self.drop_path = later_papers.DropPath(drop_path_rate)

    def forward(self, tokens: Tensor, num_read: int | None = None) -> Tensor:
        """Tokens (B, T, D) -> the first R = `num_read` tokens (None: all) after this layer (B, R, D)."""
        if self.norm_placement == "post":
            return self._post_norm(tokens, num_read)
        attended = self.attn(self.norm1(tokens), num_read)  # (B, R, D)
        tokens = tokens[:, :num_read] + self.drop_path(self.ls1(attended))  # (B, R, D)  eq. 2
        return tokens + self.drop_path(self.ls2(self.mlp(self.norm2(tokens))))  # (B, R, D)  eq. 3

    def _post_norm(self, tokens: Tensor, num_read: int | None) -> Tensor:
        tokens = self.norm1(tokens[:, :num_read] + self.drop_path(self.ls1(self.attn(tokens, num_read))))  # (B, R, D)
        return self.norm2(tokens + self.drop_path(self.ls2(self.mlp(tokens))))  # (B, R, D)


class VisionTransformer(Network):
    """Images (B, K, S, S) -> logits (B, C)."""

    config_class = ViTConfig
    config: ViTConfig
    pos_embed: Tensor | None

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        D, eps = config.embed_dim, config.norm_eps
        self.patch_embed = later_papers.ConvStem(config) if config.stem == "conv" else PatchEmbed(config)
        self.cls_token = later_papers.prefix_tokens(int(config.has_class_token), D)  # x_class of eq. 1
        self.dist_token = later_papers.prefix_tokens(int(config.pool == "cls_dist"), D)
        self.reg_token = later_papers.prefix_tokens(config.num_registers, D)
        if config.has_learned_positions:
            self.pos_embed = nn.Parameter(torch.zeros(1, config.num_positions, D))  # E_pos of eq. 1
        else:
            self.register_buffer("pos_embed", later_papers.fixed_positions(config), persistent=False)
        self.pos_drop = nn.Dropout(config.drop_rate)
        self.norm_pre = later_papers.optional_norm(config.embed_norm, D, eps)
        drop_path_rates = torch.linspace(0.0, config.drop_path_rate, config.depth, device="cpu").tolist()
        self.blocks = nn.ModuleList(Block(config, rate) for rate in drop_path_rates)
        is_pre_norm = config.norm_placement == "pre"
        self.norm = later_papers.optional_norm(is_pre_norm and not config.pool_norm, D, eps)
        self.fc_norm = later_papers.optional_norm(config.pool_norm, D, eps)
        self.attn_pool = None
        if config.pool == "map":
            self.attn_pool = later_papers.AttentionPool(config, Mlp(replace(config, drop_rate=0.0)), attend)
        self.head = nn.Linear(2 * D if config.pool == "cls_mean" else D, config.num_classes)
        self.head_dist = nn.Linear(D, config.num_classes) if config.pool == "cls_dist" else None
        self.initialize()

    def forward(self, images: Tensor) -> Tensor:
        return self.classify(self.encode(images))  # (B, C)  eq. 4

    def encode(self, images: Tensor) -> Tensor:
        """Images (B, K, S, S) -> the tokens that the head reads, after all blocks and the last norm (B, R, D)."""
        self.check_images(images)
        tokens = self.embed(images)  # (B, T, D)  eq. 1
        for block in self.blocks[:-1]:
            tokens = block(tokens)  # (B, T, D)  eq. 2, 3
        # The last block computes only the tokens that the head reads. This is exact, and saves 6 to 15 % of the time.
        tokens = self.blocks[-1](tokens, self.config.num_read)  # (B, R, D)  eq. 2, 3
        return self.norm(tokens)  # (B, R, D)  eq. 4

    def embed(self, images: Tensor) -> Tensor:
        """Images (B, K, S, S) -> z_0 (B, T, D): prefix tokens and patch tokens, with positions (eq. 1)."""
        tokens = self.patch_embed(images)  # (B, N, D)
        if self.config.prefix_positions:
            tokens = self.add_positions(self.add_prefix(tokens))  # (B, T, D)
        else:
            tokens = self.add_prefix(self.add_positions(tokens))  # (B, T, D)
        return self.norm_pre(self.pos_drop(tokens))

    def add_prefix(self, tokens: Tensor) -> Tensor:
        """Patch tokens (B, N, D) -> prefix tokens and patch tokens (B, T, D)."""
        prefix = [token for token in (self.cls_token, self.dist_token, self.reg_token) if token is not None]
        if not prefix:
            return tokens
        return torch.cat((*(token.expand(tokens.shape[0], -1, -1) for token in prefix), tokens), dim=1)  # (B, T, D)

    def add_positions(self, tokens: Tensor) -> Tensor:
        """The sum of tokens and positions, or the tokens themselves in a network without positions."""
        return tokens if self.pos_embed is None else tokens + self.pos_embed

    def classify(self, tokens: Tensor) -> Tensor:
        """Tokens of the last block, normalized (B, R, D), -> logits (B, C)."""
        if self.config.pool == "cls":
            return self.head(tokens[:, 0])  # (B, C)  from the class token
        if self.head_dist is not None:
            return (self.head(tokens[:, 0]) + self.head_dist(tokens[:, 1])) / 2  # (B, C)
        if self.attn_pool is not None:
            return self.head(self.attn_pool(tokens[:, self.config.num_prefix_tokens :]))  # (B, C)
        return self.head(self.fc_norm(later_papers.mean_pool(tokens, self.config)))  # (B, C)

    def initialize(self) -> None:
        """Draw the initial weights as the authors' code: Xavier for matrices, fan-in for patch kernels, a zero head.

        Queries, keys and values are one matrix (3D, D) here, as in the code of MAE. So their standard deviation is that
        of the authors divided by sqrt(2), and the first products of queries and keys are half as large.

        Positions start with variance 1, as large as a patch token, because a patch token hides smaller positions. On
        Fashion-MNIST the loss after 250 steps is 0.86 with variance 1 / D, and 0.59 with variance 1
        (docs/measurements.md).
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
            nn.init.trunc_normal_(self.attn_pool.latent, std=self.config.embed_dim**-0.5)
        for head in (self.head, self.head_dist):
            if head is not None:
                nn.init.zeros_(head.weight)  # training starts from equal probabilities (section 3.2)

    def get_classifier(self) -> tuple[nn.Module, ...]:
        return (self.head,) if self.head_dist is None else (self.head, self.head_dist)

    def first_kernels(self) -> tuple[str, ...]:
        return ("patch_embed.layers.0.weight",) if self.config.stem == "conv" else ("patch_embed.proj.weight",)

    def no_weight_decay(self) -> set[str]:
        return {"cls_token", "dist_token", "reg_token", "pos_embed", "attn_pool.latent"}

    def layers_above(self) -> dict[str, int]:
        """0 for the last norm and the head, 1 for the last block, depth + 1 for the embeddings, as BEiT counts."""
        return {name: self._layers_above(name) for name, _ in self.named_parameters()}

    def _layers_above(self, name: str) -> int:
        if name.startswith("blocks."):
            return len(self.blocks) - int(name.split(".")[1])
        is_head = name.startswith(("norm.", "fc_norm.", "attn_pool.", "head.", "head_dist."))
        return 0 if is_head else len(self.blocks) + 1
