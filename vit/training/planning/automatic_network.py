"""The ViT for images of a size, where a recipe chooses no network, and a CNN to compare with it"""

import numpy as np

from vit.data.core.formats import is_tiff
from vit.data.core.image_bytes import ImageError
from vit.data.core.image_header import header_size, no_warnings
from vit.data.core.samples import Samples

FOR_PHOTOGRAPHS = "vit_tiny_patch16_224"
CNN_BESIDE = {  # of 0.6 to 1.3 times the parameters with `SMALLER`, and a third to the same number of FLOPs
    "vit_nano_patch2_8": "resnet10_small",
    "vit_mini_patch4_28": "resnet10_small",
    FOR_PHOTOGRAPHS: "tf_efficientnet_lite0",
}
SMALLER = {"vit_nano_patch2_8": " --model.network.widths=[12,24,48,96]"}  # of the CNN: 0.18 instead of 1.24 million
_LARGEST_OF_NANO, _LARGEST_OF_MINI = 16, 64  # pixels
_LOOKED_AT = 20  # images


def automatic_network(train: Samples, channels: int | None) -> tuple[str, int | None]:
    """The name of a ViT for the typical size of training images, and the image size if it is not the network's own.

    It is found without torch, but for TIFF files that Pillow does not read.

    Args:
        channels: number of their channels; None: three colors.
    """
    side = _typical_side(train, channels or 3)
    if side <= _LARGEST_OF_NANO:
        return "vit_nano_patch2_8", max(8, side - side % 2)
    if side <= _LARGEST_OF_MINI:
        return "vit_mini_patch4_28", side - side % 4
    return FOR_PHOTOGRAPHS, None


def _typical_side(train: Samples, channels: int) -> int:
    """The median shorter side of up to 20 training images, in pixels."""
    rows = list(map(int, np.linspace(0, len(train) - 1, min(_LOOKED_AT, len(train)))))
    if train.arrays is not None:
        return int(np.median([min(train.arrays[row].shape[:2]) for row in rows]))
    sides = []
    for row in rows:
        try:
            sides.append(_side(train.encoded(row), train.name(row), channels))
        except Exception:  # noqa: BLE001, S112  a broken image is dealt with when it is read for training
            continue
    return int(np.median(sides)) if sides else 224


def _side(data: bytes, name: str, channels: int) -> int:
    """The shorter side of an image in pixels, by its header; a TIFF that Pillow does not read is read whole."""
    with no_warnings:
        try:
            return min(header_size(data, name))
        except ImageError:
            if not is_tiff(data):
                raise

        from vit.data.pixels.planes import format_reader

        return min(format_reader("TIFF").read(data, name, None, channels).values.shape[1:])
