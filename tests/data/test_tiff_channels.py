"""The axis C of OME-TIFF and ImageJ files, for models of colors and of gray."""

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tests.science_files import tiff
from vit import registry
from vit.data.checks.check import check
from vit.data.core.image_header import holds_frames
from vit.data.pixels.decode import ImageError, decode_image, deep_values
from vit.data.pixels.planes import with_channels
from vit.data.pixels.preprocess import Decoding
from vit.data.sources.sources import open_source
from vit.errors import install

RNG = np.random.default_rng(0)
BANDS = RNG.integers(0, 256, (5, 20, 30), dtype=np.uint8)
DEEP = RNG.integers(5000, 60_000, (3, 20, 30)).astype(np.uint16)


@pytest.mark.faults("I17")
@pytest.mark.parametrize("kind", ["ome", "imagej"])
def test_no_channel_of_ome_and_imagej_files_is_left_out_for_rgb_and_gray(kind: str) -> None:
    """Pillow reads the page of their first channel, in gray."""

    options = {"imagej": True} if kind == "imagej" else {"ome": True, "photometric": "minisblack"}

    def file(values: npt.NDArray[np.generic], axes: str = "CYX") -> bytes:
        return tiff(values, metadata={"axes": axes}, **options)

    assert np.array_equal(decode_image(file(BANDS[:3])).numpy(), BANDS[:3])
    gray = with_channels(torch.from_numpy(BANDS[:3]), 1, "x")
    assert torch.equal(decode_image(file(BANDS[:3]), decoding=Decoding(channels=1)), gray)
    assert np.array_equal(decode_image(file(DEEP)).numpy(), DEEP >> 8)
    values = deep_values(file(DEEP))
    assert values is not None and np.array_equal(values, DEEP)
    for number, channels in ((2, 3), (2, 1), (5, 3), (5, 1)):
        with pytest.raises(ImageError, match=f"{number} channels, and the model sees {channels}"):
            decode_image(file(BANDS[:number]), decoding=Decoding(channels=channels))
    for axes in ("ZYX", "TYX"):  # one channel: the first place
        assert np.array_equal(decode_image(file(BANDS, axes)).numpy(), np.stack([BANDS[0]] * 3))
        assert holds_frames(file(BANDS, axes)) and not holds_frames(file(BANDS, "CYX"))  # pages that are channels


@pytest.mark.faults("I17", "I21")
def test_without_the_extra_only_ome_files_of_several_channels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.LIBRARIES, "TIFF", "not_installed")
    several = tiff(BANDS[:3], ome=True, metadata={"axes": "CYX"}, photometric="minisblack")
    with pytest.raises(ImageError, match=re.escape(f"a TIFF of several channels; to read it: {install('tiff')}")):
        decode_image(several)
    one = tiff(BANDS[:3], ome=True, metadata={"axes": "ZYX"}, photometric="minisblack")
    assert np.array_equal(decode_image(one).numpy(), np.stack([BANDS[0]] * 3))


@pytest.mark.faults("I17", "I25")
def test_a_check_names_the_channels_of_ome_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(4):
            values = RNG.integers(0, 256, (5, 32, 32), dtype=np.uint8)
            content = tiff(values, ome=True, metadata={"axes": "CYX"}, photometric="minisblack")
            (tmp_path / name / f"{number}.ome.tif").write_bytes(content)
    found = check(open_source(str(tmp_path)), lambda done, total: None).findings
    assert "train with --model.preprocess.channels 5" in [finding.suggestion for finding in found]
    assert "unreadable" not in {finding.kind for finding in found}
