"""Augmentation: crop of each image and RandAugment, before the device; geometry, mixup, cutmix and erasing on it.

All random draws for an image follow from its draw seed (see `Batch.draw_seed`), and not from workers or a resume.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from scipy.special import betaincinv
from torch import Tensor
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional as TF

from vit.data.core.draws import uniform
from vit.data.pixels.preprocess import Preprocess, to_device
from vit.errors import UsageError
from vit.own_code import load, running

Draws = npt.NDArray[np.float64]
DrawSeeds = npt.NDArray[np.int64]
_Operation = tuple[str, float]  # of RandAugment: its name in torchvision, and the strength that it takes
AugmentName = Literal["none", "light", "standard", "strong"]

_NUM_DRAWS = 16  # numbers drawn per image and purpose
MOST_BYTES = 2**17  # of the images of a call: larger ones leave the cache of a core between the steps of an operation


@dataclass(frozen=True)
class Augment:
    """The strengths of all operations of an augmentation."""

    crop: float = 1.0  # smallest fraction of the picture's area that a random crop keeps; 1: no crop. For photographs.
    shift: float = 0.0  # largest shift, as a fraction of the side. For small images.
    rotate: float = 0.0  # largest rotation, in degrees
    zoom: float = 0.0  # largest change of size, as a fraction of the size
    flip: float = 0.0  # probability of a mirror image
    randaugment: int = 0  # number of RandAugment operations per image (Cubuk et al. 2020).
    magnitude: int = 9  # strength of these operations, 0 to 30
    mixup: float = 0.0  # alpha of mixup (Zhang et al. 2018); 0: off.
    # alpha of cutmix (Yun et al. 2019); 0: off. Beside mixup, each pair of images gets one of the two.
    cutmix: float = 0.0
    erasing: float = 0.0  # probability that a box of the image is erased (Zhong et al. 2020).
    own: str | None = None  # import path of an `OwnAugment`; None: none

    @property
    def crops(self) -> bool:
        """Whether training crops each picture at random. Otherwise the picture is prepared as for evaluation."""
        return self.crop < 1.0

    @property
    def mixes(self) -> bool:
        """Whether a label becomes the fractions of two classes."""
        return self.mixup > 0 or self.cutmix > 0

    @property
    def is_random(self) -> bool:
        """Whether an image can look different in another epoch."""
        return replace(self, magnitude=Augment.magnitude) != Augment()


def preset(name: AugmentName, image_size: int, mirrored: bool) -> Augment:
    """The augmentation that a name stands for. `mirrored`: whether mirror images keep their class; letters do not.

    Images up to 64 pixels are shifted by up to an eighth; larger images are cropped, as for ImageNet.
    """
    if name == "none":
        return Augment()
    flip = 0.5 if mirrored else 0.0
    light = Augment(shift=0.125, flip=flip) if image_size <= 64 else Augment(crop=0.35, flip=flip)
    if name == "light":
        return light
    standard = replace(light, randaugment=2)
    return standard if name == "standard" else replace(standard, mixup=0.2, cutmix=1.0, erasing=0.25)


# the user's: an image (S, S, C) uint8 and a seed of 32 bits, which alone decides the result -> a variant of its shape
OwnAugment = Callable[[npt.NDArray[np.uint8], int], npt.NDArray[np.uint8]]


@cache
def own_augment(path: str) -> OwnAugment:
    """The augmentation at an import path: a function, or a class that is made without arguments."""
    augment: Any = load(path, "--augment.own")
    own: OwnAugment = augment() if isinstance(augment, type) else augment
    return own


def _varied(image: Tensor, draw_seed: int, own: OwnAugment) -> Tensor:
    """The user's variant of an image (C, S, S) uint8."""
    pixels = own(np.ascontiguousarray(image.permute(1, 2, 0).numpy()), draw_seed % 2**32)
    expected = f"{(*image.shape[1:], len(image))} uint8"
    shown = f"{pixels.shape} {pixels.dtype}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
    if shown != expected:
        raise UsageError(f"--augment.own gives {shown} for an image of {expected}", "return an array like the image")
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)


class BatchedRandAugment(v2.RandAugment):  # type: ignore[misc]
    """RandAugment (Cubuk et al. 2020, arXiv 1909.13719) with separate draws for each image of a batch.

    Small images that get the same operation share one call, because most of its time is Python's. On one core 1,024
    images of 32 pixels take less than a quarter of the time. From about 100 pixels on, images take as long one by one.
    """

    def __init__(self, operations: int, magnitude: int) -> None:
        super().__init__(operations, magnitude, interpolation=InterpolationMode.BILINEAR)

    def of_batch(self, images: Tensor, draw_seeds: Sequence[int]) -> Tensor:
        """What torchvision makes of each image after `torch.manual_seed(draw_seed)`: (B, C, H, W) uint8 -> the same.

        The state of torch's generator stays.
        """
        choices = []  # all operations, and whether half of the images get the negative strength
        for name, (strengths_of, signed) in self._AUGMENTATION_SPACE.items():
            strengths = strengths_of(self.num_magnitude_bins, *images.shape[-2:])
            strength = 0.0 if strengths is None else float(strengths[self.magnitude])
            choices.append(((name, strength), signed and strengths is not None))
        generator = torch.Generator()
        drawn = [self._drawn(choices, generator.manual_seed(seed)) for seed in draw_seeds]
        at_once = max(1, MOST_BYTES // images.shape[1:].numel())
        for turn in range(self.num_ops):
            places: dict[_Operation, list[int]] = defaultdict(list)
            for place, operations in enumerate(drawn):
                places[operations[turn]].append(place)
            varied = torch.empty_like(images)
            for operation, alike in places.items():
                for start in range(0, len(alike), at_once):
                    part = alike[start : start + at_once] if at_once > 1 else alike[start]  # a view copies nothing
                    varied[part] = self._apply_image_or_video_transform(
                        images[part], *operation, interpolation=self.interpolation, fill=self._fill
                    )
            images = varied
        return images

    def _drawn(self, choices: list[tuple[_Operation, bool]], generator: torch.Generator) -> list[_Operation]:
        """The operations of an image, with the draws of `v2.RandAugment.forward` in its order."""
        drawn = []
        for _ in range(self.num_ops):
            (name, strength), signed = choices[int(torch.randint(len(choices), (), generator=generator))]
            negative = signed and bool(torch.rand((), generator=generator) <= 0.5)
            drawn.append((name, -strength if negative else strength))
        return drawn


class ImageAugment:
    """Augmentation before a batch reaches its device: a crop of each image, and RandAugment."""

    def __init__(self, augment: Augment, preprocess: Preprocess) -> None:
        self.augment, self.preprocess = augment, preprocess
        self.randaugment = BatchedRandAugment(augment.randaugment, augment.magnitude)

    @property
    def working_side(self) -> int:
        """The shorter side in pixels at which the smallest crop, of a ratio of 3:4, has the pixels of the input.

        Larger pictures are first reduced to this side.
        """
        return math.ceil(self.preprocess.image_size / math.sqrt(0.75 * self.augment.crop))

    def crop(self, image: Tensor, draw_seed: int) -> Tensor:
        """A random box of the picture, resized to S, drawn from `draw_seed`.

        Areas and ratios of square pictures are those of torchvision's RandomResizedCrop. Where a box does not fit,
        torchvision draws again. Here the picture cuts it, and a box of less than the smallest area gets another ratio.
        So boxes are larger: 0.66 instead of 0.56 of the area of 4:3 pictures in the median.
        """
        _, height, width = image.shape
        area, ratio, x, y = uniform(4, draw_seed, 1).tolist()
        area = height * width * (self.augment.crop + (1.0 - self.augment.crop) * area)
        ratio = (3 / 4) * (16 / 9) ** ratio  # log-uniform between 3:4 and 4:3
        box_width = min(width, max(1, round((area * ratio) ** 0.5)))
        box_height = min(height, max(1, round((area / ratio) ** 0.5)))
        if box_width * box_height < self.augment.crop * height * width:  # in long pictures, or of a large `crop`
            if box_height == height:
                box_width = min(width, max(1, round(area / height)))
            elif box_width == width:
                box_height = min(height, max(1, round(area / width)))
        top, left = round(y * (height - box_height)), round(x * (width - box_width))
        if self.preprocess.resize_mode == "pad":
            box = image[:, top : top + box_height, left : left + box_width]
            return self.preprocess.padded(box, self.preprocess.image_size)
        size, interpolation = [self.preprocess.image_size] * 2, InterpolationMode(self.preprocess.interpolation)
        resized = TF.resized_crop(image, top, left, box_height, box_width, size, interpolation, antialias=True)
        return resized.contiguous()

    def recolored(self, images: Tensor, draw_seeds: Sequence[int]) -> Tensor:
        """RandAugment of images (B, 3, S, S) uint8, then the user's augmentation, each drawn from its draw seed."""
        if self.augment.randaugment:
            images = self.randaugment.of_batch(images, draw_seeds)
        if self.augment.own is None:
            return images
        with running(self.augment.own, "--augment.own", "give a function of an image (S, S, C) uint8 and a seed"):
            own = own_augment(self.augment.own)  # not an attribute: worker processes need not pickle the user's code
            return torch.stack([_varied(image, seed, own) for image, seed in zip(images, draw_seeds, strict=True)])


class BatchAugment:
    """Augmentation of a batch on its device, with separate draws for each image."""

    def __init__(self, augment: Augment, num_classes: int) -> None:
        self.augment, self.num_classes = augment, num_classes

    def warp(self, images: Tensor, draw_seeds: DrawSeeds) -> Tensor:
        """Shift, rotate, zoom and mirror: (B, 3, S, S) uint8 -> float, 0 outside the moved picture."""
        images = images.float()
        a = self.augment
        if not (a.shift or a.rotate or a.zoom or a.flip):
            return images
        draws = uniform(_NUM_DRAWS, draw_seeds, 2)
        angle = np.deg2rad(a.rotate) * (2 * draws[:, 0] - 1)
        scale = 1.0 / (1.0 + a.zoom * (2 * draws[:, 1] - 1))
        mirror = np.where(draws[:, 2] < a.flip, -1.0, 1.0)
        side = images.shape[-1]
        pixels = (2 * draws[:, 3:5] - 1) * a.shift * side
        if not (a.rotate or a.zoom):
            pixels = np.round(pixels)  # whole pixels, so that a shift alone does not blur
        cos, sin = scale * np.cos(angle), scale * np.sin(angle)
        shift_x, shift_y = pixels[:, 0] * 2 / side, pixels[:, 1] * 2 / side
        rows = np.stack([cos * mirror, -sin, shift_x, sin * mirror, cos, shift_y], axis=1)
        matrices = to_device(torch.from_numpy(rows.reshape(-1, 2, 3).astype(np.float32)), images.device)
        grid = F.affine_grid(matrices, list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)

    def mix(self, images: Tensor, labels: Tensor, draw_seeds: DrawSeeds) -> tuple[Tensor, Tensor]:
        """Erase boxes, then mix neighbors (0 and 1, 2 and 3, ...) by mixup or cutmix, with the seed of the first one.

        Images are normalized (B, 3, S, S). Labels (B,) become (B, C) shares of sum 1 if the augmentation mixes. Several
        labels (B, K) are mixed as in timm, and unknown (-1) where either parent's label is.
        """
        if self.augment.erasing:
            draws = uniform(_NUM_DRAWS, draw_seeds, 3)
            area, ratio = 0.02 + (1 / 3 - 0.02) * draws[:, 0], 0.3 * (1 / 0.09) ** draws[:, 3]  # of width / height
            width, height = np.minimum(np.sqrt(area * ratio), 1.0), np.minimum(np.sqrt(area / ratio), 1.0)
            left, top = draws[:, 1] * (1.0 - width), draws[:, 2] * (1.0 - height)
            boxes = np.stack([left, top, left + width, top + height], axis=1)
            boxes[draws[:, 4] >= self.augment.erasing] = 0.0
            images = images * ~_inside(boxes, images)
        if not self.augment.mixes:
            return images, labels
        targets = labels if labels.ndim == 2 else F.one_hot(labels, self.num_classes).float()
        count = len(draw_seeds)
        partner = np.arange(count) ^ 1
        partner[partner >= count] = count - 1
        draws = uniform(_NUM_DRAWS, draw_seeds[np.minimum(np.arange(count) & ~1, count - 1)], 4)
        cut = draws[:, 0] < (self.augment.cutmix > 0) * (0.5 if self.augment.mixup > 0 else 1.0)
        alpha = np.where(cut, self.augment.cutmix or 1.0, self.augment.mixup or 1.0)
        own_share = betaincinv(alpha, alpha, draws[:, 1])  # fraction of itself that an image keeps: Beta(alpha, alpha)
        half = np.sqrt(np.where(cut, 1.0 - own_share, 0.0))[:, None] / 2
        center = draws[:, 2:4]  # anywhere, so that the border cuts boxes (Yun et al. 2019)
        boxes = np.concatenate([center - half, center + half], axis=1).clip(0.0, 1.0)
        inside = _inside(boxes, images)  # pixels that cutmix takes from the partner
        weight, is_cut, places = (
            to_device(torch.from_numpy(values), images.device)
            for values in (np.where(cut, 1.0, own_share).astype(np.float32), cut, partner)
        )
        other, other_targets = images[places], targets[places]
        weights = weight[:, None, None, None]
        mixed = torch.where(inside, other, images * weights + other * (1.0 - weights))
        label_share = torch.where(is_cut, 1.0 - inside.float().mean(dim=(1, 2, 3)), weight)[:, None]
        shares = targets * label_share + other_targets * (1.0 - label_share)
        if labels.ndim == 2:
            shares = torch.where((targets < 0) | (other_targets < 0), -1.0, shares)
        return mixed, shares


def _inside(boxes: Draws, images: Tensor) -> Tensor:
    """Which pixels lie in each image's box (B, 4), left, top, right, bottom in 0..1: (B, 1, S, S) bool."""
    side = images.shape[-1]
    left, top, right, bottom = to_device(torch.from_numpy(np.round(boxes * side)), images.device).unbind(dim=1)
    pixels = torch.arange(side, device=images.device)
    columns = (pixels >= left[:, None]) & (pixels < right[:, None])
    rows = (pixels >= top[:, None]) & (pixels < bottom[:, None])
    return (rows[:, :, None] & columns[:, None, :])[:, None]
