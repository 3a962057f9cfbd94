"""torchvision's data sets: arrays are read, photographs are listed, and our decoder opens them with its limits."""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from torchvision import datasets

from vit.checkpoints.run import RunDirectory
from vit.data.checks.contents import read_contents
from vit.data.pixels.decode import ImageError, read_image
from vit.data.sources.sources import open_source
from vit.errors import DataError
from vit.training.fit import write_beginning
from vit.training.recipes.image_options import DataConfig
from vit.training.recipes.recipe import Recipe
from vit.training.running.run_images import images_of_run

COLORS = ((200, 30, 30), (30, 200, 30), (30, 30, 200), (90, 90, 90))
BAD = b"not an image: opening it while listing fails"


def picture(path, number):
    path.parent.mkdir(parents=True, exist_ok=True)
    if number == 3:
        path.write_bytes(BAD)
    else:
        Image.new("RGB", (12 + number, 10), COLORS[number]).save(path, "PPM" if path.suffix == ".ppm" else "JPEG")


def text(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def food101(root, _):
    for split, numbers in (("train", (0, 1)), ("test", (2, 3))):
        listed = {"apple_pie": [f"apple_pie/{numbers[0]}"], "waffles": [f"waffles/{numbers[1]}"]}
        text(root / "food-101" / "meta" / f"{split}.json", json.dumps(listed))
        for name, number in zip(("apple_pie", "waffles"), numbers, strict=True):
            picture(root / "food-101" / "images" / name / f"{number}.jpg", number)


def dtd(root, _):
    for split, numbers in (("train", (0, 1)), ("val", (0, 1)), ("test", (2, 3))):
        names = [f"{name}/{name}_{number}.jpg" for name, number in zip(("banded", "dotted"), numbers, strict=True)]
        text(root / "dtd" / "dtd" / "labels" / f"{split}1.txt", "".join(f"{name}\n" for name in names))
        for name, number in zip(names, numbers, strict=True):
            picture(root / "dtd" / "dtd" / "images" / name, number)


def flowers102(root, monkeypatch):
    folder = root / "flowers-102"
    for number in range(4):
        picture(folder / "jpg" / f"image_{number + 1:05d}.jpg", number)
    savemat(folder / "setid.mat", {"trnid": [[1, 2]], "valid": [[1, 2]], "tstid": [[3, 4]]})
    savemat(folder / "imagelabels.mat", {"labels": [[1, 2, 1, 2]]})
    known = dict(datasets.Flowers102._file_dict)
    for key, file in (("setid", "setid.mat"), ("label", "imagelabels.mat")):
        known[key] = (file, hashlib.md5((folder / file).read_bytes()).hexdigest())
    monkeypatch.setattr(datasets.Flowers102, "_file_dict", known)  # checksums


def fgvc_aircraft(root, _):
    data = root / "fgvc-aircraft-2013b" / "data"
    text(data / "variants.txt", "707-320\nA300 B4\n")
    for split, numbers in (("train", (0, 1)), ("val", (0, 1)), ("test", (2, 3))):
        rows = [f"{number} {name}\n" for number, name in zip(numbers, ("707-320", "A300 B4"), strict=True)]
        text(data / f"images_variant_{split}.txt", "".join(rows))
    for number in range(4):
        picture(data / "images" / f"{number}.jpg", number)


def gtsrb(root, _):
    base = root / "gtsrb"
    for number in (0, 1):
        picture(base / "GTSRB" / "Training" / f"{number:05d}" / "sign.ppm", number)
    for number in (2, 3):
        picture(base / "GTSRB" / "Final_Test" / "Images" / f"{number}.ppm", number)
    text(base / "GT-final_test.csv", "Filename;ClassId\n2.ppm;0\n3.ppm;1\n")


def oxford_iiit_pet(root, _):
    base = root / "oxford-iiit-pet"
    for split, numbers in (("trainval", (0, 1)), ("test", (2, 3))):
        names = zip(("Abyssinian", "beagle"), numbers, strict=True)
        rows = [f"{name}_{number} {place + 1} 1 1\n" for place, (name, number) in enumerate(names)]
        text(base / "annotations" / f"{split}.txt", "".join(rows))
        for row, number in zip(rows, numbers, strict=True):
            picture(base / "images" / f"{row.split()[0]}.jpg", number)


LAYOUTS = [food101, dtd, flowers102, fgvc_aircraft, gtsrb, oxford_iiit_pet]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_photographs_are_listed_and_opened_by_our_decoder(tmp_path, monkeypatch, layout):
    layout(tmp_path, monkeypatch)
    source = open_source(layout.__name__, root=str(tmp_path))
    assert len(source.class_names) == (102 if layout is flowers102 else 2)
    for split, samples in source.splits.items():
        numbers = (2, 3) if split == "test" else (0, 1)
        assert samples.arrays is None and samples.labels.tolist() == [0, 1]
        for place, number in enumerate(numbers):
            file = samples.file(place)
            assert file.is_file() and not Path(samples.paths[place]).is_absolute()
            if number == 3:
                with pytest.raises(ImageError):
                    read_image(file)
            else:
                pixels = read_image(file).numpy()
                assert pixels.shape == (3, 10, 12 + number)
                assert np.abs(pixels.mean(axis=(1, 2)) - COLORS[number]).max() < 4
    run, recipe = RunDirectory(tmp_path), Recipe(data=DataConfig(source=layout.__name__, root=str(tmp_path)))
    write_beginning(run, recipe, source, read_contents(source))
    assert images_of_run(run, recipe).splits["test"].paths == source.splits["test"].paths  # `vit evaluate RUN`


def idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.tobytes())


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    """Six training and three test images; the first pixel holds the label."""
    for part, numbers in (("train", [3, 1, 4, 1, 5, 9]), ("t10k", [2, 6, 5])):
        images = np.zeros((len(numbers), 28, 28), dtype=np.uint8)
        images[:, 0, 0] = numbers
        idx(tmp_path / "MNIST/raw" / f"{part}-images-idx3-ubyte", images)
        idx(tmp_path / "MNIST/raw" / f"{part}-labels-idx1-ubyte", np.array(numbers, dtype=np.uint8))
    return tmp_path


def test_mnist_is_read_from_its_folder(mnist: Path) -> None:
    source = open_source("mnist", root=str(mnist))
    assert source.name == "mnist" and source.class_names[3] == "3 - three"
    assert source.splits["train"].labels.tolist() == [3, 1, 4, 1, 5, 9]
    assert source.splits["test"].labels.tolist() == [2, 6, 5]
    for split, samples in source.splits.items():
        assert samples.arrays.shape == (len(samples), 28, 28) and samples.arrays.dtype == np.uint8
        assert samples.arrays[:, 0, 0].tolist() == samples.labels.tolist()
        assert samples.paths[0] == f"mnist/{split}/00000" and len(set(samples.paths)) == len(samples)


@pytest.mark.parametrize("damage", [b"", b"<html>", None, slice(0, -100)])
def test_a_damaged_or_missing_file_is_the_data_sets_error(mnist: Path, damage: bytes | slice | None) -> None:
    path = mnist / "MNIST/raw/train-images-idx3-ubyte"
    content = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage if isinstance(damage, bytes) else content[damage])
    with pytest.raises(DataError, match=r"mnist could not be read from .*: .+; check --data.root"):
        open_source("mnist", root=str(mnist))


def test_the_folder_must_be_named() -> None:
    with pytest.raises(DataError, match=r"--data\.root"):
        open_source("cifar10")


def test_channels_come_last_whatever_the_set_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchvision.datasets.svhn.check_integrity", lambda *_: True)
    images = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 2), dtype=np.uint8)
    for part in ("train", "test"):
        content = {"X": images, "y": np.array([[1], [10]], dtype=np.uint8)}  # SVHN writes 10 for 0
        savemat(tmp_path / f"{part}_32x32.mat", content)
    source = open_source("svhn", root=str(tmp_path))
    assert source.class_names == ("0", "1") and source.splits["train"].labels.tolist() == [1, 0]
    assert np.array_equal(source.splits["train"].arrays[1], images[:, :, :, 1])
