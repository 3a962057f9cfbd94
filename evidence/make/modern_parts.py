"""Parts of later papers that `vit` has no option for, as own code: evidence/make/studies/cifar10_parts.yaml."""

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from torch import Tensor, nn

from vit.models.vision_transformer import VisionTransformer
from vit.models.vit_config import ViTConfig

JITTER = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)


class RmsNormViT(VisionTransformer):
    """Images (B, K, S, S) -> logits (B, C), by RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467) for LayerNorm."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        for name, module in list(self.named_modules()):
            if isinstance(module, nn.LayerNorm):
                self.set_submodule(name, nn.RMSNorm(config.embed_dim, eps=config.norm_eps))


def binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over a batch of the sum over classes, whose labels (B) are class numbers: DeiT III, arXiv 2204.07118."""
    targets = nn.functional.one_hot(labels, logits.shape[1]).to(logits)  # (B, C)
    return nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(logits)


def three_augment(pixels: npt.NDArray[np.uint8], seed: int) -> npt.NDArray[np.uint8]:
    """One of gray, solarized and blurred, then color jitter of 0.3 (3-Augment: DeiT III, arXiv 2204.07118, fig. 2)."""
    chance = np.random.default_rng(seed)
    image = Image.fromarray(pixels)
    which = chance.integers(3)
    if which == 0:
        image = ImageOps.grayscale(image).convert("RGB")
    elif which == 1:
        image = ImageOps.solarize(image, 128)
    else:
        image = image.filter(ImageFilter.GaussianBlur(chance.uniform(0.1, 2)))
    for number in chance.permutation(len(JITTER)):
        image = JITTER[number](image).enhance(chance.uniform(0.7, 1.3))
    return np.asarray(image)
