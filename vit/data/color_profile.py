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
_COLOR_MODES = frozenset(("RGB", "RGBA", "RGBX", "RGBa", "P", "PA"))  # whose colors are RGB
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
    except Exception:  # noqa: BLE001  an untrusted profile may raise anything
        return None
    if mode == "CMYK":
        return transform
    steps = np.linspace(0, 255, 18).round().astype(np.uint8)
    probe = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 18, 3)
    if mode == "L":
        probe = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    seen = np.asarray(_apply(transform, Image.fromarray(probe)))
    return None if np.abs(seen.astype(int) - probe).max() <= _SAME else transform


def _apply(transform: "ImageCms.ImageCmsTransform", image: Image.Image) -> Image.Image:
    """An image in sRGB, without transparency. `transform` decides the mode that it needs."""
    if transform.input_mode == "L":
        image = image.getchannel(0)
    elif image.mode != transform.input_mode:
        image = (image.convert("RGBA") if image.mode in ("RGBa", "PA") else image).convert("RGB")
    found = transform.apply(image)
    assert found is not None
    return found


def image_in_srgb(image: Image.Image) -> Image.Image | None:
    """Pillow's image in sRGB, mode "RGB" without transparency; None where no profile changes its colors."""
    profile = image.info.get("icc_profile")
    transform = _transform(profile) if isinstance(profile, bytes) else None
    if transform is None:
        return None
    fits = {"L": ("L", "LA", "La"), "CMYK": ("CMYK",)}.get(transform.input_mode, _COLOR_MODES)
    return _apply(transform, image) if image.mode in fits else None


def pixels_in_srgb(pixels: Tensor, image: Image.Image) -> Tensor:
    """Pixels (3, H, W) uint8 that another decoder read of Pillow's image, as sRGB."""
    profile = image.info.get("icc_profile")
    transform = _transform(profile) if isinstance(profile, bytes) else None
    if transform is None or transform.input_mode != image.mode:
        return pixels
    colors = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    return torch.from_numpy(np.array(_apply(transform, colors))).permute(2, 0, 1)


def profile_name(image: Image.Image) -> str:
    """The name of the profile that `image_in_srgb` converts from; "" where it changes nothing."""
    profile = image.info.get("icc_profile")
    if not isinstance(profile, bytes) or _transform(profile) is None:
        return ""
    name = ImageCms.getProfileDescription(ImageCms.ImageCmsProfile(io.BytesIO(profile)))
    return " ".join(name.split())[:60] or "without a name"
