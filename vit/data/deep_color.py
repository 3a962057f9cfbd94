"""Images of 16 bits for each color, of which Pillow reads the upper 8"""

import io
import re

import numpy as np
import numpy.typing as npt
from PIL import Image

from vit.data.formats import has_tifffile
from vit.data.planes import DARKEST, ValuesError
from vit.data.preprocess import COLORS
from vit.errors import install

_DEEP_COLOR = re.compile(r"(?<!BGR);16")  # of Pillow's raw modes; BGR;16 is 16 bits for all three colors


def is_deep(image: Image.Image) -> bool:
    """Whether the pixels are gray values of more than 8 bits."""
    return image.mode in ("I", "F") or image.mode.startswith("I;16")


def has_deep_color(image: Image.Image) -> bool:
    """Whether a file has 16 bits for each color, of which Pillow reads the upper 8. Must be asked before loading."""
    return not is_deep(image) and any(_DEEP_COLOR.search(str(tile[3])) for tile in getattr(image, "tile", ()))


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

    Args:
        data: the file's bytes. Without those of a PNG, an image whose upper bytes are all 0 counts as black.
    """
    if image.mode not in ("RGB", "RGBA"):  # in CMYK low values are bright
        return
    end = 256 * (_brightest(np.asarray(image)) + 1)
    if end == 256:
        end = 1 if data is None or image.format != "PNG" else _brightest(deep_colors(data)) + 1
    if 1 < end <= DARKEST:
        fix = "save it as a TIFF without transparency" + (
            "" if has_tifffile() else f"; to read that: {install('tiff')}"
        )
        raise ValuesError(f"16-bit values below {end:,} of 65,535 would be almost black without a window; {fix}")


def _brightest(pixels: npt.NDArray[np.integer]) -> int:
    """The highest color among the visible pixels of RGB or RGBA (H, W, C)."""
    seen = pixels[pixels[:, :, COLORS] > 0] if pixels.shape[2] > COLORS else pixels
    return int(seen[..., :COLORS].max(initial=0))
