"""The ViT for images of a size, where a recipe chooses no network, and a CNN to compare with it"""

from io import BytesIO

import numpy as np
from PIL import Image

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

    Args:
        channels: number of their channels; None: three colors.
    """
    from vit.data.pixels.preprocess import COLORS

    side = _typical_side(train, channels or COLORS)
    if side <= _LARGEST_OF_NANO:
        return "vit_nano_patch2_8", max(8, side - side % 2)
    if side <= _LARGEST_OF_MINI:
        return "vit_mini_patch4_28", side - side % 4
    return FOR_PHOTOGRAPHS, None


def surely_photographs(train: Samples) -> bool:
    """Whether `automatic_network` takes the network for photographs, by the heads of files and without torch."""
    if train.arrays is not None:
        return False
    try:
        sizes = [Image.open(BytesIO(train.encoded(row))).size for row in _looked_at(train)]
    except Exception:  # noqa: BLE001  an image of another kind, which `automatic_network` may be able to read
        return False
    return bool(np.median([min(size) for size in sizes]) > _LARGEST_OF_MINI)


def _looked_at(train: Samples) -> list[int]:
    """The rows of images that stand for all."""
    return list(map(int, np.linspace(0, len(train) - 1, min(_LOOKED_AT, len(train)))))


def _typical_side(train: Samples, channels: int) -> int:
    """The median shorter side of up to 20 training images, in pixels."""
    rows = _looked_at(train)
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
    """The shorter side of an image in pixels. Values of more than 8 bits need no window for it."""
    from vit.data.pixels.decode import decode_image, deep_values
    from vit.data.pixels.preprocess import Decoding

    values = deep_values(data, name, channels)
    return min((decode_image(data, name, Decoding(channels=channels)) if values is None else values).shape[1:])
