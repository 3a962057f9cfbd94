"""The ViT for images of a size, where a recipe chooses no network, and a CNN to compare with it"""

import numpy as np

from vit.data.decode import decode_image, deep_values
from vit.data.preprocess import COLORS, Decoding
from vit.data.samples import Samples

FOR_PHOTOGRAPHS = "vit_tiny_patch16_224"
CNN_BESIDE = {  # vit_nano_patch2_8 has a seventh of its parameters, the others have 0.9 to 1.2 times as many
    "vit_nano_patch2_8": "resnet10_small",
    "vit_mini_patch4_28": "resnet10_small",
    FOR_PHOTOGRAPHS: "tf_efficientnet_lite0",
}
_LARGEST_OF_NANO, _LARGEST_OF_MINI = 16, 64  # pixels
_LOOKED_AT = 20  # images


def automatic_network(train: Samples, channels: int | None) -> tuple[str, int | None]:
    """The name of a ViT for the typical size of training images, and the image size if it is not the network's own.

    Args:
        train: the training images.
        channels: number of their channels; None: three colors.
    """
    side = _typical_side(train, channels or COLORS)
    if side <= _LARGEST_OF_NANO:
        return "vit_nano_patch2_8", max(8, side - side % 2)
    if side <= _LARGEST_OF_MINI:
        return "vit_mini_patch4_28", side - side % 4
    return FOR_PHOTOGRAPHS, None


def _typical_side(train: Samples, channels: int) -> int:
    """The median shorter side of up to 20 training images, in pixels."""
    rows = np.linspace(0, len(train) - 1, min(_LOOKED_AT, len(train))).astype(np.int64)
    if train.arrays is not None:
        return int(np.median([min(train.arrays[row].shape[:2]) for row in rows]))
    sides = []
    for row in rows:
        try:
            sides.append(_side(train.encoded(int(row)), train.name(int(row)), channels))
        except Exception:  # noqa: BLE001, S112  a broken image is dealt with when it is read for training
            continue
    return int(np.median(sides)) if sides else 224


def _side(data: bytes, name: str, channels: int) -> int:
    """The shorter side of an image in pixels. Values of more than 8 bits need no window for it."""
    values = deep_values(data, name, channels)
    return min((decode_image(data, name, Decoding(channels=channels)) if values is None else values).shape[1:])
