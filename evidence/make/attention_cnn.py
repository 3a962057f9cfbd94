"""A small CNN with an encoder block on a map of its own, as own code: fashion_mnist_attention.yaml."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vit.models.timm_network import SmallImageResNet, SmallImageResNetConfig
from vit.models.vision_transformer import Block, Mlp
from vit.models.vit_config import ViTConfig


@dataclass(frozen=True, kw_only=True)
class BlockCnnConfig(SmallImageResNetConfig):
    """What a BlockCnn is built from."""

    attention: bool = True  # self-attention in the block, or an MLP with as many weights, which sees one cell at a time


class BlockCnn(SmallImageResNet):
    """Images (B, K, S, S) -> logits (B, C): a CNN with global self-attention between its last two stages.

    Source: question of Srinivas et al. 2021 (BoTNet, arXiv 2101.11605); the block and its positions are those of a ViT.
    """

    config_class = BlockCnnConfig

    def __init__(self, config: BlockCnnConfig) -> None:
        super().__init__(config)
        block = MapBlock(config.widths[2], -(-config.image_size // 4), config.attention)
        self.model.layer3 = nn.Sequential(self.model.layer3, block)


class MapBlock(nn.Module):
    """Map (B, D, H, H) -> (B, D, H, H) by one encoder block over its H^2 cells, with learned positions."""

    def __init__(self, width: int, side: int, attention: bool) -> None:
        super().__init__()
        config = ViTConfig(image_size=side, patch_size=1, embed_dim=width, depth=1, num_heads=4, mlp_ratio=2)
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, side**2, width))
        self.block = Block(config, drop_path_rate=0.0)
        if not attention:
            self.block.attn = CellMlp(config)  # type: ignore[assignment]

    def forward(self, cells: Tensor) -> Tensor:
        tokens = cells.flatten(2).transpose(1, 2) + self.pos_embed  # (B, H^2, D)
        return self.block(tokens).transpose(1, 2).reshape(cells.shape)


class CellMlp(Mlp):
    """An MLP where a block calls its attention; with `mlp_ratio` 2 both have 4 D^2 weights."""

    def forward(self, tokens: Tensor, num_read: int | None = None) -> Tensor:
        return super().forward(tokens)
