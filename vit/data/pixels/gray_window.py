"""The window of values that training images of more than 8 bits need"""

import math

import numpy as np
import numpy.typing as npt

from vit.data.core.image_bytes import ImageError
from vit.data.core.samples import Samples
from vit.data.pixels.decode import deep_values
from vit.data.pixels.preprocess import COLORS, Window

MEASURED_IMAGES = 64
BEYOND = 0.1  # % of all pixels that are darker than the window, and % that are brighter
_DIGITS = 3  # places after the first digit of the range


def measured_window(train: Samples, channels: int = COLORS) -> Window | None:
    """The values that become black and white: 0.1 % of all pixels lie below them, and 0.1 % above.

    Gray and RGB images have one window. Other numbers of channels have a window for each. Up to 64 training images are
    read, at equal distances in the list. None where none of them has more than 8 bits.
    """
    if train.arrays is not None:
        return None
    rows = np.linspace(0, len(train) - 1, min(MEASURED_IMAGES, len(train))).astype(np.int64).tolist()
    train.prepare(rows)
    found = []
    for row in rows:
        try:
            values = deep_values(train.encoded(row), train.name(row), channels)
        except ImageError:
            continue  # a damaged image is dealt with when it is read for training
        if values is not None and (channels in (1, COLORS) or len(values) == channels):
            step = max(1, min(values.shape[1:]) // 256)
            found.append(values[:, ::step, ::step].astype(np.float64).reshape(len(values), -1))
    if not found:
        return None
    if channels in (1, COLORS):
        return _window(np.concatenate([values.ravel() for values in found]))
    windows = [_window(np.concatenate([values[channel] for values in found])) for channel in range(channels)]
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
