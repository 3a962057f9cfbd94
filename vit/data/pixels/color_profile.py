"""Embedded ICC profiles: colors become those of sRGB, as viewers show them, by Pillow's ImageCms (LittleCMS)

Networks are trained on numbers that mean sRGB. A photograph in Display P3 or Adobe RGB has other numbers for the same
colors. A profile that is damaged, or of other colors than its image, is ignored, as viewers do.
"""

import io
from functools import lru_cache

import numpy as np
import torch
from PIL import Image, ImageCms
from torch import Tensor

MAX_PROFILE_BYTES = 2**23  # of CMYK printers they have 0.5 to 3 MB
_SAME = 2  # levels of 255: rounding, and the tables of different sRGB profiles, differ by as much
_MODES = {b"RGB ": "RGB", b"GRAY": "L", b"CMYK": "CMYK"}  # color space in the header of a profile -> Pillow's mode
_FITTING = {  # Pillow's mode of a profile -> modes of images that have such colors
    "RGB": ("RGB", "RGBA", "RGBX", "RGBa", "P", "PA"),
    "L": ("L", "LA", "La"),
    "CMYK": ("CMYK",),
}
_SPACE, _HEADER_BYTES = slice(16, 20), 128


@lru_cache(maxsize=16)
def _transform(profile: bytes) -> "ImageCms.ImageCmsTransform | None":
    """The conversion from a profile to sRGB; None where there is none, or where it changes nothing."""
    mode = _MODES.get(profile[_SPACE])
    if mode is None or not _HEADER_BYTES < len(profile) <= MAX_PROFILE_BYTES:
        return None
    try:
        own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(own, ImageCms.createProfile("sRGB"), mode, "RGB")
        steps = np.arange(0, 256, 15, dtype=np.uint8)
        probe = np.stack(np.meshgrid(*[steps] * 3), axis=-1).reshape(-1, len(steps), 3)
        if mode == "L":
            probe = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
        is_same = (
            mode != "CMYK"
            and np.ptp([probe, np.asarray(_apply(transform, Image.fromarray(probe)))], axis=0).max() <= _SAME
        )
    except Exception:  # noqa: BLE001  an untrusted profile may raise anything
        return None
    return None if is_same else transform


def _apply(transform: "ImageCms.ImageCmsTransform", image: Image.Image) -> Image.Image:
    """An image in sRGB, without transparency. `transform` decides the mode that it needs."""
    if transform.input_mode == "L":
        image = image.getchannel(0)
    elif image.mode != transform.input_mode:
        image = (image.convert("RGBA") if image.mode in ("RGBa", "PA") else image).convert("RGB")
    found = transform.apply(image)
    assert found is not None
    return found


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
