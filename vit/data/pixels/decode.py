"""Files -> upright uint8 tensors: the one decoder of training, evaluation, prediction and export.

Files are untrusted. Before pixels are decoded, `image_bytes` checks that the path is a regular file. Then Pillow reads
the header, which must have an allowed format and a size within the limits.

JPEG pixels come from torchvision, which is 1.8 times as fast as Pillow and equal to 2 gray levels. Other formats come
from Pillow, because torchvision's PNG decoder crashes the process on damaged files. No other program ever runs.
Animated and multi-page files give their first frame. HEIC photographs come from pillow-heif, an extra.
So do TIFF files of many channels (tifffile) and DICOM images (pydicom).
"""

import io
import os
import re
from contextlib import suppress
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg

from vit.data.core.image_bytes import ImageError as ImageError
from vit.data.core.image_bytes import ImageReader, damage, read_bytes
from vit.data.core.image_files import is_dicom, is_tiff
from vit.data.core.image_header import DESCRIPTION_TAG, check_size, has_channel_axis, no_warnings, opened
from vit.data.pixels.pillow_images import (
    BITS_TAG,
    SAMPLE_FORMAT_TAG,
    check_high_bytes,
    gray_values,
    has_deep_color,
    image_in_srgb,
    is_deep,
    pixels_in_srgb,
)
from vit.data.pixels.planes import (
    ORIENTATION_TAG,
    FormatReader,
    Planes,
    ValuesError,
    as_pixels,
    format_reader,
    with_channels,
)
from vit.data.pixels.preprocess import COLORS, Decoding, Window
from vit.errors import install
from vit.registry import has_extra

BACKGROUND = 255  # white, below transparent pixels

_PHOTOMETRIC_TAG, _WHITE_IS_ZERO = 262, 0
_SAMPLES_TAG = 277
_SIGNED = 2  # sample format
_INVISIBLE = "all pixels are transparent; save it without transparency if it has a picture"
_USUAL = Decoding()
_SOURCE = re.compile(r"^\w+, \S+\.cpp:\d+, ")  # "decode_jpeg, /.../decode_jpeg.cpp:171, Image is incomplete"


def read_image(path: str | os.PathLike[str], decoding: Decoding = _USUAL, reader: ImageReader | None = None) -> Tensor:
    """Decode a file: (C, H, W) uint8, upright, alpha over white.

    The three colors of a pixel usually lie side by side in memory, as decoders write them. A resize reads them so.

    Args:
        decoding: see `Preprocess`. With 1 channel, colors become gray. Otherwise the file must have as many channels.
        reader: reads the image where it is not a file; None: a file.

    Raises:
        ImageError: the file is missing or not regular, or as for `decode_image`.
    """
    data = read_bytes(path) if reader is None else reader.read(os.fspath(path))
    return decode_image(data, path, decoding)


def decode_image(data: bytes, path: str | os.PathLike[str] = "<bytes>", decoding: Decoding = _USUAL) -> Tensor:
    """Decode the bytes of a file as `read_image` does: (C, H, W) uint8, upright, alpha over white.

    Raises:
        ImageError: the bytes are not an image, damaged, or larger than the limits; or have other channels.
    """
    with no_warnings:  # readers warn of odd metadata, which do not matter here
        reader = _reader_of(data, path, decoding.window, decoding.channels)
        if reader is None:
            pixels = _decoded(data, path, decoding)
        else:
            planes = reader.read(data, path, decoding.window, decoding.channels)
            try:
                pixels = _turned(as_pixels(planes, decoding.window), planes.orientation)
            except ValuesError as error:
                raise ImageError(path, "unreadable", str(error)) from error
            if len(pixels) == COLORS and is_tiff(data) and decoding.converts and decoding.window is None:
                with suppress(ImageError):  # a kind that Pillow does not read
                    pixels = pixels_in_srgb(pixels, opened(data, path))
        return with_channels(pixels, decoding.channels, path)


def _reader_of(data: bytes, path: str | os.PathLike[str], window: Window | None, channels: int) -> FormatReader | None:
    """What reads a DICOM, or a TIFF that Pillow does not read as it is; None: Pillow reads the file.

    ImageError where the extra is not installed.
    """
    if is_dicom(data):
        if not has_extra("DICOM"):
            raise ImageError(path, "not_image", f"a DICOM image; to read it: {install('dicom')}")
        return format_reader("DICOM")
    lost = _lost_by_pillow(data, window, channels) if is_tiff(data) else None
    if lost is None:
        return None
    if not has_extra("TIFF"):
        raise ImageError(path, "unreadable", f"{lost}; to read it: {install('tiff')}")
    return format_reader("TIFF")


def _lost_by_pillow(data: bytes, window: Window | None, channels: int) -> str | None:
    """What in a TIFF Pillow cannot keep, in words; None where Pillow keeps all."""
    if channels not in (1, COLORS):
        return f"a TIFF for {channels} channels"
    try:
        image = Image.open(io.BytesIO(data), formats=("TIFF",))
    except Image.DecompressionBombError:
        return None
    except Exception:  # noqa: BLE001  an untrusted header may raise anything
        return "a TIFF of a kind that Pillow does not read"
    tags = getattr(image, "tag_v2", {})
    samples = tags.get(_SAMPLES_TAG, 1)
    if image.mode == "RGBX" or samples != len(image.getbands()):
        return f"a TIFF of {samples} channels"
    if samples == 1 and has_channel_axis(tags.get(DESCRIPTION_TAG)):
        return "a TIFF of several channels"  # Pillow takes the page of the first one for all
    if _SIGNED in tags.get(SAMPLE_FORMAT_TAG, ()) and max(tags.get(BITS_TAG, (8,))) == 8:
        return "a TIFF of 8 bits with a sign"  # Pillow takes -1 for 255
    keeps_high_byte = has_deep_color(image)
    # Pillow takes both bytes as pixels where colors lie one after the other
    misreads = not keeps_high_byte and len(image.getbands()) > 1 and max(tags.get(BITS_TAG, (8,))) > 8
    if misreads or (keeps_high_byte and has_extra("TIFF") and (window is not None or image.mode == "RGB")):
        return "a TIFF of 16 bits for a color"
    return None


def _decoded(data: bytes, path: str | os.PathLike[str], decoding: Decoding) -> Tensor:
    """The pixels of any other format (3, H, W) uint8."""
    with no_warnings:
        image = opened(data, path)
        if image.format != "JPEG" or image.mode not in ("L", "RGB"):
            return from_pillow(image, path, decoding)
        with damage(partial(_damaged, image, path)):
            pixels = decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)
            return _turned(pixels_in_srgb(pixels, image) if decoding.converts else pixels, orientation_of(image))


def deep_values(
    data: bytes, path: str | os.PathLike[str] = "<bytes>", channels: int = COLORS
) -> npt.NDArray[np.generic] | None:
    """The values of an image of more than 8 bits, (C, H, W) as they stand in its file; None for other images.

    A DICOM image that has a window of its own is one of the others. Gray values have one channel. ImageError as for
    `decode_image`.
    """
    with no_warnings:
        reader = _reader_of(data, path, None, channels)
        if reader is not None:
            planes = reader.read(data, path, None, channels)
            return planes.values if planes.is_deep and (planes.window is None or not is_dicom(data)) else None
        image = opened(data, path)
        if not is_deep(image):
            return None
        with damage(partial(_damaged, image, path)):
            return gray_values(image)[None]


def check_header(data: bytes, path: str | os.PathLike[str]) -> None:
    """Raise ImageError if the bytes do not begin as an image within the limits. No pixel is decoded."""
    with no_warnings:
        reader = _reader_of(data, path, None, COLORS)
        if reader is None:
            opened(data, path)
        else:
            reader.header_size(data, path)


def orientation_of(image: Image.Image) -> int:
    """The EXIF orientation of an image, from 1 to 8; other values mean 1, as damaged metadata do."""
    with suppress(Exception):
        return int(image.getexif().get(ORIENTATION_TAG, 1))
    return 1


def _turned(pixels: Tensor, orientation: int) -> Tensor:
    """Pixels (C, H, W) that lie as EXIF's orientation says, upright. Other numbers than 1 to 8 are ignored.

    Upright pixels keep their order in memory: a copy would cost a third of the time that their decoder takes.
    """
    if orientation in (5, 6, 7, 8):
        pixels = pixels.transpose(1, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels.flip(2)
    if orientation in (3, 4, 7, 8):
        pixels = pixels.flip(1)
    return pixels


def from_pillow(image: Image.Image, path: str | os.PathLike[str], decoding: Decoding = _USUAL) -> Tensor:
    """Decode Pillow's image, whose size is within the limits: (3, H, W) uint8, upright, alpha over white.

    An image of several frames gives the one that it shows. `opened` shows the first, and of a HEIC the primary picture.
    ImageError where it is damaged.
    """
    with no_warnings, damage(partial(_damaged, image, path)):
        is_cut = has_deep_color(image)
        if decoding.window is not None and is_cut:
            raise ImageError(path, "unreadable", "16 bits for a color; a window needs gray values")
        if is_cut and isinstance(image.info.get("transparency"), tuple):  # Pillow looks for 16 bits among 8
            raise ImageError(path, "unreadable", "16 bits for a color, and a transparent color; save it as RGBA")
        image.load()
        check_size(image.size, path)  # a HEIC may hold more pixels than its header says
        if is_cut:
            check_high_bytes(image)
        return _turned(_pixels(image, decoding), orientation_of(image))


def _damaged(image: Image.Image, path: str | os.PathLike[str], error: Exception) -> ImageError:
    """The problem in one line, without the place in torchvision's source that it begins with."""
    if isinstance(error, ValuesError):
        return ImageError(path, "unreadable", str(error))
    reason = _SOURCE.sub("", (str(error) or type(error).__name__).splitlines()[0])[:200]
    return ImageError(path, "unreadable", f"damaged {image.format or 'image'}: {reason}")


def _pixels(image: Image.Image, decoding: Decoding) -> Tensor:
    """Pillow's pixels as (3, H, W) uint8, with gray levels of more than 8 bits scaled to 8."""
    if not is_deep(image):
        return _color(image, image_in_srgb(image) if decoding.converts else None)
    values = gray_values(image)
    # Pillow inverts 8 bits alone
    is_inverted = getattr(image, "tag_v2", {}).get(_PHOTOMETRIC_TAG) == _WHITE_IS_ZERO
    gray = as_pixels(Planes(values[None], is_inverted=is_inverted), decoding.window)
    pixels = gray.expand(COLORS, -1, -1).contiguous()
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):  # of a PNG
        if (values == transparent).all():
            raise ValuesError(_INVISIBLE)
        pixels[:, torch.from_numpy(values == transparent)] = BACKGROUND
    return pixels


def _color(image: Image.Image, converted: Image.Image | None) -> Tensor:
    """A color or palette image over white, (3, H, W) uint8, with the colors that an embedded profile gives it."""
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        alpha = image.convert("RGBA").getchannel("A")
        if alpha.getextrema() == (0, 0):  # a BMP whose fourth byte is unused, as screenshots of Windows have it
            if image.format != "BMP":
                raise ValuesError(_INVISIBLE)
            alpha = Image.new("L", image.size, 255)
        image = converted or image.convert("RGBA")
        image.putalpha(alpha)
        background = Image.new("RGBA", image.size, (BACKGROUND, BACKGROUND, BACKGROUND, 255))
        image, converted = Image.alpha_composite(background, image), None
    image = converted or image
    array = np.array(image if image.mode == "RGB" else image.convert("RGB"))
    return torch.from_numpy(array).permute(2, 0, 1)
