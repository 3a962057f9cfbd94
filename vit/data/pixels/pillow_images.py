"""What Pillow's 8 bits of sRGB do not hold: values of 16 bits, and colors of embedded ICC profiles

Of 16 bits for each color Pillow reads the upper 8. Networks are trained on numbers that mean sRGB, and a photograph in
Display P3 or Adobe RGB has other numbers for the same colors. So such colors become those of sRGB, by Pillow's ImageCms
(LittleCMS). A profile that is damaged, or of other colors than its image, is ignored, as viewers do.
"""

import io
import re
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageCms
from torch import Tensor

from vit.data.pixels.planes import DARKEST, ValuesError
from vit.data.pixels.preprocess import COLORS
from vit.errors import install
from vit.registry import has_extra

BITS_TAG, SAMPLE_FORMAT_TAG = 258, 339  # of TIFF

_SIXTEEN_BITS = 65_535
_DEEP_COLOR = re.compile(r"(?<!BGR);16")  # of Pillow's raw modes; BGR;16 is 16 bits for all three colors
MAX_PROFILE_BYTES = 2**23  # of CMYK printers they have 0.5 to 3 MB
_SAME = 2  # levels of 255: rounding, and the tables of different sRGB profiles, differ by as much
_MODES = {b"RGB ": "RGB", b"GRAY": "L", b"CMYK": "CMYK"}  # color space in the header of a profile -> Pillow's mode
_FITTING = {  # Pillow's mode of a profile -> modes of images that have such colors
    "RGB": ("RGB", "RGBA", "RGBX", "RGBa", "P", "PA"),
    "L": ("L", "LA", "La"),
    "CMYK": ("CMYK",),
}
_SPACE, _HEADER_BYTES = slice(16, 20), 128


def is_deep(image: Image.Image) -> bool:
    """Whether the pixels are gray values of more than 8 bits."""
    return image.mode in ("I", "F") or image.mode.startswith("I;16")


def gray_values(image: Image.Image) -> npt.NDArray[Any]:
    """The values (H, W) of an image that `is_deep`, as they stand in its file."""
    values = np.asarray(image)
    if image.mode.startswith("I;16"):
        return values.astype(np.uint16)
    tags = getattr(image, "tag_v2", {})
    # Pillow has no unsigned integers of 32 bits: it keeps their bits, and 2^31 becomes -2^31
    is_unsigned = tags.get(BITS_TAG) == (32,) and tags.get(SAMPLE_FORMAT_TAG, (1,)) == (1,)
    return values.view(np.uint32) if image.mode == "I" and is_unsigned else values


def has_deep_color(image: Image.Image) -> bool:
    """Whether a file has 16 bits for each color, of which Pillow reads the upper 8. Must be asked before loading."""
    if is_deep(image):
        return False
    tiles = getattr(image, "tile", ())
    if image.format == "PPM":  # Pillow scales a smaller range than that of 16 bits to 8
        return any((tile[0], tile[3]) == ("ppm", ("RGB", _SIXTEEN_BITS)) for tile in tiles)
    return any(_DEEP_COLOR.search(str(tile[3])) for tile in tiles)


def check_high_bytes(image: Image.Image) -> None:
    """Raise ValuesError where the upper 8 of 16 bits for a color, which Pillow reads, leave an image almost black."""
    if image.mode not in ("RGB", "RGBA"):  # in CMYK low values are bright
        return
    pixels = np.asarray(image)
    seen = pixels[pixels[:, :, COLORS] > 0] if pixels.shape[2] > COLORS else pixels
    end = 256 * (int(seen[..., :COLORS].max(initial=0)) + 1)
    if len(seen) and end <= DARKEST:
        reads = "" if has_extra("TIFF") else f"; to read that: {install('tiff')}"
        fix = f"save it as a TIFF without transparency{reads}"
        raise ValuesError(f"16-bit values below {end:,} of 65,535 would be almost black without a window; {fix}")


@lru_cache(maxsize=16)
def _transform(profile: bytes) -> "ImageCms.ImageCmsTransform | None":
    """The conversion from a profile to sRGB; None where there is none, or where it changes nothing."""
    mode = _MODES.get(profile[_SPACE])
    if mode is None or not _HEADER_BYTES < len(profile) <= MAX_PROFILE_BYTES:
        return None
    try:
        embedded = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(embedded, ImageCms.createProfile("sRGB"), mode, "RGB")
        steps = np.arange(0, 256, 15, dtype=np.uint8)
        probe = np.stack(np.meshgrid(*[steps] * 3), axis=-1).reshape(-1, len(steps), 3)
        if mode == "L":
            probe = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
        if mode == "CMYK":
            return transform
        seen = np.asarray(_apply(transform, Image.fromarray(probe)))
        return None if np.ptp([probe, seen], axis=0).max() <= _SAME else transform
    except Exception:  # noqa: BLE001  an untrusted profile may raise anything
        return None


def _apply(transform: "ImageCms.ImageCmsTransform", image: Image.Image) -> Image.Image:
    """An image in sRGB, without transparency. `transform` decides the mode that it needs."""
    if transform.input_mode == "L":
        image = image.getchannel(0)
    elif image.mode != transform.input_mode:
        image = (image.convert("RGBA") if image.mode in ("RGBa", "PA") else image).convert("RGB")
    converted = transform.apply(image)
    assert converted is not None
    return converted


def _transform_of(image: Image.Image) -> "ImageCms.ImageCmsTransform | None":
    """The conversion from the profile of an image; None where it has none, or one of other colors."""
    profile = image.info.get("icc_profile")
    transform = _transform(profile) if isinstance(profile, bytes) else None
    return transform if transform is not None and image.mode in _FITTING[transform.input_mode] else None


def image_in_srgb(image: Image.Image) -> Image.Image | None:
    """Pillow's image in sRGB, mode "RGB" without transparency; None where no profile changes its colors."""
    transform = _transform_of(image)
    return None if transform is None else _apply(transform, image)


def pixels_in_srgb(pixels: Tensor, image: Image.Image) -> Tensor:
    """Pixels (3, H, W) uint8 that another decoder read of Pillow's image, as sRGB."""
    transform = _transform_of(image)
    if transform is None:
        return pixels
    colors = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    return torch.from_numpy(np.array(_apply(transform, colors))).permute(2, 0, 1)
