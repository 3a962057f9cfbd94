"""Test-time augmentation: the logits of several views of an image, averaged

"flip" averages an image and its mirror image. "crops" averages the middle and the four corners of a larger square, the
geometry of torchvision's FiveCrop after a center crop (Krizhevsky et al. 2012, "ImageNet Classification with Deep
Convolutional Neural Networks", section 4.1). docs/measurements.md compares the mean of logits with that of
probabilities.
"""

from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from vit.checkpoints.label_rules import LabelRules
from vit.data.preprocess import Preprocess
from vit.errors import UsageError
from vit.inference.engines.engine_choice import AnyEngine

Tta = Literal["flip", "crops"]
TTA_NAMES: tuple[Tta, ...] = get_args(Tta)
NUM_VIEWS: dict[Tta, int] = {"flip": 2, "crops": 5}


class AugmentedEngine:
    """An engine that computes several views of each image: images (B, 3, R, R) uint8 -> probabilities (B, C) float32.

    It behaves as an engine of a network whose logits are the mean of the logits of all views.

    Args:
        engine: what computes the views, each (B, 3, S, S).
        tta: which views.
        temperature: number that divides the mean logits; None: that of the engine.

    Raises:
        UsageError: "crops" for a network that sees whole pictures, or the engine is of a model that gives an image
            several labels.
    """

    rules: LabelRules | None = None  # of several labels for an image, which are refused

    def __init__(self, engine: AnyEngine, tta: Tta, temperature: float | None = None) -> None:
        if engine.rules is not None:
            raise UsageError(
                f"--tta {tta} needs one class for each image: the thresholds of labels are those of single views",
                "leave --tta out",
            )
        self.engine = engine
        self.tta: Tta = tta
        self.temperature = engine.temperature if temperature is None else temperature
        self.device, self.precision = engine.device, engine.precision
        self.preprocess = larger(engine.preprocess) if tta == "crops" else engine.preprocess

    @property
    def name(self) -> str:
        """Name of the engine that computes."""
        return self.engine.name

    def probabilities(self, images: Tensor) -> Tensor:
        """Images (B, 3, R, R) uint8, R = S for "flip" -> probabilities (B, C) float32 on the CPU."""
        views = [self.engine.probabilities(view.contiguous()) for view in self.views(images)]
        smallest = torch.finfo(torch.float32).smallest_normal
        log_probabilities = torch.stack([view.clamp_min(smallest).log() for view in views])  # (V, B, C)
        mean_logits = log_probabilities.mean(dim=0) * self.engine.temperature  # plus a constant for each image
        return (mean_logits / self.temperature).softmax(dim=1)

    def views(self, images: Tensor) -> tuple[Tensor, ...]:
        """Images (B, 3, R, R) -> the views of each, (B, 3, S, S)."""
        if self.tta == "flip":
            return images, images.flip(3)
        crops: tuple[Tensor, ...] = TF.five_crop(images, [self.engine.preprocess.image_size] * 2)
        return crops


def larger(preprocess: Preprocess) -> Preprocess:
    """The preprocessing whose square has the views of "crops": all of the resized side, which is larger than S.

    Raises:
        UsageError: the preprocessing crops nothing. Crops would enlarge the objects, which cost 6 points of accuracy on
            Fashion-MNIST (docs/measurements.md).
    """
    if preprocess.resize_side == preprocess.image_size:
        raise UsageError(
            "--tta crops needs a network whose preprocessing crops the picture, and this one sees whole pictures",
            "give --tta flip, or train with --model.preprocess.crop_fraction 0.875",
        )
    return replace(preprocess, image_size=preprocess.resize_side, crop_fraction=1.0)
