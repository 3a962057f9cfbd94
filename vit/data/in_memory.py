"""PIL images, arrays and tensors -> upright RGB uint8 tensors with alpha over white, as for files."""

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from vit.data.decode import check_size, from_pillow
from vit.data.preprocess import Window
from vit.errors import UsageError

InMemory = Image.Image | npt.NDArray[np.generic] | Tensor

TAKEN = "give a path, a PIL image, a uint8 array (H, W), (H, W, 3) or (H, W, 4), or a uint8 tensor (3, H, W)"


def name_of(image: InMemory, index: int) -> str:
    """The file of a PIL image, else its index."""
    return str(getattr(image, "filename", "")) or f"image {index}"


def pixels_of(image: InMemory, name: str, window: Window | None = None) -> Tensor:
    """One image as (3, H, W) uint8; `window` as for `read_image`.

    Raises:
        ImageError: a PIL image cannot be decoded, or the image is larger than the limits.
        UsageError: an array or tensor does not have the shape or the type of an image.
    """
    if isinstance(image, Image.Image):
        check_size(image.size, name)
        return from_pillow(image, name, window)
    if isinstance(image, Tensor):
        if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3):
            raise UsageError(f"{name} is a tensor {tuple(image.shape)} of {image.dtype}, not an image", TAKEN)
        check_size((image.shape[2], image.shape[1]), name)
        return image.detach().cpu().expand(3, -1, -1).contiguous()
    plane = image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image
    if plane.dtype != np.uint8 or plane.ndim not in (2, 3) or (plane.ndim == 3 and plane.shape[2] not in (3, 4)):
        raise UsageError(f"{name} is an array {image.shape} of {image.dtype}, not an image", TAKEN)
    check_size((plane.shape[1], plane.shape[0]), name)
    return from_pillow(Image.fromarray(np.ascontiguousarray(plane)), name)
