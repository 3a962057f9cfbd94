"""The masked autoencoder of He et al. 2022 (arXiv 2111.06377) around our Vision Transformer, in the paper's order

The file follows section 3 of "Masked Autoencoders Are Scalable Vision Learners". The encoder is a `VisionTransformer`
that computes the visible patches alone. A light decoder predicts the pixels of the masked patches. After the
pretraining only the encoder is kept.

Shape letters are those of `vision_transformer.py`, and besides:
    K  visible patches of an image          D' width of a token in the decoder
    X  tokens in front of the patches (class token, registers)
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from vit.models.later_papers import sincos2d
from vit.models.vision_transformer import Block, VisionTransformer
from vit.models.vit_config import ViTConfig

MASK_RATIO = 0.75  # figure 5: best for linear probes, and among the best for fine-tuning
DECODER_DEPTH = 2  # the paper's is 8. In its table 1a, 2 blocks lose no accuracy of fine-tuning, 3.5 points of a probe
HEAD_WIDTH = 32  # channels of a head in the decoder, as in the authors' code
PIXEL_EPS = 1e-6  # added to the variance of a patch, as in the authors' code


class MaskedAutoencoder(nn.Module):
    """Everything of a masked autoencoder besides its encoder, which each method is given.

    Args:
        config: sizes and options of the encoder.
        mask_ratio: fraction of the patches that the encoder does not see, above 0 and below 1.
        decoder_depth: number of blocks of the decoder.

    Raises:
        ValueError: the encoder cannot compute some patches without the others, or the ratio leaves none or all of them.
    """

    decoder_pos_embed: Tensor

    def __init__(self, config: ViTConfig, mask_ratio: float = MASK_RATIO, decoder_depth: int = DECODER_DEPTH) -> None:
        super().__init__()
        check_encoder(config)
        decoder = decoder_config(config, decoder_depth)
        N, D = decoder.num_patches, decoder.embed_dim  # N, D'
        self.num_visible = int(N * (1 - mask_ratio))  # K
        if not 0 < self.num_visible < N:
            raise ValueError(f"a mask_ratio of {mask_ratio} leaves {self.num_visible} of {N} patches visible")
        self.num_prefix_tokens, self.patch_size = config.num_prefix_tokens, config.patch_size  # X, P
        self.decoder_embed = nn.Linear(config.embed_dim, D)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, D))
        self.register_buffer(
            "decoder_pos_embed", sincos2d(decoder.grid_size, D, self.num_prefix_tokens), persistent=False
        )
        self.decoder_blocks = nn.ModuleList(Block(decoder, drop_path_rate=0.0) for _ in range(decoder.depth))
        self.decoder_norm = nn.LayerNorm(D, eps=decoder.norm_eps)
        self.decoder_pred = nn.Linear(D, decoder.in_chans * decoder.patch_size**2)
        self.initialize()

    def forward(self, encoder: VisionTransformer, images: Tensor, order: Tensor) -> Tensor:
        """Mean squared error of the masked patches, a scalar in float32.

        Args:
            encoder: network of the given config. Its head is not computed.
            images: (B, K, S, S) normalized images.
            order: (B, N) int64, the patches of each image in a random order. The first K are visible.
        """
        predicted = self.decode(self.encode(encoder, images, order), order)  # (B, N, K P^2)
        errors = (predicted.float() - self.targets(images)).square().mean(dim=2)  # (B, N)
        return errors.gather(1, order[:, self.num_visible :]).mean()  # "only on masked patches"

    def encode(self, encoder: VisionTransformer, images: Tensor, order: Tensor) -> Tensor:
        """Images -> tokens of the encoder (B, X + K, D): those in front, then the visible patches in random order.

        "Masking" and "MAE encoder": patches are embedded and get their positions. The masked ones are then removed,
        and no mask tokens take their place.
        """
        encoder.check_images(images)
        prefix, patches = encoder.embed(images).tensor_split((self.num_prefix_tokens,), dim=1)
        tokens = torch.cat((prefix, _rows(patches, order[:, : self.num_visible])), dim=1)  # (B, X + K, D)
        for block in encoder.blocks:
            tokens = block(tokens)  # (B, X + K, D)
        return encoder.fc_norm(encoder.norm(tokens))  # one of both, or neither, is a norm

    def decode(self, tokens: Tensor, order: Tensor) -> Tensor:
        """Tokens of the encoder (B, X + K, D) -> predicted pixels of all patches in their places (B, N, K P^2).

        "MAE decoder": mask tokens are appended, all tokens return to their places, and get positions.
        """
        prefix, visible = self.decoder_embed(tokens).tensor_split((self.num_prefix_tokens,), dim=1)
        masks = self.mask_token.expand(len(order), order.shape[1] - self.num_visible, -1)  # (B, N - K, D')
        shuffled = torch.cat((visible, masks.to(visible.dtype)), dim=1)  # (B, N, D')
        patches = _rows(shuffled, order.argsort(dim=1))  # (B, N, D')
        tokens = torch.cat((prefix, patches), dim=1) + self.decoder_pos_embed  # (B, X + N, D')
        for block in self.decoder_blocks:
            tokens = block(tokens)  # (B, X + N, D')
        return self.decoder_pred(self.decoder_norm(tokens)[:, self.num_prefix_tokens :])  # (B, N, K P^2)

    def targets(self, images: Tensor) -> Tensor:
        """What the decoder predicts: the pixels of each patch, normalized by their mean and deviation (B, N, K P^2)."""
        pixels = patchify(images.float(), self.patch_size)  # (B, N, K P^2)
        variance, mean = torch.var_mean(pixels, dim=2, keepdim=True)  # twice (B, N, 1)
        return (pixels - mean) / (variance + PIXEL_EPS).sqrt()  # "Reconstruction target"

    def initialize(self) -> None:
        """Draw the decoder's weights as the authors' code: Xavier for matrices, 0.02 for the mask token."""
        for part in (self.decoder_embed, self.decoder_blocks, self.decoder_pred):
            for module in part.modules():
                if isinstance(module, nn.Linear):
                    nn.init.xavier_uniform_(module.weight)
                    if module.bias is not None:
                        nn.init.zeros_(module.bias)
        nn.init.normal_(self.mask_token, std=0.02)


def check_encoder(config: ViTConfig) -> None:
    """Raise ValueError for a network that cannot compute the visible patches of an image alone."""
    if config.stem == "conv":
        raise ValueError("the stem conv sees the pixels of masked patches; a masked autoencoder needs the stem patch")
    if config.is_rotary:
        raise ValueError(
            f"pos_embed {config.pos_embed} rotates all patches; a masked autoencoder needs learned or sincos2d"
        )
    if config.pos_embed == "none":
        raise ValueError("without positions an encoder does not know where the visible patches are; set pos_embed")
    if config.pool == "map":
        raise ValueError("pool map reads patches by weights that a masked autoencoder does not train")


def decoder_config(config: ViTConfig, depth: int) -> ViTConfig:
    """Sizes of the decoder: half the encoder's width, rounded up to whole heads of 32 channels, and plain blocks."""
    num_heads = math.ceil(config.embed_dim / (2 * HEAD_WIDTH))
    size, channels = config.image_size, config.in_chans
    plain = ViTConfig(image_size=size, patch_size=config.patch_size, in_chans=channels, norm_eps=config.norm_eps)
    return replace(plain, embed_dim=num_heads * HEAD_WIDTH, num_heads=num_heads, depth=depth)


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Images (B, K, S, S) -> pixels of each patch (B, N, K P^2), row by row, the channels of a pixel side by side."""
    B, K, G, P = *images.shape[:2], images.shape[-1] // patch_size, patch_size
    return images.reshape(B, K, G, P, G, P).permute(0, 2, 4, 3, 5, 1).reshape(B, G * G, K * P * P)


def _rows(tokens: Tensor, places: Tensor) -> Tensor:
    """The tokens of each image (B, N, D) at its places (B, K): (B, K, D)."""
    return tokens.gather(1, places[:, :, None].expand(-1, -1, tokens.shape[2]))
