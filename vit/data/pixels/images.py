"""Images as pixels: of samples, and objects in memory; and the window that images of more than 8 bits need"""

import math

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from vit.data.core.image_bytes import ImageError
from vit.data.core.image_header import check_size
from vit.data.core.samples import Samples
from vit.data.pixels.decode import decode_image, deep_values, from_pillow
from vit.data.pixels.planes import with_channels
from vit.data.pixels.preprocess import COLORS, Decoding, Window
from vit.errors import UsageError

InMemory = Image.Image | npt.NDArray[np.generic] | Tensor

TAKEN = "give a path, a PIL image, a uint8 array (H, W), (H, W, 3) or (H, W, 4), or a uint8 tensor (3, H, W)"
MEASURED_IMAGES = 64
BEYOND = 0.1  # % of all pixels that are darker than the window, and % that are brighter
_DIGITS = 3  # places after the first digit of the range
_USUAL = Decoding()


def image_of(samples: Samples, index: int, decoding: Decoding = _USUAL) -> Tensor:
    """One image of any source, upright: (C, H, W) uint8. ImageError or DataError as of `Samples.encoded`."""
    if samples.arrays is None:
        return decode_image(samples.encoded(index), samples.name(index), decoding)
    pixels = torch.from_numpy(np.ascontiguousarray(samples.arrays[index]))
    if pixels.ndim == 2 and decoding.channels == COLORS:
        return pixels.expand(COLORS, -1, -1)
    planes = pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
    return with_channels(planes, decoding.channels, samples.name(index))


def name_of(image: InMemory, index: int) -> str:
    """The file of a PIL image, else its index."""
    return str(getattr(image, "filename", "")) or f"image {index}"


def has_frames(image: InMemory) -> bool:
    """Whether this is a PIL image of several frames or pages, of which it shows one at a time."""
    try:
        return isinstance(image, Image.Image) and bool(getattr(image, "is_animated", False))
    except Exception:  # noqa: BLE001  the file of an image may be closed or damaged
        return False


def pixels_of(image: InMemory, name: str, decoding: Decoding = _USUAL) -> Tensor:
    """One image as (C, H, W) uint8: of an animated PIL image the frame that it shows. Arrays and tensors are sRGB.

    ImageError where it cannot be decoded or is too large, UsageError for an array or tensor that is not an image.
    """
    channels = decoding.channels
    if isinstance(image, Image.Image):
        check_size(image.size, name)
        return with_channels(from_pillow(image, name, decoding), channels, name)
    if isinstance(image, Tensor):
        if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3, channels):
            raise UsageError(f"{name} is a tensor {tuple(image.shape)} of {image.dtype}, not an image", TAKEN)
        check_size((image.shape[2], image.shape[1]), name)
        return with_channels(image.detach().cpu().contiguous(), channels, name)
    if image.ndim == 3 and image.shape[2] == channels and channels not in (1, COLORS) and image.dtype == np.uint8:
        check_size((image.shape[1], image.shape[0]), name)
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))
    plane = image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image
    if plane.dtype != np.uint8 or plane.ndim not in (2, 3) or (plane.ndim == 3 and plane.shape[2] not in (3, 4)):
        raise UsageError(f"{name} is an array {image.shape} of {image.dtype}, not an image", TAKEN)
    check_size((plane.shape[1], plane.shape[0]), name)
    return with_channels(from_pillow(Image.fromarray(np.ascontiguousarray(plane)), name), channels, name)


def measured_window(train: Samples, channels: int = COLORS) -> Window | None:
    """The values that become black and white: 0.1 % of all pixels lie below them, and 0.1 % above.

    Gray and RGB images have one window. Other numbers of channels have a window for each. Up to 64 training images are
    read, at equal distances in the list. None where none of them has more than 8 bits.
    """
    if train.arrays is not None:
        return None
    rows = np.linspace(0, len(train) - 1, min(MEASURED_IMAGES, len(train))).astype(np.int64).tolist()
    train.prepare(rows)
    pixels = []
    for row in rows:
        try:
            values = deep_values(train.encoded(row), train.name(row), channels)
        except ImageError:
            continue  # a damaged image is dealt with when it is read for training
        if values is not None and (channels in (1, COLORS) or len(values) == channels):
            step = max(1, min(values.shape[1:]) // 256)
            pixels.append(values[:, ::step, ::step].astype(np.float64).reshape(len(values), -1))
    if not pixels:
        return None
    if channels in (1, COLORS):
        return _window(np.concatenate([values.ravel() for values in pixels]))
    windows = [_window(np.concatenate([values[channel] for values in pixels])) for channel in range(channels)]
    return tuple(value for window in windows for value in window or (0.0, 1.0))


def _window(pixels: npt.NDArray[np.float64]) -> Window | None:
    """The window of some values; None if none of them is a finite number."""
    pixels = pixels[np.isfinite(pixels)]
    if not len(pixels):
        return None
    low, high = map(float, np.percentile(pixels, (BEYOND, 100 - BEYOND)))
    if not low < high:
        return low, low + max(1.0, abs(low) / 1000)
    digits = _DIGITS - math.floor(math.log10(high - low))  # of the range: 101,305 to 101,345 needs more than 101,300
    return round(low, digits), round(high, digits)
