"""Images of more than 8 bits: the window that a training measures, and what it does to pixels."""

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from tests.science_files import deep_png, dicom, tiff
from vit import registry
from vit.data.checks.check import check
from vit.data.core.samples import Samples
from vit.data.pixels.decode import ImageError, decode_image
from vit.data.pixels.images import measured_window
from vit.data.pixels.preprocess import Decoding
from vit.data.sources.sources import open_source

RAMP = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)  # 12 bits: 0 to 4,095


def encoded(values: npt.NDArray[np.generic], kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.faults("I8")
@pytest.mark.parametrize(
    ("values", "kind"),
    [(RAMP, "PNG"), (RAMP, "TIFF"), (RAMP.astype(np.int32) - 5000, "TIFF"), (RAMP.astype(np.float32) * 7.5, "TIFF")],
    ids=["16-bit PNG", "16-bit TIFF", "32-bit integers", "floats"],
)
def test_a_window_keeps_256_equal_steps(values: npt.NDArray[np.generic], kind: str) -> None:
    low, high = float(values.min()), float(values.max())
    found = decode_image(encoded(values, kind), decoding=Decoding((low, high))).numpy()
    assert found.shape == (3, 64, 64) and (found[0] == found[1]).all() and (found[0] == found[2]).all()
    assert np.array_equal(found[0].ravel(), np.rint(np.arange(64 * 64) / 4095 * 255))
    half = decode_image(encoded(values, kind), decoding=Decoding((low, (low + high) / 2))).numpy()
    assert half.ravel()[-1] == 255 and half[0, 32:].min() >= 254  # the upper half is beyond the window


def test_images_of_8_bits_have_no_window() -> None:
    gray = encoded((RAMP // 16).astype(np.uint8), "PNG")
    assert (decode_image(gray, decoding=Decoding((100, 200))) == decode_image(gray)).all()


@pytest.mark.faults("I16")
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bits_for_a_color_are_not_cut_where_a_window_is_asked_for(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="only another program writes 16 bits for a color")
    import cv2

    color = np.stack([RAMP, RAMP, RAMP], axis=2)
    assert cv2.imwrite(str(tmp_path / f"a.{kind.lower()}"), color)
    data = (tmp_path / f"a.{kind.lower()}").read_bytes()
    if kind == "TIFF":  # tifffile reads all bits
        seen = decode_image(data, decoding=Decoding((0, 4095))).numpy()
        assert np.array_equal(seen[2].ravel(), np.rint(np.arange(64 * 64) / 4095 * 255))
        return
    with pytest.raises(ImageError, match="16 bits for a color"):
        decode_image(data, decoding=Decoding((0, 4095)))


@pytest.mark.faults("I16")
def test_the_window_leaves_out_a_thousandth_of_the_pixels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(80):
        values = rng.integers(1000, 1256, (32, 32)).astype(np.uint16)
        values[0, 0] = 65535 if number == 0 else values[0, 0]  # one hot pixel decides nothing
        Image.fromarray(values).save(tmp_path / f"{number:02}.png")
    Image.new("L", (8, 8), 128).save(tmp_path / "80.png")
    (tmp_path / "81.png").write_bytes(b"damaged")
    names = sorted(path.name for path in tmp_path.iterdir())
    samples = Samples(names, np.zeros(len(names), dtype=np.int64), tmp_path)
    assert measured_window(samples) == (1000, 1255)
    assert measured_window(samples.select([80, 81])) is None


@pytest.mark.faults("I16")
def test_values_that_are_not_numbers_are_one_error() -> None:
    with pytest.raises(ImageError, match="not finite"):
        decode_image(encoded(np.full((8, 8), np.nan, np.float32), "TIFF"), decoding=Decoding((0, 1)))
    with pytest.raises(ImageError, match="without a window"):
        decode_image(encoded(np.full((8, 8), 1e6, np.float32), "TIFF"))


@pytest.mark.faults("I16")
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize(("most", "is_read"), [(255, False), (4095, False), (4096, True), (0, True)])
def test_values_that_would_be_almost_black_are_not_read_without_a_window(kind: str, most: int, is_read: bool) -> None:
    values = np.minimum(RAMP + 1, most)
    if is_read:
        assert decode_image(encoded(values.astype(np.uint16), kind)).max() == most >> 8
        return
    with pytest.raises(ImageError, match=f"16-bit values up to {most:,} of 65,535 would be almost black"):
        decode_image(encoded(values.astype(np.uint16), kind))
    assert decode_image(encoded(values.astype(np.uint16), kind), decoding=Decoding((0, most))).max() == 255


def colors(values: npt.NDArray[np.generic], mode: str) -> npt.NDArray[np.uint16]:
    """(H, W, channels) of equal colors; with alpha, the first pixel is white and transparent."""
    found = np.stack([values.astype(np.uint16)] * len(mode), axis=2)
    if "A" in mode:
        found[:, :, -1] = 65_535
        found[0, 0] = [65_535] * (len(mode) - 1) + [0]
    return found


def deep_file(values: npt.NDArray[np.generic], mode: str, kind: str) -> bytes:
    if kind == "PNG":
        return deep_png(colors(values, mode))
    if kind == "PPM":
        height, width = values.shape
        return b"P6 %d %d 65535\n" % (width, height) + colors(values, mode).astype(">u2").tobytes()
    return tiff(colors(values, mode), photometric="rgb", extrasamples=["unassalpha"] if "A" in mode else None)


DEEP_COLORS = [("RGB", "PNG"), ("LA", "PNG"), ("RGBA", "PNG"), ("RGB", "TIFF"), ("RGBA", "TIFF"), ("RGB", "PPM")]


@pytest.mark.faults("I16", "I8")
@pytest.mark.parametrize(("mode", "kind"), DEEP_COLORS)
@pytest.mark.parametrize(
    ("most", "is_read"), [(9, False), (255, False), (256, False), (1023, False), (3900, False), (4096, True)]
)
def test_colors_that_would_be_almost_black_are_not_read_either(mode: str, kind: str, most: int, is_read: bool) -> None:
    data = deep_file(np.minimum(RAMP + 1, most), mode, kind)
    if is_read:
        rounded = round(most / 257) if kind == "PPM" else most >> 8
        assert decode_image(data)[:, 1:].max() == rounded
        return
    with pytest.raises(ImageError, match=r"16-bit values (up to|below) [0-9,]+ of 65,535 would be almost black"):
        decode_image(data)


@pytest.mark.faults("I16")
def test_a_tiff_of_deep_colors_is_seen_through_a_window() -> None:
    data = deep_file(RAMP, "RGB", "TIFF")
    assert np.array_equal(
        decode_image(data, decoding=Decoding((0, 4095)))[1].numpy().ravel(), np.rint(RAMP.ravel() / 4095 * 255)
    )
    planes = tiff(colors(RAMP * 16, "RGB").transpose(2, 0, 1), photometric="rgb", planarconfig="separate")
    assert np.array_equal(decode_image(planes)[2].numpy(), RAMP * 16 >> 8)  # Pillow takes both bytes as pixels


@pytest.mark.faults("I16", "I21")
def test_without_the_extra_dark_colors_of_a_tiff_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.LIBRARIES, "TIFF", "not_installed")
    with pytest.raises(ImageError, match=r"almost black without a window; .*pip install .*\[tiff\]"):
        decode_image(deep_file(RAMP, "RGB", "TIFF"))
    assert decode_image(deep_file(RAMP * 16, "RGB", "TIFF")).max() == 255
    planes = tiff(colors(RAMP, "RGB").transpose(2, 0, 1), photometric="rgb", planarconfig="separate")
    with pytest.raises(ImageError, match=r"a TIFF of 16 bits for a color; to read it: .*pip install"):
        decode_image(planes)


def test_a_ppm_of_text_or_of_fewer_bits_is_read() -> None:
    """Of such files Pillow scales the values to 8 bits."""
    assert decode_image(b"P3 1 2 65535 65535 0 0 0 3000 0").unique().tolist() == [0, 12, 255]
    values = np.array([[4095, 0, 0], [0, 200, 0]], ">u2").tobytes()
    assert decode_image(b"P6 1 2 4095 " + values).unique().tolist() == [0, 12, 255]


def test_a_bmp_of_16_bits_for_a_pixel_is_of_8_bits() -> None:
    header = b"BM" + (66).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little")
    sides = (40).to_bytes(4, "little") + (2).to_bytes(4, "little") * 2 + (1).to_bytes(2, "little")
    data = header + sides + (16).to_bytes(2, "little") + bytes(24) + b"\x42\x08" * 4  # 5 bits for a color, of 2
    assert (
        decode_image(data).unique().tolist() == decode_image(data, decoding=Decoding((0, 9))).unique().tolist() == [16]
    )


@pytest.mark.faults("I16", "I25")
def test_a_check_measures_the_window_of_dark_colors_and_names_those_without_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(4):
            values = rng.integers(1000, 4000, (32, 32))
            (tmp_path / name / f"{number}.tif").write_bytes(deep_file(values, "RGB", "TIFF"))
    source = open_source(str(tmp_path))
    window = measured_window(source.splits["train"])
    assert window is not None and 1000 <= window[0] < 1010 and 3990 < window[1] < 4000
    found = {finding.kind for finding in check(source, lambda done, total: None).findings}
    assert "more_than_8_bits" in found and "unreadable" not in found
    for path in tmp_path.rglob("*.tif"):
        path.unlink()
    for name in ("a", "b"):
        for number in range(4):
            values = rng.integers(1000, 4000, (32, 32))
            (tmp_path / name / f"{number}.png").write_bytes(deep_file(values, "RGB", "PNG"))
    findings = check(open_source(str(tmp_path)), lambda done, total: None).findings
    assert sum("would be almost black" in finding.detail for finding in findings) == 8


@pytest.mark.faults("I16")
@pytest.mark.parametrize(("middle", "spread"), [(101_325.0, 15.0), (-300.5, 0.02), (2e9, 40.0), (0.0, 1e-6)])
def test_a_window_is_as_exact_as_the_range_of_the_values(middle: float, spread: float, tmp_path: Path) -> None:
    """Air pressure, say: rounded to four digits, all of its values are white."""
    values = np.random.default_rng(0).normal(middle, spread, (64, 64))
    (tmp_path / "a.tif").write_bytes(tiff(values))
    found = measured_window(Samples(["a.tif"], np.zeros(1, dtype=np.int64), tmp_path))
    assert found is not None
    low, high = np.percentile(values, (0.1, 99.9))
    assert np.allclose(found, (low, high), rtol=0, atol=1e-3 * (high - low))
    pixels = decode_image(tiff(values), decoding=Decoding(found)).numpy()
    assert len(np.unique(pixels)) > 200


@pytest.mark.faults("I16")
@pytest.mark.parametrize("has_extra", [True, False])
@pytest.mark.parametrize("options", [{}, {"compression": "lzw", "predictor": 2}, {"tile": (16, 16)}], ids=str)
def test_integers_of_32_bits_without_a_sign_pass_the_half_of_their_range(
    options: dict[str, object], has_extra: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow's integers have a sign."""
    if not has_extra:
        monkeypatch.setitem(registry.LIBRARIES, "TIFF", "not_installed")
    values = np.linspace(1.0e9, 4.2e9, 32 * 32).astype(np.uint32).reshape(32, 32)
    data = tiff(values, **options)
    found = decode_image(data, decoding=Decoding((1.0e9, 4.2e9), channels=1))[0].numpy()
    assert np.array_equal(found, np.rint((values - 1.0e9) / 3.2e9 * 255))
    (tmp_path / "a.tif").write_bytes(data)
    window = measured_window(Samples(["a.tif"], np.zeros(1, dtype=np.int64), tmp_path))
    assert window is not None and window == pytest.approx(np.percentile(values, (0.1, 99.9)), rel=1e-3)
    with pytest.raises(ImageError, match="32-bit integers outside 0 to 65535"):
        decode_image(data)
    signed = tiff(np.full((4, 4), -5, np.int32))
    assert decode_image(signed, decoding=Decoding((-10, 0))).unique().tolist() == [128]


@pytest.mark.faults("I16")
def test_a_window_for_each_color_sees_a_gray_image_three_times(tmp_path: Path) -> None:
    window, values = (0.0, 4095.0, 0.0, 2000.0, 1000.0, 4095.0), RAMP.astype(np.uint16)
    one_by_one = [decode_image(encoded(values, "PNG"), decoding=Decoding(window[at : at + 2]))[0] for at in (0, 2, 4)]
    for data in (encoded(values, "PNG"), encoded(values, "TIFF"), dicom(values)):
        assert np.array_equal(decode_image(data, decoding=Decoding(window)).numpy(), np.stack(one_by_one))
