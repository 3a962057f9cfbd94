"""What Pillow's 8 bits of sRGB do not hold: values of 16 bits, and colors of embedded ICC profiles

Of 16 bits for each color Pillow reads the upper 8. Networks are trained on numbers that mean sRGB, and a photograph in
Display P3 or Adobe RGB has other numbers for the same colors. So such colors become those of sRGB, by Pillow's ImageCms
(LittleCMS). A profile that is damaged, or of other colors than its image, is ignored, as viewers do.
"""

import io
import re
import sys
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageCms
from torch import Tensor

from vit.data.pixels.planes import DARKEST, ValuesError
from vit.data.pixels.preprocess import COLORS
from vit.data.registry import has_extra
from vit.errors import install

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


def deep_colors(data: bytes) -> npt.NDArray[np.uint16]:
    """All 16 bits of the colors of a sound PNG (H, W, 3), or with alpha (H, W, 4). Pillow reads 8 bits at a time."""

    def read(raw_mode: str) -> npt.NDArray[np.uint16]:
        image = Image.open(io.BytesIO(data), formats=("PNG",))
        image.tile = [tile._replace(args=raw_mode) for tile in image.tile]
        return np.asarray(image).astype(np.uint16)

    mode = str(Image.open(io.BytesIO(data), formats=("PNG",)).tile[0].args).removesuffix(";16B")
    if mode == "LA":
        parts = read("RGBA")  # the two bytes of gray, and the two of alpha
        gray, alpha = parts[..., 0] << 8 | parts[..., 1], parts[..., 2] << 8 | parts[..., 3]
        return np.stack((gray, gray, gray, alpha), axis=2)
    return np.asarray(read(f"{mode};16B") << 8 | read(f"{mode};16L"), np.uint16)  # the first and the second byte


def check_high_bytes(image: Image.Image, data: bytes | None) -> None:
    """Raise ValuesError where the upper 8 of 16 bits for a color leave an image almost black.

    Without the file's bytes, an image whose upper bytes are all 0 counts as black.
    """
    if image.mode not in ("RGB", "RGBA"):  # in CMYK low values are bright
        return
    end = 256 * (_brightest(np.asarray(image)) + 1)
    if end == 256 or image.format == "PPM":  # whose 16 bits Pillow rounds to 8
        whole = None if data is None else _all_bits(image, data)
        if whole is not None:
            end = _brightest(whole) + 1
        elif end == 256:
            end = 1
    if 1 < end <= DARKEST:
        reads = "" if has_extra("TIFF") else f"; to read that: {install('tiff')}"
        fix = f"save it as a TIFF without transparency{reads}"
        raise ValuesError(f"16-bit values below {end:,} of 65,535 would be almost black without a window; {fix}")


def _all_bits(image: Image.Image, data: bytes) -> npt.NDArray[np.integer] | None:
    """All bits of the colors of a PNG or a PPM, or the lower 8 of those of a TIFF; None for other formats."""
    if image.format == "PNG":
        return deep_colors(data)
    again = Image.open(io.BytesIO(data), formats=(image.format or "",))
    if image.format == "PPM":
        values = np.frombuffer(data, ">u2", again.width * again.height * COLORS, again.tile[0].offset)
        return values.reshape(again.height, again.width, COLORS)
    if image.format != "TIFF":
        return None
    again.tile = [tile._replace(args=_lower(tile.args)) for tile in again.tile]
    return np.asarray(again)


def _lower(args: tuple[Any, ...] | str | None) -> tuple[Any, ...] | str:
    """The arguments of a TIFF's tile with which Pillow reads the lower 8 of 16 bits as pixels."""
    raw_mode, *others = args if isinstance(args, tuple) else (args,)
    native = "B" if sys.byteorder == "little" else "L"
    mode, _, order = str(raw_mode).rpartition(";16")
    lower_mode = f"{mode};16{({'L': 'B', 'B': 'L'}).get(order, native)}"
    return (lower_mode, *others) if isinstance(args, tuple) else lower_mode


def _brightest(pixels: npt.NDArray[np.integer]) -> int:
    """The highest color among the visible pixels of RGB or RGBA (H, W, C)."""
    seen = pixels[pixels[:, :, COLORS] > 0] if pixels.shape[2] > COLORS else pixels
    return int(seen[..., :COLORS].max(initial=0))


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
