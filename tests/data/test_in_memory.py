"""PIL images of several frames: the frame that the caller chose, and an image that stays as it was."""

import io

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from tests.science_files import tiff
from vit.data.pixels.decode import decode_image
from vit.data.pixels.images import has_frames, pixels_of

COLORS = ((255, 0, 0), (0, 255, 0), (0, 0, 255))
pillow_heif.register_heif_opener()


def several(kind: str) -> bytes:
    """Three frames, each of one color; of a GIF with a transparent corner."""
    frames = [Image.new("RGBA" if kind == "GIF" else "RGB", (16, 16), color) for color in COLORS]
    if kind == "GIF":
        for frame in frames:
            frame.putpixel((0, 0), (0, 0, 0, 0))
    buffer = io.BytesIO()
    options = {"GIF": {"disposal": 2}, "WEBP": {"lossless": True}, "AVIF": {"quality": 100}}.get(kind, {})
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], **options)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF", "MPO", "AVIF", "HEIF"])
def test_the_frame_that_an_image_shows_is_read_and_the_image_stays_there(kind: str) -> None:
    image = Image.open(io.BytesIO(several(kind)))
    for frame in (2, 0, 1):
        image.seek(frame)
        shown = np.asarray(image.convert("RGB"))[8, 8]
        for _ in range(2):
            assert np.abs(pixels_of(image, "x")[:, 8, 8].numpy().astype(int) - COLORS[frame]).max() <= 3
        assert image.tell() == frame and np.array_equal(np.asarray(image.convert("RGB"))[8, 8], shown)
        if kind == "GIF":
            assert pixels_of(image, "x")[:, 0, 0].tolist() == [255, 255, 255]
    assert has_frames(image)
    first = decode_image(several(kind))[:, 8, 8].numpy().astype(int)  # the rule of files
    assert np.abs(first - COLORS[0]).max() <= 3


def test_the_page_of_a_deep_tiff_is_read() -> None:
    pages = np.stack([np.full((8, 8), level, np.uint16) for level in (0, 32_768, 65_535)])
    image = Image.open(io.BytesIO(tiff(pages, photometric="minisblack", metadata=None)))
    for page, level in enumerate((0, 128, 255)):
        image.seek(page)
        assert pixels_of(image, "x").unique().tolist() == [level] and image.tell() == page


def test_images_of_one_frame_have_no_frames() -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "GIF")
    with Image.open(buffer) as image:
        assert not has_frames(image)
    closed = Image.open(io.BytesIO(several("GIF")))
    closed.close()
    assert not has_frames(closed) and not has_frames(Image.new("L", (4, 4))) and not has_frames(np.zeros((4, 4)))
