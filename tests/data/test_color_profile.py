"""Colors of photographs with an embedded profile, against sRGB and against LittleCMS."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pillow_heif
import pytest
import torch
from PIL import Image, ImageCms, UnidentifiedImageError

from tests.color_profiles import ADOBE_RGB, DISPLAY_P3, PROPHOTO, SRGB, cmyk_profile, gray_profile, rgb_profile
from tests.science_files import tiff
from vit.checkpoints.format import _preprocess
from vit.commands.cli.recipe_options import parse_recipe
from vit.data.pixels.decode import ImageError, decode_image
from vit.data.pixels.images import pixels_of
from vit.data.pixels.preprocess import Decoding, Preprocess

P3 = rgb_profile(DISPLAY_P3)
CONVERT, IGNORE = Decoding(), Decoding(color_profiles="ignore")
LOSSLESS = {"PNG": {}, "TIFF": {}, "WEBP": {"lossless": True}}
LOSSY = {
    "JPEG": {"quality": 100, "subsampling": 0},
    "AVIF": {"quality": 100, "subsampling": "4:4:4"},
    "HEIF": {"quality": -1, "chroma": 444},
}
pillow_heif.register_heif_opener()


def seen_colors(height: int = 48, width: int = 64) -> np.ndarray:
    """A picture (H, W, 3) in sRGB, of smooth colors that every larger space holds."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 2 + 60, y * 3 + 50, 220 - x * 2], axis=2).astype(np.uint8)


def stored_as(profile: bytes) -> Image.Image:
    """The numbers of this picture in the space of a profile."""
    own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    transform = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), own, "RGB", "RGB")
    return ImageCms.applyTransform(Image.fromarray(seen_colors()), transform)


def encoded(image: Image.Image, kind: str, profile: bytes | None, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.info.pop("icc_profile", None)
    image.save(buffer, kind, **({"icc_profile": profile} if profile else {}), **options)
    return buffer.getvalue()


def off(data: bytes, expected: np.ndarray, decoding: Decoding = CONVERT) -> int:
    """Largest difference of a pixel."""
    return int(np.abs(decode_image(data, decoding=decoding).permute(1, 2, 0).numpy().astype(int) - expected).max())


@pytest.mark.faults("I27")
@pytest.mark.parametrize(("primaries", "gamma"), [(DISPLAY_P3, None), (ADOBE_RGB, 2.19921875), (PROPHOTO, 1.8)])
@pytest.mark.parametrize("kind", [*LOSSLESS, *LOSSY])
def test_a_photograph_has_the_colors_that_viewers_show(kind: str, primaries: tuple, gamma: float | None) -> None:
    profile = rgb_profile(primaries, gamma)
    stored = stored_as(profile)
    data = encoded(stored, kind, profile, **{**LOSSLESS, **LOSSY}[kind])
    assert off(data, np.asarray(stored), IGNORE) <= (0 if kind in LOSSLESS else 4)
    assert off(data, np.asarray(stored)) > 8
    assert off(data, seen_colors()) <= (4 if kind in LOSSLESS else 20)  # of ProPhoto, whose 8 bits are coarse


@pytest.mark.faults("I27")
def test_pixels_without_a_profile_or_with_that_of_srgb_stay_as_they_are() -> None:
    """Bit for bit, also where another program's sRGB has other tables."""
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8))
    of_littlecms = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for kind, options in {**LOSSLESS, **LOSSY}.items():
        plain = decode_image(encoded(picture, kind, None, **options), decoding=IGNORE)
        for profile in (None, rgb_profile(SRGB), of_littlecms):
            assert torch.equal(decode_image(encoded(picture, kind, profile, **options)), plain), kind


@pytest.mark.faults("I27")
def test_transparent_palette_and_gray_pictures_are_converted_before_they_are_drawn_on_white() -> None:
    stored = stored_as(P3)
    clear = stored.convert("RGBA")
    clear.putalpha(Image.fromarray(np.where(np.arange(64) < 32, 0, 255).astype(np.uint8)[None].repeat(48, axis=0)))
    expected = seen_colors()
    expected[:, :32] = 255
    assert off(encoded(clear, "PNG", P3), expected) <= 3

    palette = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8), "P")
    palette.putpalette(np.asarray(stored)[20, :64].tobytes())
    assert off(encoded(palette, "PNG", P3), seen_colors()[20].reshape(8, 8, 3)) <= 3

    linear = np.arange(256, dtype=np.uint8)[None].repeat(8, axis=0)
    light = (linear / 255) ** 1.8
    seen = np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055) * 255
    for image in (Image.fromarray(linear), Image.merge("LA", (Image.fromarray(linear), Image.new("L", (256, 8), 255)))):
        assert off(encoded(image, "PNG", gray_profile(1.8)), np.rint(seen)[..., None]) <= 2
    assert off(encoded(Image.fromarray(linear), "JPEG", gray_profile(1.8), quality=100), np.rint(seen)[..., None]) <= 5


@pytest.mark.faults("I27")
def test_inks_are_what_their_profile_says() -> None:
    """Pure cyan of this press is dark green; without the profile it would be bright cyan."""
    corners = {
        (c, m, y, k): (255, 128, 128) if not (c or m or y or k) else (90, 70, 160) if c else (0, 128, 128)
        for c in (0, 1) for m in (0, 1) for y in (0, 1) for k in (0, 1)
    }  # fmt: skip
    profile = cmyk_profile(corners)
    own = ImageCms.buildTransform(
        ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB"), "CMYK", "RGB"
    )
    inks = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    expected = np.asarray(ImageCms.applyTransform(inks, own))
    assert expected[0, 0, 2] < 100 < 200 < np.asarray(inks.convert("RGB"))[0, 0, 2]
    for kind, tolerance in (("TIFF", 0), ("JPEG", 4)):
        assert off(encoded(inks, kind, profile), expected) <= tolerance


@pytest.mark.faults("I27")
def test_a_profile_of_other_colors_or_a_damaged_one_is_ignored() -> None:
    color, gray = stored_as(P3), Image.fromarray(seen_colors()).convert("L")
    damaged = [P3[:200], P3[:140] + bytes(len(P3) - 140), b"P3", P3[:16] + b"XXXX" + P3[20:], bytes(9_000_000)]
    for image, profiles in ((color, [*damaged[:4], gray_profile(1.0)]), (gray, [P3])):
        for profile in profiles:
            assert off(encoded(image, "PNG", profile), np.atleast_3d(np.asarray(image))) == 0


@pytest.mark.faults("I27")
def test_a_tiff_of_16_bits_for_a_color_is_converted_too() -> None:
    """tifffile reads it. Through a window its values are measurements, and stay."""
    deep = np.asarray(stored_as(P3)).astype(np.uint16) * 257
    data = tiff(deep, photometric="rgb", extratags=[(34675, "B", len(P3), P3, True)])
    assert off(data, seen_colors()) <= 3
    floats = tiff((deep / 65_535).astype(np.float64), photometric="rgb")  # Pillow does not open it
    with pytest.raises(UnidentifiedImageError):
        Image.open(io.BytesIO(floats))
    assert off(floats, np.asarray(stored_as(P3))) <= 1
    window = Decoding((0, 65_535))
    assert off(data, np.asarray(stored_as(P3)), window) == 0


def test_images_in_memory_and_many_threads_see_the_same() -> None:
    data = encoded(stored_as(P3), "PNG", P3)
    expected = decode_image(data)
    assert torch.equal(pixels_of(Image.open(io.BytesIO(data)), "one"), expected)
    with ThreadPoolExecutor(8) as pool:
        assert all(torch.equal(found, expected) for found in pool.map(decode_image, [data] * 64))


def test_a_checkpoint_says_what_it_does_with_profiles() -> None:
    for preprocess in (Preprocess(32), Preprocess(32, color_profiles="ignore")):
        assert _preprocess(preprocess.to_dict()) == preprocess
    silent = {name: value for name, value in preprocess.to_dict().items() if name != "color_profiles"}
    for values in ({**silent, "color_profiles": "P3"}, silent):
        with pytest.raises(ValueError, match="color_profiles"):
            _preprocess(values)
    kept = "model:\n  preprocess:\n    color_profiles: convert\n"
    assert parse_recipe(kept).model.preprocess.color_profiles == "convert"


@pytest.mark.faults("I28")
def test_a_picture_that_is_transparent_everywhere_is_never_white() -> None:
    """Windows leaves the fourth byte of screenshots unused, and viewers show them. Others have a reason."""
    picture = np.asarray(Image.fromarray(seen_colors()))
    clear = Image.merge("RGBA", (*Image.fromarray(picture).split(), Image.new("L", (64, 48), 0)))
    for kind in ("PNG", "TIFF", "WEBP"):
        with pytest.raises(ImageError, match="all pixels are transparent"):
            decode_image(encoded(clear, kind, None, **({"lossless": True, "exact": True} if kind == "WEBP" else {})))
    deep = Image.fromarray(np.full((8, 8), 5000, np.uint16))
    for image in (Image.new("P", (8, 8), 0), Image.new("L", (8, 8), 7), Image.new("RGB", (8, 8)), deep):
        buffer = io.BytesIO()
        image.save(buffer, "PNG", transparency=image.getpixel((0, 0)))
        with pytest.raises(ImageError, match="all pixels are transparent"):
            decode_image(buffer.getvalue())

    bottom_up = np.concatenate([picture[::-1, :, ::-1], np.zeros((48, 64, 1), np.uint8)], axis=2).tobytes()
    masks = b"".join(mask.to_bytes(4, "little") for mask in (0xFF0000, 0xFF00, 0xFF, 0xFF000000))
    header = (108).to_bytes(4, "little") + (64).to_bytes(4, "little") + (48).to_bytes(4, "little")
    header += b"\1\0\x20\0\3\0\0\0" + len(bottom_up).to_bytes(4, "little") + bytes(16) + masks + b"BGRs" + bytes(48)
    start = (14 + len(header)).to_bytes(4, "little")
    bitmap = b"BM" + (14 + len(header) + len(bottom_up)).to_bytes(4, "little") + bytes(4) + start + header + bottom_up
    assert off(bitmap, picture) == 0
