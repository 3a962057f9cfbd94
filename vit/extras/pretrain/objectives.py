"""What a backbone learns from images without labels: the contract of an objective, DIET and MAE

`Mae` follows section 3 of "Masked Autoencoders Are Scalable Vision Learners" (He et al. 2022, arXiv 2111.06377) in the
paper's order. Its shape letters are those of `vision_transformer.py`, and besides:
    K  visible patches of an image          D' width of a token in the decoder
    X  tokens in front of the patches (class token, registers)
"""

import math
from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit.data.core.draws import uniform
from vit.data.pixels.preprocess import to_device
from vit.errors import UsageError
from vit.models.heads import classifier_names
from vit.models.later_papers import sincos2d
from vit.models.network import Network
from vit.models.vision_transformer import Block, VisionTransformer
from vit.models.vit_config import ViTConfig

BACKBONE = "network."  # in front of the names of the backbone's weights, in an objective's and in a checkpoint's
SMOOTHING = 0.8  # of DIET from random weights (arXiv 2302.10260, section 3)
PRETRAINED_SMOOTHING = 0.3  # for pretrained networks, as in public code for DIET-CP
HEAD_ALONE = 0.05  # of the steps, as in public code for DIET-CP
MASK_RATIO = 0.75  # of the patches; figure 5: best for linear probes, and among the best for fine-tuning
DECODER_DEPTH = 2  # the paper's is 8. In its table 1a, 2 blocks lose no accuracy of fine-tuning, 3.5 points of a probe
HEAD_WIDTH = 32  # channels of a head in MAE's decoder, as in the authors' code
PIXEL_EPS = 1e-6  # added to the variance of a patch, as in the authors' code
_PURPOSE = 5  # of the draws of a mask; `data/pixels/augment.py` uses 1 to 4


class Objective(nn.Module, ABC):
    """A backbone with the layers that only its pretraining needs.

    Args:
        network: network whose layers for classes are gone; see `without_classes`.

    Attributes:
        network: the backbone. Only its weights are kept.
        resting_fraction: fraction of the optimizer steps, from the first on, in which the backbone does not change.
    """

    resting_fraction = 0.0

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    @abstractmethod
    def forward(self, images: Tensor, indices: Tensor, draw_seeds: Tensor) -> Tensor:
        """The loss of a batch.

        Args:
            images: (B, 3, S, S) augmented and normalized images.
            indices: (B,) number of each image among all training images.
            draw_seeds: (B,) seeds on the CPU for all random draws of an image in this epoch; see `Batch.draw_seed`.
        """

    def no_weight_decay(self) -> set[str]:
        """Names of parameters without weight decay, besides vectors."""
        return {BACKBONE + name for name in self.network.no_weight_decay()}

    def layers_above(self) -> dict[str, int]:
        """Number of blocks between each parameter and the head, by the parameter's name, or {} without an order."""
        return {BACKBONE + name: above for name, above in self.network.layers_above().items()}


def without_classes(network: Network, name: str) -> Network:
    """The same network, which now returns the features that its head reads: (B, 3, S, S) -> (B, D).

    UsageError, which names the network, where its last layer is not known.
    """
    heads = classifier_names(network)
    if not heads:
        problem = f"{name} does not say which of its layers computes the classes"
        raise UsageError(problem, "choose another --network for vit pretrain")
    for head in heads:
        network.set_submodule(head, nn.Identity())
    return network


@torch.no_grad()
def feature_width(network: Network) -> int:
    """The number of features D that a network without classes returns."""
    device, was_training = next(network.parameters()).device, network.training
    network.eval()  # batch norm needs more than one image in training
    size = network.image_size
    width = network(torch.zeros(1, network.in_chans, size, size, device=device)).flatten(1).shape[1]
    network.train(was_training)
    return int(width)


class Diet(Objective):
    """DIET: every image is a class of its own, and a linear head learns to tell the images apart.

    Ibrahim et al. 2024, "Occam's Razor for Self Supervised Learning: What is Sufficient to Learn Good Representations?"
    (arXiv 2406.10743; first arXiv 2302.10260). The loss is cross-entropy with the image's number as its label, of which
    strong label smoothing spreads a fraction over all images. Augmentation alone makes the task more than recognition.

    For a pretrained network, DIET-CP (Rodas et al. 2025, arXiv 2509.06990) smooths less. The new head is first trained
    alone, because its random weights would otherwise spoil the features.

    Args:
        num_images: number of training images, n.
        is_pretrained: whether the network starts from pretrained weights.
    """

    def __init__(self, network: Network, num_images: int, is_pretrained: bool) -> None:
        super().__init__(network)
        self.head = nn.Linear(feature_width(network), num_images, bias=False)
        self.smoothing = PRETRAINED_SMOOTHING if is_pretrained else SMOOTHING
        self.resting_fraction = HEAD_ALONE if is_pretrained else 0.0

    def forward(self, images: Tensor, indices: Tensor, draw_seeds: Tensor) -> Tensor:
        logits = self.head(self.network(images).flatten(1))  # (B, n)
        return F.cross_entropy(logits.float(), indices, label_smoothing=self.smoothing)


class Mae(Objective):
    """MAE: three quarters of an image's patches are hidden, and the backbone must tell their pixels from the others.

    The encoder is the backbone, which computes the visible patches alone. A light decoder predicts the pixels of the
    masked ones. The mask of an image follows from its draw seed, so that a resumed pretraining hides the same patches.
    Errors as of `check_encoder`.
    """

    network: VisionTransformer
    decoder_pos_embed: Tensor

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        config = check_encoder(network)
        decoder = decoder_config(config)
        N, D = decoder.num_patches, decoder.embed_dim  # N, D'
        self.num_visible = int(N * (1 - MASK_RATIO))  # K
        self.num_prefix_tokens, self.patch_size = config.num_prefix_tokens, config.patch_size  # X, P
        self.mask_token = nn.ParameterList([torch.zeros(1, 1, D)])  # a list: its parameter follows the backbone's
        self.decoder_embed = nn.Linear(config.embed_dim, D)
        positions = sincos2d(decoder.grid_size, D, self.num_prefix_tokens)
        self.register_buffer("decoder_pos_embed", positions, persistent=False)
        self.decoder_blocks = nn.ModuleList(Block(decoder, drop_path_rate=0.0) for _ in range(decoder.depth))
        self.decoder_norm = nn.LayerNorm(D, eps=decoder.norm_eps)
        self.decoder_pred = nn.Linear(D, decoder.in_chans * decoder.patch_size**2)
        self.initialize()

    def forward(self, images: Tensor, indices: Tensor, draw_seeds: Tensor) -> Tensor:
        return self.loss(images, to_device(patch_order(draw_seeds, self.network.config.num_patches), images.device))

    def loss(self, images: Tensor, order: Tensor) -> Tensor:
        """Mean squared error of the masked patches, a scalar in float32.

        Args:
            images: (B, K, S, S) normalized images.
            order: (B, N) int64, the patches of each image in a random order. The first K are visible.
        """
        predicted = self.decode(self.encode(images, order), order)  # (B, N, K P^2)
        errors = (predicted.float() - self.targets(images)).square().mean(dim=2)  # (B, N)
        return errors.gather(1, order[:, self.num_visible :]).mean()  # "only on masked patches"

    def encode(self, images: Tensor, order: Tensor) -> Tensor:
        """Images -> tokens of the encoder (B, X + K, D): those in front, then the visible patches in random order.

        "Masking" and "MAE encoder": patches are embedded and get their positions. The masked ones are then removed,
        and no mask tokens take their place. The head is not computed.
        """
        encoder = self.network
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
        masks = self.mask_token[0].expand(len(order), order.shape[1] - self.num_visible, -1)  # (B, N - K, D')
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
        nn.init.normal_(self.mask_token[0], std=0.02)

    def no_weight_decay(self) -> set[str]:
        return super().no_weight_decay() | {"mask_token.0"}


def check_encoder(network: Network) -> ViTConfig:
    """The config of a network, on any device, that computes the visible patches of an image alone; else UsageError."""
    if not isinstance(network, VisionTransformer):
        raise UsageError("--method mae is only for a ViT of our own ('vit models' lists them)", "give --method diet")
    config, problem = network.config, ""
    if config.stem == "conv":
        problem = "the stem conv sees the pixels of masked patches; a masked autoencoder needs the stem patch"
    elif config.is_rotary:
        problem = f"pos_embed {config.pos_embed} rotates all patches; a masked autoencoder needs learned or sincos2d"
    elif config.pos_embed == "none":
        problem = "without positions an encoder does not know where the visible patches are; set pos_embed"
    elif config.pool == "map":
        problem = "pool map reads patches by weights that a masked autoencoder does not train"
    elif config.num_patches * (1 - MASK_RATIO) < 1:
        problem = f"a mask of {MASK_RATIO:.0%} leaves 0 of {config.num_patches} patches visible"
    if problem:
        raise UsageError(f"--method mae: {problem}", "give --method diet, or change --network")
    return config


def decoder_config(config: ViTConfig) -> ViTConfig:
    """Sizes of the decoder: half the encoder's width, rounded up to whole heads of 32 channels, and plain blocks."""
    num_heads = math.ceil(config.embed_dim / (2 * HEAD_WIDTH))
    size, channels = config.image_size, config.in_chans
    plain = ViTConfig(image_size=size, patch_size=config.patch_size, in_chans=channels, norm_eps=config.norm_eps)
    return replace(plain, embed_dim=num_heads * HEAD_WIDTH, num_heads=num_heads, depth=DECODER_DEPTH)


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Images (B, K, S, S) -> pixels of each patch (B, N, K P^2), row by row, the channels of a pixel side by side."""
    B, K, G, P = *images.shape[:2], images.shape[-1] // patch_size, patch_size
    return images.reshape(B, K, G, P, G, P).permute(0, 2, 4, 3, 5, 1).reshape(B, G * G, K * P * P)


def _rows(tokens: Tensor, places: Tensor) -> Tensor:
    """The tokens of each image (B, N, D) at its places (B, K): (B, K, D)."""
    return tokens.gather(1, places[:, :, None].expand(-1, -1, tokens.shape[2]))


def patch_order(draw_seeds: Tensor, num_patches: int) -> Tensor:
    """The patches of each image in a random order (B, N), a pure function of the draw seeds (B,)."""
    drawn = uniform(num_patches, draw_seeds.cpu().numpy().astype(np.int64), _PURPOSE)  # (B, N)
    return torch.from_numpy(np.argsort(drawn, axis=1, kind="stable"))
