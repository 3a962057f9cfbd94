"""The window of gray values that training images of more than 8 bits need"""

import numpy as np

from vit.data.decode import deep_gray
from vit.data.image_bytes import ImageError
from vit.data.preprocess import Window
from vit.data.samples import Samples

MEASURED_IMAGES = 64
BEYOND = 0.1  # % of all pixels that are darker than the window, and % that are brighter


def measured_window(train: Samples) -> Window | None:
    """The gray values that become black and white: 0.1 % of all pixels lie below them, and 0.1 % above.

    Up to 64 training images are read, at equal distances in the list, and at most about 256 to 512 pixels of each side.

    Returns:
        None where none of these images has more than 8 bits.

    Raises:
        DataError: images of shards or other machines cannot be read at all.
    """
    if train.arrays is not None:
        return None
    rows = np.linspace(0, len(train) - 1, min(MEASURED_IMAGES, len(train))).astype(np.int64).tolist()
    train.prepare(rows)
    found = []
    for row in rows:
        try:
            values = deep_gray(train.encoded(row), train.name(row))
        except ImageError:
            continue  # a damaged image is dealt with when it is read for training
        if values is not None:
            step = max(1, min(values.shape) // 256)
            found.append(values[::step, ::step].astype(np.float64).ravel())
    if not found:
        return None
    pixels = np.concatenate(found)
    pixels = pixels[np.isfinite(pixels)]
    if not len(pixels):
        return None
    low, high = (float(f"{value:.4g}") for value in np.percentile(pixels, (BEYOND, 100 - BEYOND)))
    return (low, high) if low < high else (low, low + 1)
