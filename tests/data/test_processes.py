"""Small images that processes decode: the same memory as from threads, and the same errors."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit.data.loading import dataset
from vit.data.loading.dataset import ImageDataset
from vit.data.pixels.augment import Augment, ImageAugment
from vit.data.pixels.preprocess import Preprocess
from vit.data.sources.sources import open_source
from vit.errors import DataError

PREPROCESS = Preprocess(8)
TRAINING = ImageAugment(Augment(), PREPROCESS)
COUNT = 150


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(COUNT):
        path = tmp_path / "ab"[number % 2] / f"{number:03}.png"
        path.parent.mkdir(exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (8 + number % 3, 9, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return tmp_path


@pytest.fixture
def enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores and images enough for processes."""
    monkeypatch.setattr(dataset, "FEWEST", 100)
    monkeypatch.setattr(dataset, "FEWEST_CORES", 1)
    monkeypatch.setattr(dataset, "PART_BYTES", 64 * 3 * 8 * 8 + 1)  # parts of 64, 64 and 22 images


def in_memory(folder: Path, augment: ImageAugment | None = None) -> ImageDataset:
    return ImageDataset(open_source(str(folder)).splits["train"], PREPROCESS, augment, seed=0, in_memory=True)


def by_threads(folder: Path, augment: ImageAugment | None, monkeypatch: pytest.MonkeyPatch) -> ImageDataset:
    with monkeypatch.context() as patch:
        patch.setattr(dataset, "uses_processes", lambda count, side: False)
        return in_memory(folder, augment)


@pytest.mark.parametrize("augment", [None, TRAINING])
def test_processes_decode_what_threads_decode(
    folder: Path, enough: None, augment: ImageAugment | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (0, 70, 149):  # the next readable image replaces each of them in training
        file = next(folder.glob(f"*/{number:03}.png"))
        file.write_bytes(file.read_bytes()[:60])
    expected = by_threads(folder, augment, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(dataset, "decode_threads", None)  # not used
        found = in_memory(folder, augment)
    assert torch.equal(found.memory, expected.memory)
    assert found.origin.tolist() == expected.origin.tolist()
    assert found.unreadable == expected.unreadable and len(found.unreadable) == 3


def test_an_error_of_a_process_keeps_its_type_and_its_fix(folder: Path, enough: None) -> None:
    for file in folder.glob("a/*.png"):
        file.write_bytes(b"no image")
    with pytest.raises(DataError) as caught:
        in_memory(folder, TRAINING)
    assert "vit data check" in str(caught.value)


@pytest.mark.parametrize(
    ("count", "side", "cores", "expected"),
    [(5_000, 64, 4, True), (4_999, 64, 4, False), (5_000, 65, 4, False), (5_000, 64, 2, False)],
)
def test_threads_decode_few_images_large_images_and_on_few_cores(
    count: int, side: int, cores: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "available_cores", lambda: cores)
    monkeypatch.setattr(dataset, "START", "fork")
    assert dataset.uses_processes(count, side) == expected
    monkeypatch.setattr(dataset, "START", None)
    assert not dataset.uses_processes(count, side)
