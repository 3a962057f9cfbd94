"""`Preprocess`: how an image becomes the input of a network. Every checkpoint stores it."""

import math
from dataclasses import asdict, dataclass
from typing import Literal

import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

COLORS = 3
MAX_CHANNELS = 16

Interpolation = Literal["bilinear", "bicubic"]
Window = tuple[float, ...]  # values that become black and white: two for all channels, or two for each channel
ResizeMode = Literal["shortest", "squash", "pad"]  # timm's crop_mode "center", "squash" and "border"
ColorProfiles = Literal["convert", "ignore"]


@dataclass(frozen=True)
class Decoding:
    """What the pixels of a file depend on, beside the file; see `Preprocess`."""

    window: Window | None = None
    channels: int = COLORS
    color_profiles: ColorProfiles = "convert"

    @property
    def converts(self) -> bool:
        """Whether the colors of embedded profiles become sRGB."""
        return self.color_profiles == "convert"


@dataclass(frozen=True)
class Preprocess:
    """Resize to image_size / crop_fraction, crop the center square, scale to 0..1, normalize.

    The default mean and std are those of ImageNet, which suit most photographs.
    """

    image_size: int  # side of the network's input, in pixels
    crop_fraction: float = 1.0  # fraction of the resized side that the center square keeps
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)  # of each channel, as fractions of 1
    std: tuple[float, ...] = (0.229, 0.224, 0.225)  # standard deviation of each channel, as fractions of 1
    interpolation: Interpolation = "bicubic"  # of the antialiased resize
    # "shortest" resizes the shorter side and keeps the proportions. "squash" resizes both sides (SigLIP, EVA). "pad"
    # resizes the longer side, and fills the rest of the square with the mean color. With both the network sees all.
    resize_mode: ResizeMode = "shortest"
    # values that become 0 and 255 in images of more than 8 bits: two numbers for all channels, or two for each; None:
    # all values that the type of a file can have
    window: Window | None = None
    channels: int = 3  # of an image, C: 1 for gray, 3 for red, green and blue, up to 16 of a TIFF
    # "convert" turns the colors of an embedded ICC profile into sRGB, as viewers show them. "ignore" takes the numbers
    # of a file for sRGB, as torchvision and timm do.
    color_profiles: ColorProfiles = "convert"

    @property
    def decoding(self) -> Decoding:
        """What the decoder needs to know."""
        return Decoding(self.window, self.channels, self.color_profiles)

    def __call__(self, image: Tensor) -> Tensor:
        """Upright pixels (C, H, W) uint8 -> (C, S, S) uint8, for evaluation, prediction and export alike."""
        image = self.resized(image)
        _, height, width = image.shape
        top, left = round((height - self.image_size) / 2), round((width - self.image_size) / 2)  # as CenterCrop
        return image[:, top : top + self.image_size, left : left + self.image_size].contiguous()

    def resized(self, image: Tensor) -> Tensor:
        """Upright pixels (C, H, W) uint8 -> (C, h, w) uint8, of which the middle square is the network's input."""
        side = self.resize_side
        if self.resize_mode == "squash":
            return _resize(image, [side, side], self.interpolation)
        if self.resize_mode == "pad":
            return self.padded(image, side)
        return resize_shorter(image, side, self.interpolation)

    def padded(self, image: Tensor, side: int) -> Tensor:
        """Resize (C, H, W) uint8 to a longer side of `side`, and pad it to the input's size, as timm's "border"."""
        longer, least = max(image.shape[1:]), self.image_size
        size = [max(1, round(length * side / longer)) for length in image.shape[1:]]
        resized = _resize(image, size, self.interpolation)
        height, width = (max(length, least) for length in size)
        filled = torch.tensor(self.fill, dtype=torch.uint8)[:, None, None].repeat(1, height, width)
        top, left = (height - size[0]) // 2, (width - size[1]) // 2
        filled[:, top : top + size[0], left : left + size[1]] = resized
        return filled

    @property
    def fill(self) -> list[int]:
        """The value of each channel beside a padded picture: the mean, which is nearly 0 in the network's input."""
        return [min(255, max(0, round(255 * value))) for value in self.mean]

    @property
    def resize_side(self) -> int:
        """Side in pixels before the crop: the shorter side; both sides with "squash", the longer with "pad"."""
        return max(self.image_size, round(self.image_size / self.crop_fraction))

    def normalize(self, images: Tensor) -> Tensor:
        """Images (B, C, S, S) uint8 -> float32, (image / 255 - mean) / std."""
        mean = torch.tensor(self.mean).mul_(255.0)[:, None, None]
        scale = torch.tensor(self.std).mul_(255.0).reciprocal_()[:, None, None]
        return images.to(torch.float32).sub_(to_device(mean, images.device)).mul_(to_device(scale, images.device))

    def to_dict(self) -> dict[str, float | str | list[float]]:
        """Plain values for a checkpoint."""
        usual = {"window": None, "channels": COLORS}  # values that a checkpoint leaves out
        values = {key: value for key, value in asdict(self).items() if key not in usual or value != usual[key]}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def is_window(window: Window, channels: int) -> bool:
    """Whether these are a low and a higher finite number, for all channels or for each."""
    pairs = list(zip(window[::2], window[1::2], strict=False))
    return len(window) in (2, 2 * channels) and all(-math.inf < float(a) < float(b) < math.inf for a, b in pairs)


def resize_shorter(image: Tensor, side: int, interpolation: Interpolation) -> Tensor:
    """Resize (C, H, W) uint8 so that the shorter side has `side` pixels, antialiased."""
    _, height, width = image.shape
    shorter = min(height, width)
    size = [height * side // shorter, width * side // shorter]  # as torchvision's Resize
    return _resize(image, size, interpolation)


def _resize(image: Tensor, size: list[int], interpolation: Interpolation) -> Tensor:
    if list(image.shape[1:]) == size:
        return image
    return TF.resize(image, size, interpolation=InterpolationMode(interpolation), antialias=True)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device, copied from page-locked memory: a plain copy to a GPU waits until its queue is empty."""
    is_copied = device.type == "cuda" and not tensor.is_cuda
    return tensor.pin_memory().to(device, non_blocking=True) if is_copied else tensor.to(device)
