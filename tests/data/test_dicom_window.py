"""DICOM images whose window or rescale is there and says nothing: they are read as images without one."""

import numpy as np
import pytest
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

from tests.science_files import dicom
from vit.data.pixels.decode import decode_image, deep_values
from vit.data.pixels.preprocess import Decoding

STORED = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)  # 12 bits
TWELVE = {"BitsStored": 12, "HighBit": 11}
EMPTY: list[dict[str, object]] = [
    {"WindowCenter": None, "WindowWidth": None},
    {"WindowCenter": 40, "WindowWidth": None},
    {"WindowCenter": None, "WindowWidth": 400},
    {"WindowCenter": 40, "WindowWidth": 0},
    {"WindowCenter": [40, 50], "WindowWidth": [0, 400]},
    {"WindowCenter": 40, "WindowWidth": 0.5},
    {"WindowCenter": 40, "WindowWidth": 0, "VOILUTFunction": "SIGMOID"},
    {"VOILUTSequence": Sequence([])},
    {"VOILUTSequence": Sequence([Dataset()])},
    {"RescaleSlope": None, "RescaleIntercept": None, "RescaleType": None, "ModalityLUTSequence": Sequence([])},
]


@pytest.mark.faults("I19")
@pytest.mark.parametrize("elements", EMPTY, ids=str)
def test_a_window_without_a_value_is_none(elements: dict[str, object]) -> None:
    plain, empty = dicom(STORED, **TWELVE), dicom(STORED, **TWELVE, **elements)
    assert np.array_equal(decode_image(empty).numpy(), decode_image(plain).numpy())
    values = deep_values(empty)
    assert values is not None and np.array_equal(values[0], STORED)  # so a training measures a window
    seen = decode_image(empty, decoding=Decoding((100.0, 500.0)))
    assert np.array_equal(seen.numpy(), decode_image(plain, decoding=Decoding((100.0, 500.0))).numpy())
    gray = (STORED >> 4).astype(np.uint8)
    assert np.array_equal(decode_image(dicom(gray, **elements))[0].numpy(), gray)


@pytest.mark.faults("I19")
@pytest.mark.parametrize(
    "elements",
    [
        {"VOILUTSequence": Sequence([]), "VOILUTFunction": None},
        {"VOILUTSequence": Sequence([Dataset()])},
        {"WindowCenter": [1000, 40], "WindowWidth": [2000, 0]},
    ],
    ids=str,
)
def test_a_window_beside_empty_elements_counts(elements: dict[str, object]) -> None:
    window = {"WindowCenter": 1000, "WindowWidth": 2000}
    found = decode_image(dicom(STORED, **{**window, **elements}))
    assert np.array_equal(found.numpy(), decode_image(dicom(STORED, **window)).numpy())
    assert deep_values(dicom(STORED, **{**window, **elements})) is None


@pytest.mark.faults("I19")
def test_an_exact_window_may_be_narrower_than_one() -> None:
    """Such as one of rescaled values from 0 to 1."""
    elements = {"RescaleSlope": 1 / 4096, "RescaleIntercept": 0, "WindowCenter": 0.5, "WindowWidth": 0.5}
    found = decode_image(dicom(STORED, **elements, VOILUTFunction="LINEAR_EXACT"))[0].numpy().astype(int)
    expected = np.clip((STORED / 4096 - 0.25) / 0.5, 0, 1) * 255
    assert np.abs(found - expected).max() <= 1


@pytest.mark.faults("I19")
def test_an_enhanced_file_has_the_window_of_its_frame_beside_an_empty_one() -> None:
    window = {"WindowCenter": 1000, "WindowWidth": 2000}
    item, groups = Dataset(), Dataset()
    for name, value in window.items():
        setattr(item, name, value)
    groups.FrameVOILUTSequence = Sequence([item])
    shared = {"SharedFunctionalGroupsSequence": Sequence([groups])}
    enhanced = dicom(STORED, WindowCenter=None, WindowWidth=None, **shared)
    assert np.array_equal(decode_image(enhanced).numpy(), decode_image(dicom(STORED, **window)).numpy())
