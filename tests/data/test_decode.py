"""Decoded pixels of each kind of file."""

import io
import re
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
import torch
from PIL import Image

from tests.science_files import deep_png, tiff
from vit import registry
from vit.data.core import image_header
from vit.data.core.image_files import has_image_extension
from vit.data.pixels.augment import Augment, ImageAugment
from vit.data.pixels.decode import ImageError, decode_image, read_image
from vit.data.pixels.preprocess import Decoding, Interpolation, Preprocess
from vit.errors import install

RED, BLUE = (255, 0, 0), (0, 0, 255)
# Inverse of the EXIF orientation: upright pixels (H, W, 3) -> stored pixels.
STORED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, 1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a, -1),
}

BEST = {  # the options of each format that change the fewest pixels
    "JPEG": {"quality": 100, "subsampling": 0},
    "WEBP": {"lossless": True},
    "AVIF": {"quality": 100, "subsampling": "4:4:4"},
    "HEIF": {"quality": -1, "chroma": 444},
}
pillow_heif.register_heif_opener()


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def picture(height: int = 16, width: int = 24) -> np.ndarray:
    """Blocks of 8x8 pixels in different colors, which JPEG hardly changes."""
    colors = np.random.default_rng(0).integers(0, 256, (-(-height // 8), -(-width // 8), 3), dtype=np.uint8)
    return colors.repeat(8, axis=0).repeat(8, axis=1)[:height, :width]


def decoded(data: bytes) -> np.ndarray:
    pixels = decode_image(data)
    assert pixels.dtype == torch.uint8
    return pixels.permute(1, 2, 0).numpy()


@pytest.mark.faults("I6")
@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP", "AVIF", "HEIF"])
def test_images_are_upright(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](picture())))
    found = decoded(encoded(stored, kind, exif=exif.tobytes(), **BEST.get(kind, {})))
    assert found.shape == (16, 24, 3)
    assert np.abs(found.astype(int) - picture()).max() <= {"JPEG": 4, "AVIF": 4, "HEIF": 4}.get(kind, 0)


def test_an_image_that_cannot_be_turned_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(pixels: torch.Tensor, orientation: int) -> torch.Tensor:
        raise MemoryError

    monkeypatch.setattr("vit.data.pixels.decode._turned", turned)
    with pytest.raises((ImageError, MemoryError)):
        decode_image(encoded(Image.fromarray(picture()), "JPEG"))


@pytest.mark.faults("I6")
@pytest.mark.parametrize("orientation", STORED)
def test_tiffs_of_channels_and_of_deep_colors_are_upright(orientation: int) -> None:
    """Files that tifffile reads, with and without a window of the model."""
    bands = np.concatenate([picture(), 255 - picture()[:, :, :1]], axis=2)
    deep = picture().astype(np.uint16) * 16
    tag = {"extratags": [(0x0112, "H", 1, orientation, True)]}
    for upright, window, options in (
        (bands, None, {"photometric": "minisblack", "planarconfig": "contig"}),
        (deep, (0, 255 * 16), {"photometric": "rgb"}),
        (deep * 16, None, {"photometric": "rgb"}),
    ):
        stored = np.ascontiguousarray(STORED[orientation](upright))
        found = decode_image(tiff(stored, **options, **tag), decoding=Decoding(window, channels=upright.shape[2]))
        expected = upright if upright.dtype == np.uint8 else picture()
        assert np.array_equal(found.permute(1, 2, 0).numpy(), expected)


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_the_order_of_pixels_in_memory_changes_no_input(orientation: int, interpolation: Interpolation) -> None:
    """The decoder leaves pixels where they lie; a copy in another order prepares to the same bits."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (61, 47, 3), dtype=np.uint8))
    pixels = decode_image(encoded(noise, "JPEG", exif=exif, quality=90))
    copied = pixels.clone(memory_format=torch.contiguous_format)
    for side in (16, 32, 80):
        preprocess = Preprocess(side, crop_fraction=0.875, interpolation=interpolation)
        crop = ImageAugment(Augment(crop=0.35), preprocess).crop
        for prepare in (preprocess, lambda picture, crop=crop: crop(picture, 7)):
            found = prepare(pixels)
            assert found.is_contiguous() and torch.equal(found, prepare(copied))


@pytest.mark.faults("I6", "I8")
def test_an_upright_cmyk_jpeg() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    page = Image.new("CMYK", (16, 8), (255, 0, 0, 0))
    page.paste((0, 0, 0, 255), (8, 0, 16, 8))
    found = decoded(encoded(page, "JPEG", exif=exif, quality=100)).astype(int)
    assert found.shape == (16, 8, 3)
    assert np.abs(found[:8] - (0, 255, 255)).max() <= 4
    assert found[8:].max() <= 4


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_damaged_metadata_leave_the_pixels(kind: str) -> None:
    data = encoded(Image.fromarray(picture()), kind, exif=b"Exif\0\0damaged metadata")
    assert decoded(data).shape == (16, 24, 3)


@pytest.mark.faults("I7")
def test_alpha_lies_over_white() -> None:
    rgba = Image.fromarray(np.array([[(255, 0, 0, 0), (255, 0, 0, 128), (255, 0, 0, 255)]], dtype=np.uint8))
    for kind in ("PNG", "TIFF", "WEBP"):
        lossless = {"lossless": True, "exact": True} if kind == "WEBP" else {}
        found = decoded(encoded(rgba, kind, **lossless)).astype(int)
        assert np.abs(found - [[(255, 255, 255), (255, 127, 127), (255, 0, 0)]]).max() <= 1
    gray = Image.fromarray(np.array([[(0, 0), (0, 128), (0, 255)]], dtype=np.uint8))
    assert gray.mode == "LA"
    assert np.abs(decoded(encoded(gray, "PNG")).astype(int)[0, :, 0] - (255, 127, 0)).max() <= 1


@pytest.mark.faults("I7")
def test_transparent_colors_are_white() -> None:
    palette = Image.new("P", (2, 1))
    palette.putpalette([*RED, *BLUE])
    palette.putdata([0, 1])
    for kind in ("PNG", "GIF"):
        assert decoded(encoded(palette, kind, transparency=0)).tolist() == [[[255, 255, 255], [0, 0, 255]]]
    assert decoded(encoded(palette, "PNG", transparency=b"\x80")).tolist() == [[[255, 127, 127], [0, 0, 255]]]
    rgb = Image.fromarray(np.array([[RED, BLUE]], dtype=np.uint8))
    assert decoded(encoded(rgb, "PNG", transparency=BLUE)).tolist() == [[[255, 0, 0], [255, 255, 255]]]
    gray = Image.fromarray(np.array([[7, 9]], dtype=np.uint8))
    assert decoded(encoded(gray, "PNG", transparency=7))[0, :, 0].tolist() == [255, 9]


@pytest.mark.faults("I7")
def test_a_transparent_gray_of_16_bits_is_white_and_its_neighbors_are_not() -> None:
    levels = np.array([[0, 0x1234, 0x1235], [0x3400, 0x12FF, 0x3412]], dtype=np.uint16)
    data = deep_png(levels[:, :, None], transparent=(0x1234,))
    assert decoded(data).tolist() == [[[v] * 3 for v in row] for row in ([0, 255, 0x12], [0x34, 0x12, 0x34])]
    with pytest.raises(ImageError, match="16 bits for a color, and a transparent color; save it as RGBA"):
        decode_image(deep_png(np.stack([levels] * 3, axis=2), transparent=(0x1234,) * 3))


@pytest.mark.faults("I7")
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP", "PPM"])
def test_one_bit_is_black_and_white(kind: str) -> None:
    bits = np.random.default_rng(0).random((9, 13)) > 0.5
    expected = (bits * np.uint8(255))[:, :, None].repeat(3, axis=2)
    assert np.array_equal(decoded(encoded(Image.fromarray(bits), kind)), expected)


@pytest.mark.faults("I8")
@pytest.mark.parametrize(("kind", "order"), [("PNG", "<u2"), ("TIFF", "<u2"), ("TIFF", ">u2"), ("PPM", "<u2")])
def test_sixteen_bit_gray_is_scaled(kind: str, order: str) -> None:
    levels = np.array([[0, 255, 256, 32_768, 65_279, 65_535]], dtype=order)
    assert decoded(encoded(Image.fromarray(levels), kind))[0].tolist() == [[v] * 3 for v in (0, 0, 1, 128, 254, 255)]


@pytest.mark.faults("I8")
def test_wide_integers_are_scaled_or_refused() -> None:
    def tiff(*values: int) -> bytes:
        return encoded(Image.fromarray(np.array([values], dtype=np.int32)), "TIFF")

    assert decoded(tiff(0, 65_535))[0, :, 0].tolist() == [0, 255]
    for value in (-1, 65_536):
        with pytest.raises(ImageError, match="32-bit"):
            decode_image(tiff(0, value))


@pytest.mark.faults("I8")
def test_floating_point_is_scaled_or_refused() -> None:
    def tiff(*values: float) -> bytes:
        return encoded(Image.fromarray(np.array([values], dtype=np.float32)), "TIFF")

    assert decoded(tiff(0, 0.5, 1))[0, :, 1].tolist() == [0, 127, 255]
    assert decoded(tiff(0, 100.2, 255))[0, :, 1].tolist() == [0, 100, 255]
    for values in ((0, 256), (-1, 1), (0, np.nan), (0, np.inf)):
        with pytest.raises(ImageError, match="floating-point") as caught:
            decode_image(tiff(*values))
        assert caught.value.kind == "unreadable"


@pytest.mark.parametrize("size", [(1, 1), (16, 24), (67, 101)])
@pytest.mark.parametrize("options", [{"quality": 95}, {"quality": 40, "subsampling": 2}, {"progressive": True}])
def test_jpegs_are_pillows_to_two_levels(size: tuple[int, int], options: dict[str, int]) -> None:
    ramp = np.add.outer(np.linspace(0, 150, size[0]), np.linspace(0, 100, size[1]))[:, :, None] * (1.0, 0.7, 0.3)
    for image in (Image.fromarray(ramp.astype(np.uint8)), Image.fromarray(ramp.astype(np.uint8)).convert("L")):
        data = encoded(image, "JPEG", **options)
        expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
        assert np.abs(decoded(data) - expected).max() <= 2


@pytest.mark.faults("I9")
@pytest.mark.parametrize("kind", ["GIF", "WEBP", "TIFF", "PNG", "MPO"])
def test_first_frame_of_many(kind: str) -> None:
    frames = [Image.new("RGB", (16, 16), color) for color in (RED, BLUE, BLUE)]
    options = {"lossless": True} if kind == "WEBP" else {}
    found = decoded(encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)).astype(int)
    assert np.abs(found - RED).max() <= 2


@pytest.mark.faults("I11")
@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "AVIF"])
def test_one_pixel(kind: str) -> None:
    found = decoded(encoded(Image.new("RGB", (1, 1), RED), kind, **BEST.get(kind, {}))).astype(int)
    assert found.shape == (1, 1, 3) and np.abs(found - RED).max() <= 2 * (kind == "AVIF")


def test_a_wrong_extension_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(encoded(Image.fromarray(picture()), "JPEG"))
    assert read_image(tmp_path / "photo.png").shape == (3, 16, 24)
    assert all(has_image_extension(Path(name)) for name in ("a.jpg", "b.JPEG", "c.d.Png", "e.tif"))
    assert not any(has_image_extension(Path(name)) for name in ("a", "jpg", "a.txt", "a.dng", "a.jpg.part", ".png"))
    assert all(has_image_extension(Path(name)) for name in ("a.heic", "b.HIF", "c.avif"))


def test_the_primary_picture_of_a_heic_is_read() -> None:
    file = pillow_heif.HeifFile()
    for color in (RED, BLUE):
        file.add_from_pillow(Image.new("RGB", (64, 64), color))
    buffer = io.BytesIO()
    file.save(buffer, primary_index=1, quality=90)
    assert np.abs(decoded(buffer.getvalue()).astype(int) - BLUE).max() <= 4


@pytest.mark.faults("I15")
@pytest.mark.parametrize("kind", ["AVIF", "HEIF"])
def test_a_damaged_avif_or_heic_is_one_error(kind: str) -> None:
    sound = encoded(Image.fromarray(picture(64, 64)), kind)
    for end in (16, 100, len(sound) // 2, len(sound) - 20):
        with pytest.raises(ImageError, match=r"damaged (AVIF|HEIC|HEIF)"):
            decode_image(sound[:end])


@pytest.mark.faults("I15")
def test_a_heic_without_its_reader_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.LIBRARIES, "HEIF", "not_installed")
    assert not has_image_extension(Path("a.heic")) and has_image_extension(Path("a.avif"))
    with pytest.raises(ImageError, match=re.escape(f"a HEIC photograph; to read it: {install('heif')}")):
        decode_image(encoded(Image.fromarray(picture()), "HEIF"))


SCAN_BYTES = b"\xff\xda" * 200  # in a JPEG, each is the marker of a scan


@pytest.mark.faults("I26")
@pytest.mark.parametrize("progressive", [False, True])
def test_bytes_behind_a_jpeg_and_in_its_metadata_are_not_scans(progressive: bool) -> None:
    """As the film of a motion photo: 8 MB have such bytes 127 times by chance."""
    still = encoded(Image.fromarray(picture()), "JPEG", progressive=progressive)
    comment = b"\xff\xfe" + (len(SCAN_BYTES) + 2).to_bytes(2) + SCAN_BYTES
    for content in (still + SCAN_BYTES, still[:2] + comment + still[2:], still[:2] + comment + still[2:] + SCAN_BYTES):
        assert np.array_equal(decoded(content), decoded(still))


@pytest.mark.faults("I5")
@pytest.mark.parametrize(
    "between",
    [
        b"",
        b"\x00\x01",  # bytes between segments, which libjpeg passes over
        b"\xff\xff",
        b"\xff\xd0\xff\x00",
        b"\xff\xfe\x00\x04\xff\xd9",  # an end inside a comment is not the end
        b"\xff\xfe\x00\x00",
    ],
)
def test_scans_are_counted_whatever_lies_between_them(between: bytes) -> None:
    still = encoded(Image.fromarray(picture()), "JPEG", progressive=True)
    last = between + still[still.rindex(b"\xff\xc4") : -2]
    assert np.array_equal(decoded(still[:-2] + last * 5 + still[-2:]), decoded(still))
    for behind in (b"", SCAN_BYTES):
        with pytest.raises(ImageError, match=f"scans in a JPEG; the limit is {image_header.MAX_SCANS}"):
            decoded(still[:-2] + last * image_header.MAX_SCANS + still[-2:] + behind)


@pytest.mark.faults("I5")
def test_a_jpeg_of_a_million_segments_is_refused() -> None:
    still = encoded(Image.fromarray(picture()), "JPEG")
    with pytest.raises(ImageError, match="too many segments"):
        decoded(still[:-2] + b"\xff\xfe\x00\x02" * 1_000_000 + still[-2:] + SCAN_BYTES)
