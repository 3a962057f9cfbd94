"""Images of more than 8 bits: the window that a training measures, and what it does to pixels."""

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from vit.data.decode import ImageError, decode_image
from vit.data.gray_window import measured_window
from vit.data.samples import Samples

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
    found = decode_image(encoded(values, kind), window=(low, high)).numpy()
    assert found.shape == (3, 64, 64) and (found[0] == found[1]).all() and (found[0] == found[2]).all()
    assert np.array_equal(found[0].ravel(), np.rint(np.arange(64 * 64) / 4095 * 255))
    half = decode_image(encoded(values, kind), window=(low, (low + high) / 2)).numpy()
    assert half.ravel()[-1] == 255 and half[0, 32:].min() >= 254  # the upper half is beyond the window


def test_images_of_8_bits_have_no_window() -> None:
    gray = encoded((RAMP // 16).astype(np.uint8), "PNG")
    assert (decode_image(gray, window=(100, 200)) == decode_image(gray)).all()


@pytest.mark.faults("I16")
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bits_for_a_color_are_not_cut_where_a_window_is_asked_for(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="only another program writes 16 bits for a color")
    import cv2

    color = np.stack([RAMP, RAMP, RAMP], axis=2)
    assert cv2.imwrite(str(tmp_path / f"a.{kind.lower()}"), color)
    data = (tmp_path / f"a.{kind.lower()}").read_bytes()
    if kind == "TIFF":  # tifffile reads all bits
        seen = decode_image(data, window=(0, 4095)).numpy()
        assert np.array_equal(seen[2].ravel(), np.rint(np.arange(64 * 64) / 4095 * 255))
        return
    with pytest.raises(ImageError, match="16 bits for a color"):
        decode_image(data, window=(0, 4095))


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
        decode_image(encoded(np.full((8, 8), np.nan, np.float32), "TIFF"), window=(0, 1))
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
    assert decode_image(encoded(values.astype(np.uint16), kind), window=(0, most)).max() == 255
