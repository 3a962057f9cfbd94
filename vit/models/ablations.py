"""A ViT that can lack parts of the paper, to measure what each part is for; for teaching, not for use

`vision_transformer.py` stays as the paper is. This network has the same weights, and computes its blocks plainly:
without packed weights, and without the shortcut of the last block. It is a class of its own, so that no export and no
faster engine takes it for the paper's network. Shape letters are those of vision_transformer.py.
"""

from dataclasses import dataclass
from typing import Literal, cast

from torch import Tensor, nn

from vit.models.network import Network
from vit.models.vision_transformer import Attention, Block, VisionTransformer
from vit.models.vit_config import ViTConfig

Norms = Literal["pre", "post", "none"]


@dataclass(frozen=True, kw_only=True)
class AblatedConfig(ViTConfig):
    """Sizes of a ViT, and the parts that it has; ValueError also for options that this network does not compute."""

    scaled: bool = True  # whether the products of queries and keys are divided by sqrt(D / H) (eq. 6)
    residuals: bool = True  # whether each branch is added to its input (eq. 2, 3), or replaces it
    # place of the norms, for `norm_placement`: "pre", before each branch (the paper), "post", after each sum (Vaswani
    # et al. 2017), or "none", also before the head
    norms: Norms = "pre"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm_placement != "pre":
            raise ValueError("norm_placement is for the other ViTs: give norms, which also takes none")
        if self.attn_drop_rate or self.drop_path_rate or self.layer_scale:
            raise ValueError("attn_drop_rate, drop_path_rate and layer_scale are not for a network without parts")
        if self.pool_norm and self.norms != "pre":
            raise ValueError('pool_norm is for norms "pre"')


class AblatedTransformer(Network):
    """Images (B, 3, S, S) -> logits (B, C), by a ViT without the parts that its config leaves out."""

    config_class = AblatedConfig
    config: AblatedConfig

    def __init__(self, config: AblatedConfig) -> None:
        super().__init__(config)
        self.vit = VisionTransformer(config)
        if config.norms != "pre":
            self.vit.norm = nn.Identity()  # after the last sum, "post" has a norm already
        if config.norms == "none":
            for block in self.blocks:
                block.add_module("norm1", nn.Identity())
                block.add_module("norm2", nn.Identity())

    @property
    def blocks(self) -> list[Block]:
        """The blocks, whose weights are those of the paper's network."""
        return cast(list[Block], list(self.vit.blocks))

    def forward(self, images: Tensor) -> Tensor:
        self.check_images(images)
        tokens = self.vit.embed(images)  # (B, T, D)  eq. 1
        for block in self.blocks:
            tokens = self.layer(block, tokens)  # (B, T, D)
        return self.vit.classify(self.vit.norm(tokens))  # (B, C)  eq. 4

    def layer(self, block: Block, tokens: Tensor) -> Tensor:
        """Tokens (B, T, D) after one block (eq. 2, 3), as far as it has its parts."""
        if self.config.norms == "post":
            tokens = block.norm1(self._sum(tokens, self.attention(block.attn, tokens)))
            return cast(Tensor, block.norm2(self._sum(tokens, block.mlp(tokens))))
        tokens = self._sum(tokens, self.attention(block.attn, block.norm1(tokens)))
        return self._sum(tokens, block.mlp(block.norm2(tokens)))

    def attention(self, attn: Attention, tokens: Tensor) -> Tensor:
        """Self-attention (B, T, D) -> (B, T, D), with or without the division by sqrt(D / H)."""
        q, k, v = attn.project(tokens)  # three times (B, H, T, D / H)  eq. 5
        scale = attn.head_dim**-0.5 if self.config.scaled else 1.0
        weights = (q * scale @ k.transpose(-2, -1)).softmax(dim=-1)  # (B, H, T, T)  eq. 6
        heads = (weights @ v).transpose(1, 2).flatten(2)  # (B, T, D)  eq. 7
        return cast(Tensor, attn.proj_drop(attn.proj(heads)))  # eq. 8

    def _sum(self, tokens: Tensor, branch: Tensor) -> Tensor:
        return tokens + branch if self.config.residuals else branch

    def get_classifier(self) -> tuple[nn.Module, ...]:
        return self.vit.get_classifier()

    def no_weight_decay(self) -> set[str]:
        return {f"vit.{name}" for name in self.vit.no_weight_decay()}

    def layers_above(self) -> dict[str, int]:
        return {f"vit.{name}": number for name, number in self.vit.layers_above().items()}
