"""PIL images, arrays and tensors -> upright RGB uint8 tensors with alpha over white, as for files."""

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from vit.data.core.image_header import check_size
from vit.data.pixels.decode import from_pillow
from vit.data.pixels.planes import with_channels
from vit.data.pixels.preprocess import COLORS, Decoding
from vit.errors import UsageError

InMemory = Image.Image | npt.NDArray[np.generic] | Tensor

_USUAL = Decoding()
TAKEN = "give a path, a PIL image, a uint8 array (H, W), (H, W, 3) or (H, W, 4), or a uint8 tensor (3, H, W)"


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

    Raises:
        ImageError: a PIL image cannot be decoded, or the image is larger than the limits.
        UsageError: an array or tensor does not have the shape or the type of an image.
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
