"""TIFF files of many channels and DICOM images: values, channels, windows and limits."""

import io
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pydicom
import pytest
import tifffile
import torch
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

from tests.science_files import PERSON, dicom, tiff
from vit import registry
from vit.data.checks.check import check
from vit.data.core import image_files, image_header
from vit.data.core.image_files import has_image_extension, how_to_convert_skipped
from vit.data.core.image_header import image_format
from vit.data.core.samples import Samples
from vit.data.pixels.decode import ImageError, check_header, decode_image, deep_values
from vit.data.pixels.images import measured_window
from vit.data.pixels.planes import with_channels
from vit.data.pixels.preprocess import Decoding
from vit.data.sources.sources import open_source
from vit.errors import install
from vit.training.planning.images import automatic_network

RNG = np.random.default_rng(0)
BANDS = RNG.integers(0, 256, (5, 20, 30), dtype=np.uint8)
DEEP = RNG.integers(100, 3000, (5, 20, 30)).astype(np.uint16)


@pytest.mark.faults("I17")
@pytest.mark.parametrize("compression", [None, "zlib", "lzw", "packbits"])
@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_bands_of_one_page_are_channels(compression: str | None, planar: str) -> None:
    values = BANDS if planar == "separate" else BANDS.transpose(1, 2, 0)
    data = tiff(values, photometric="minisblack", planarconfig=planar, compression=compression)
    assert np.array_equal(decode_image(data, decoding=Decoding(channels=5)).numpy(), BANDS)
    with pytest.raises(ImageError, match=r"5 channels, and the model sees 3 \(model.preprocess.channels\)"):
        decode_image(data)
    with pytest.raises(ImageError, match="5 channels, and the model sees 4"):
        decode_image(data, decoding=Decoding(channels=4))
    assert image_format(data) == "TIFF"


@pytest.mark.faults("I17")
def test_no_band_is_left_out_where_rgb_has_more() -> None:
    """Pillow reads such files as RGB, without their fourth band."""
    data = tiff(BANDS[:4].transpose(1, 2, 0), photometric="rgb", extrasamples=["unspecified"])
    assert np.array_equal(decode_image(data, decoding=Decoding(channels=4)).numpy(), BANDS[:4])
    with pytest.raises(ImageError, match="4 channels, and the model sees 3"):
        decode_image(data)


@pytest.mark.faults("I17")
def test_the_channels_of_ome_and_imagej_files_are_their_axis_c() -> None:
    stack = np.stack([BANDS[:2], 255 - BANDS[:2], BANDS[2:4]])  # (Z, C, Y, X)
    ome = tiff(stack, ome=True, metadata={"axes": "ZCYX"}, photometric="minisblack")
    assert np.array_equal(decode_image(ome, decoding=Decoding(channels=2)).numpy(), BANDS[:2])
    other = tiff(stack.transpose(1, 0, 2, 3).copy(), ome=True, metadata={"axes": "CZYX"}, photometric="minisblack")
    assert np.array_equal(decode_image(other, decoding=Decoding(channels=2)).numpy(), BANDS[:2])
    hyperstack = tiff(stack, imagej=True, metadata={"axes": "ZCYX"})
    assert np.array_equal(decode_image(hyperstack, decoding=Decoding(channels=2)).numpy(), BANDS[:2])


def test_pages_are_channels_only_for_as_many_channels() -> None:
    buffer = io.BytesIO()
    with tifffile.TiffWriter(buffer) as writer:
        for band in BANDS[:4]:
            writer.write(band, photometric="minisblack", metadata=None)
    data = buffer.getvalue()
    assert np.array_equal(decode_image(data, decoding=Decoding(channels=4)).numpy(), BANDS[:4])
    assert np.array_equal(decode_image(data).numpy(), np.stack([BANDS[0]] * 3))
    assert np.array_equal(decode_image(data, decoding=Decoding(channels=1)).numpy(), BANDS[:1])
    with pytest.raises(ImageError, match="1 channel, and the model sees 5"):
        decode_image(data, decoding=Decoding(channels=5))


@pytest.mark.faults("I18")
def test_each_channel_has_its_window() -> None:
    data = tiff(DEEP, photometric="minisblack", planarconfig="separate")
    window = tuple(float(v) for low in range(5) for v in (100 + low, 2000 + low))
    expected = [np.rint(np.clip((plane - 100.0 - low) / 1900, 0, 1) * 255) for low, plane in enumerate(DEEP)]
    assert np.array_equal(decode_image(data, decoding=Decoding(window, channels=5)).numpy(), np.stack(expected))
    with pytest.raises(ImageError, match="16-bit values up to 2,999 of 65,535 would be almost black without a window"):
        decode_image(data, decoding=Decoding(channels=5))
    bright = tiff(DEEP * 20, photometric="minisblack", planarconfig="separate")
    assert np.array_equal(decode_image(bright, decoding=Decoding(channels=5)).numpy(), (DEEP * 20) >> 8)
    floats = tiff(DEEP.astype(np.float32) - 500, photometric="minisblack", planarconfig="separate")
    with pytest.raises(ImageError, match="without a window"):
        decode_image(floats, decoding=Decoding(channels=5))


@pytest.mark.faults("I18")
def test_a_window_is_measured_for_each_channel(tmp_path: Path) -> None:
    for number in range(3):
        values = np.stack([np.full((8, 8), 100 * channel + number, np.uint16) for channel in range(1, 5)])
        (tmp_path / f"{number}.tif").write_bytes(tiff(values, photometric="minisblack", planarconfig="separate"))
    samples = Samples([f"{number}.tif" for number in range(3)], np.zeros(3, dtype=np.int64), tmp_path)
    assert measured_window(samples, 4) == (100, 102, 200, 202, 300, 302, 400, 402)


def test_gray_is_as_pillow_computes_it() -> None:
    rgb = RNG.integers(0, 256, (40, 50, 3), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(rgb).convert("L"))
    assert np.array_equal(with_channels(torch.from_numpy(rgb).permute(2, 0, 1), 1, "x")[0].numpy(), expected)
    levels = torch.arange(256, dtype=torch.uint8)[None, None].expand(3, 1, -1)
    assert torch.equal(with_channels(levels, 1, "x"), levels[:1])
    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, "PNG")
    assert np.array_equal(decode_image(buffer.getvalue(), decoding=Decoding(channels=1))[0].numpy(), expected)
    with pytest.raises(ImageError, match="3 channels, and the model sees 4"):
        decode_image(buffer.getvalue(), decoding=Decoding(channels=4))


@pytest.mark.faults("I19")
def test_dicom_values_pass_rescale_window_and_inversion() -> None:
    stored = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    plain = dicom(stored, RescaleSlope=2, RescaleIntercept=-1024)
    expected = np.rint(np.clip((stored * 2.0 - 1024 + 160) / 400, 0, 1) * 255)
    assert np.array_equal(decode_image(plain, decoding=Decoding((-160, 240)))[1].numpy(), expected)
    inverted = dicom(stored, "MONOCHROME1", RescaleSlope=2, RescaleIntercept=-1024)
    assert np.array_equal(decode_image(inverted, decoding=Decoding((-160, 240), channels=1))[0].numpy(), 255 - expected)
    assert image_format(plain) == "DICOM"
    with pytest.raises(ImageError, match="without a window"):
        decode_image(plain)


@pytest.mark.faults("I19")
@pytest.mark.parametrize("slope", [2, 1])
def test_a_dicom_is_seen_through_its_own_window_where_the_model_has_none(slope: int) -> None:
    stored = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    data = dicom(stored, RescaleSlope=slope, RescaleIntercept=-1024, WindowCenter=40, WindowWidth=400)
    found = decode_image(data)[0].numpy().astype(int)
    expected = np.clip((stored * float(slope) - 1024 - 39.5) / 399 + 0.5, 0, 1) * 255  # PS3.3 C.11.2.1.2
    assert np.abs(found - expected).max() <= 1
    assert np.array_equal(decode_image(data, decoding=Decoding((-1024, 0)))[0].numpy()[-1], np.full(64, 255))


def test_plain_dicoms() -> None:
    gray = BANDS[0]
    assert np.array_equal(decode_image(dicom(gray), decoding=Decoding(channels=1))[0].numpy(), gray)
    assert np.array_equal(decode_image(dicom(gray, "MONOCHROME1"))[2].numpy(), 255 - gray)
    color = RNG.integers(0, 256, (8, 9, 3), dtype=np.uint8)
    assert np.array_equal(decode_image(dicom(color, "RGB")).permute(1, 2, 0).numpy(), color)
    twelve = dicom(np.array([[0, 4095]], np.uint16), BitsStored=12, HighBit=11)
    assert decode_image(twelve)[0].tolist() == [[0, 255]]


@pytest.mark.faults("I20")
def test_no_name_of_a_person_is_in_an_error() -> None:
    broken = [
        dicom(BANDS[0], "PALETTE COLOR"),
        dicom(BANDS[0], Rows=4000),
        dicom(BANDS[0])[:-100],
        dicom(BANDS[0], RescaleSlope=1, RescaleIntercept=1, VOILUTFunction="DOE 4711", WindowCenter=1, WindowWidth=9),
        dicom(BANDS[0]).replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.4."),
    ]
    for data in broken:
        with pytest.raises(ImageError) as caught:
            decode_image(data)
        assert "doe" not in str(caught.value).lower() and "4711" not in str(caught.value)


@pytest.mark.faults("I21")
@pytest.mark.parametrize(("reader", "extra"), [("TIFF", "tiff"), ("DICOM", "dicom")])
def test_without_the_extra_the_reason_names_it(reader: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.LIBRARIES, reader, "not_installed")
    data = tiff(BANDS, photometric="minisblack", planarconfig="separate") if extra == "tiff" else dicom(BANDS[0])
    with pytest.raises(ImageError, match=re.escape(f"to read it: {install(extra)}")):
        decode_image(data)
    assert has_image_extension(Path("a.tif")) and has_image_extension(Path("a.dcm")) is (extra == "tiff")
    if extra == "dicom":
        assert install("dicom") in how_to_convert_skipped(Counter(["files ending in .dcm"]), Path("x"))


@pytest.mark.faults("I22")
def test_limits_hold_before_anything_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiff(BANDS, photometric="minisblack", planarconfig="separate")
    monkeypatch.setattr(image_header, "MAX_PIXELS", 500)
    for content in (data, dicom(BANDS[0])):
        with pytest.raises(ImageError, match="the limit is 500 pixels") as caught:
            decode_image(content, decoding=Decoding(channels=5))
        assert caught.value.kind == "too_large"
    monkeypatch.undo()
    many = tiff(np.zeros((20, 8, 8), np.uint8), photometric="minisblack", planarconfig="separate")
    with pytest.raises(ImageError, match="20 channels; the limit is 16"):
        decode_image(many, decoding=Decoding(channels=5))
    bomb = tiff(
        np.zeros((5, 512, 512), np.uint8), photometric="minisblack", planarconfig="separate", compression="zlib"
    )
    with tifffile.TiffFile(io.BytesIO(bomb)) as file:
        place = file.pages[0].tags["ImageLength"].valueoffset
    small = bytearray(bomb)
    small[place : place + 4] = (64).to_bytes(4, "little")
    with pytest.raises(ImageError):
        decode_image(bytes(small), decoding=Decoding(channels=5))


@pytest.mark.faults("I22")
@pytest.mark.parametrize("kind", ["tiff", "deflate", "ome", "dicom", "window"])
def test_changed_bytes_give_an_image_or_one_error(kind: str) -> None:
    data = {
        "tiff": lambda: tiff(BANDS, photometric="minisblack", planarconfig="separate"),
        "deflate": lambda: tiff(DEEP, photometric="minisblack", planarconfig="separate", compression="zlib"),
        "ome": lambda: tiff(BANDS, ome=True, metadata={"axes": "CYX"}, photometric="minisblack"),
        "dicom": lambda: dicom(BANDS[0]),
        "window": lambda: dicom(DEEP[0], RescaleSlope=2, RescaleIntercept=3, WindowCenter=40, WindowWidth=400),
    }[kind]()
    rng = np.random.default_rng(1)
    channels = 1 if kind in ("dicom", "window") else 5
    outcomes, reasons = set(), []
    for _ in range(300):
        changed = bytearray(data)
        head = 1200 if len(data) > 1200 else len(data)
        for _ in range(int(rng.integers(1, 4))):
            changed[int(rng.integers(0, head if rng.random() < 0.8 else len(data)))] = int(rng.integers(0, 256))
        content = bytes(changed[: int(rng.integers(1, len(data)))] if rng.random() < 0.1 else changed)
        try:
            pixels = decode_image(content, decoding=Decoding((100, 3000), channels=channels))
            assert pixels.dtype == torch.uint8 and len(pixels) == channels
            outcomes.add("image")
        except ImageError as error:
            outcomes.add(error.kind)
            reasons.append(error.reason)
    assert not any(PERSON in reason for reason in reasons)
    assert {"image", "unreadable"} <= outcomes


@pytest.mark.faults("I25")
def test_a_check_names_channels_and_depth(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(4):
            values = RNG.integers(1000, 1200, (4, 32, 32)).astype(np.uint16)
            content = tiff(values, photometric="minisblack", planarconfig="separate")
            (tmp_path / name / f"{number}.tif").write_bytes(content)
    Image.fromarray(RNG.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(tmp_path / "a" / "9.png")
    found = check(open_source(str(tmp_path)), lambda done, total: None).findings
    kinds = {(finding.kind, finding.path.rpartition("/")[2]): finding for finding in found}
    assert kinds["channels", "9.png"].detail == "3 channels; most images have 4"
    assert kinds["channels", ""].suggestion == "train with --model.preprocess.channels 4"
    assert kinds["more_than_8_bits", ""].detail.startswith("8 of 9 images")
    assert not {"unreadable", "one_color", "duplicate", "near_duplicate"} & {finding.kind for finding in found}


def test_fewer_bits_than_8_are_all_of_them() -> None:
    bits = dicom(np.array([[0, 1]], np.uint8), BitsStored=1, HighBit=0)
    assert decode_image(bits)[0].tolist() == [[0, 255]]


def test_the_readers_are_those_of_the_extras() -> None:
    assert pydicom.__version__ and image_files.is_tiff(tiff(BANDS[0])) and not image_files.is_tiff(dicom(BANDS[0]))


@pytest.mark.faults("I19")
@pytest.mark.parametrize("where", ["SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"])
def test_an_enhanced_dicom_is_its_classic_one(where: str) -> None:
    """Enhanced files say rescale and window in functional groups, for all frames or for each."""
    stored = np.array([[0, 864, 1024, 1264, 4095]], dtype=np.uint16)
    rescale = {"RescaleSlope": 1, "RescaleIntercept": -1024, "RescaleType": "HU"}
    window = {"WindowCenter": 40, "WindowWidth": 400}
    groups = Dataset()
    for name, elements in (("PixelValueTransformationSequence", rescale), ("FrameVOILUTSequence", window)):
        item = Dataset()
        for key, value in elements.items():
            setattr(item, key, value)
        setattr(groups, name, Sequence([item]))
    classic, enhanced = dicom(stored, **rescale, **window), dicom(stored, **{where: Sequence([groups])})
    assert decode_image(enhanced)[0, 0].tolist() == decode_image(classic)[0, 0].tolist()
    seen = decode_image(enhanced, decoding=Decoding((-160.0, 240.0)))[0, 0].tolist()
    assert seen == decode_image(classic, decoding=Decoding((-160.0, 240.0)))[0, 0].tolist() == [0, 0, 102, 255, 255]
    del groups.FrameVOILUTSequence
    values = deep_values(dicom(stored, **{where: Sequence([groups])}))
    assert values is not None and values.ravel().tolist() == [-1024, -160, 0, 240, 3071]


@pytest.mark.faults("I16")
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["u1", "u2", "f4"])
def test_where_zero_is_white_it_is_so_in_every_depth(kind: str, order: str) -> None:
    full = 1.0 if kind == "f4" else float(np.iinfo(kind).max)
    values = (np.linspace(0, full, 4)[None].repeat(4, axis=0)).astype(order + kind)
    data = tiff(values, photometric="miniswhite", byteorder=order)
    assert decode_image(data)[0, 0].tolist() == pytest.approx([255, 170, 85, 0], abs=1)
    if kind != "u1":
        assert decode_image(data, decoding=Decoding((0, full)))[0, 0].tolist() == pytest.approx(
            [255, 170, 85, 0], abs=1
        )


@pytest.mark.faults("I16")
def test_8_bits_with_a_sign_need_a_window() -> None:
    data = tiff(np.array([[-128, -1, 0, 127]] * 4, dtype=np.int8))
    assert decode_image(data, decoding=Decoding((-128, 127)))[0, 0].tolist() == [0, 127, 128, 255]
    with pytest.raises(ImageError, match="without a window"):
        decode_image(data)


@pytest.mark.faults("I17")
def test_a_check_compares_all_channels(tmp_path: Path) -> None:
    """Images whose first three channels are blank are neither equal nor of one color."""
    for name in ("cell", "none"):
        (tmp_path / name).mkdir()
        for number in range(4):
            bands = np.zeros((4, 40, 40), dtype=np.uint8)
            bands[3] = RNG.integers(0, 256, (40, 40))
            (tmp_path / name / f"{number}.tif").write_bytes(
                tiff(bands, photometric="minisblack", planarconfig="separate")
            )
    kinds = {one.kind for one in check(open_source(str(tmp_path)), lambda *_: None).findings}
    assert not kinds & {"label_conflict", "duplicate", "one_color"}, kinds


@pytest.mark.faults("I17")
@pytest.mark.parametrize(("bands", "kind"), [(1, np.uint16), (4, np.uint8), (4, np.uint16), (2, np.float32)])
def test_the_network_follows_the_size_of_images_of_any_depth(bands: int, kind: type, tmp_path: Path) -> None:
    values = RNG.integers(100, 255, (bands, 24, 32)).astype(kind)
    planar = {} if bands == 1 else {"planarconfig": "separate"}
    (tmp_path / "a.tif").write_bytes(tiff(values, photometric="minisblack", **planar))
    train = Samples(["a.tif"], np.zeros(1, dtype=np.int64), tmp_path)
    assert automatic_network(train) == ("vit_mini_patch4_28", 24)


@pytest.mark.faults("I17")
@pytest.mark.parametrize(("end", "library", "reason"), [(8, "tifffile", "damaged"), (None, "none", "to read it")])
def test_a_tiff_that_cannot_be_read_is_told_by_its_header(end, library, reason, monkeypatch) -> None:
    """Such a test image ends a training before the first step."""
    data = tiff(BANDS, photometric="minisblack", planarconfig="separate")
    check_header(data, "whole")
    monkeypatch.setitem(registry.LIBRARIES, "TIFF", library)
    with pytest.raises(ImageError, match=reason):
        check_header(data[:end], "a.tif")
