"""Images that a program holds: the same labels as for their files, and a clear word for what is not an image."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageSequence

import vit
from vit.errors import DataError, UsageError
from vit.inference.ensemble import Ensemble


@pytest.fixture(scope="module")
def model(digits_run):
    return vit.load(digits_run.path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A color and a gray PNG, one with alpha, and one that EXIF turns."""
    folder = tmp_path_factory.mktemp("files")
    generator = np.random.default_rng(3)
    for name, shape in (("color", (9, 14, 3)), ("gray", (12, 10)), ("alpha", (8, 8, 4)), ("turned", (15, 9, 3))):
        picture = Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8))
        exif = Image.Exif()
        exif[0x0112] = 6 if name == "turned" else 1
        picture.save(folder / f"{name}.png", exif=exif)
    return [str(folder / f"{name}.png") for name in ("color", "gray", "alpha", "turned")]


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert (one.status, one.label) == (other.status, other.label)
        assert dict(one.top) == pytest.approx(dict(other.top), abs=1e-6)  # a batch of another size rounds otherwise


def test_images_in_memory_get_the_predictions_of_their_files(model, files):
    expected = list(model.predict(files))
    opened = [Image.open(path) for path in files]
    found = list(model.predict(opened))
    same(found, expected)
    assert [one.path for one in found] == files
    copies = [image.copy() for image in opened]  # without a file; EXIF stays with them
    found = list(model.predict(copies))
    same(found, expected)
    assert [one.path for one in found] == ["image 0", "image 1", "image 2", "image 3"]
    same(model.predict([np.array(image) for image in opened[:3]]), expected[:3])
    tensors = [torch.from_numpy(np.array(opened[0])).permute(2, 0, 1), torch.from_numpy(np.array(opened[1]))[None]]
    same(model.predict(tensors), expected[:2])
    same(model.predict([files[0], opened[1], tensors[0]]), [*expected[:2], expected[0]])  # as they come


def test_folders_and_patterns_stand_for_their_files_among_images_in_memory(model, files):
    folder = Path(files[0]).parent
    image = Image.open(files[0]).copy()
    names = sorted(files)
    found = [row.path for row in model.predict([image, folder, files[1], image, f"{folder}/g*.png", files[1]])]
    assert found == ["image 0", *names, files[1], "image 3", files[1], files[1]]
    with pytest.raises(DataError, match="there is no"):
        model.predict([image, folder / "nothing.png"])  # as in a list of paths alone


def test_one_image_and_a_batch(model, files):
    (expected,) = model.predict(files[0])
    image = Image.open(files[0]).convert("RGB")
    for one in (image, np.array(image), torch.from_numpy(np.array(image)).permute(2, 0, 1)):
        same(model.predict(one), [expected])
    batch = np.stack([np.array(image)] * 3)
    same(model.predict(batch), [expected] * 3)
    same(model.predict(torch.from_numpy(batch).permute(0, 3, 1, 2), batch_size=2), [expected] * 3)


def test_each_frame_of_a_pil_image_gets_its_own_prediction(model, tmp_path):
    generator = np.random.default_rng(5)
    frames = [Image.fromarray(generator.integers(0, 256, (10, 10), dtype=np.uint8)) for _ in range(5)]
    frames[0].save(tmp_path / "pages.tif", save_all=True, append_images=frames[1:])
    expected = list(model.predict(frames))
    assert len({dict(row.top)[expected[0].label] for row in expected}) == 5
    with Image.open(tmp_path / "pages.tif") as image:
        same(model.predict(ImageSequence.Iterator(image)), expected)  # the same object five times
        for number in (3, 1):
            image.seek(number)
            rows = model.predict([image, frames[0]])
            image.seek(4)  # before the rows are asked for
            same(rows, [expected[number], expected[0]])
            assert image.tell() == 4
    same(model.predict(str(tmp_path / "pages.tif")), expected[:1])  # of a file the first


def test_a_frame_is_prepared_for_each_model_of_an_ensemble(digits_run, tmp_path):
    one, two = vit.load(digits_run.path), vit.load(digits_run.path)
    two.preprocess = two.engine.preprocess = replace(two.preprocess, resize_mode="squash")
    both, generator = Ensemble([one, two], ["one", "two"]), np.random.default_rng(5)
    frames = [Image.fromarray(generator.integers(0, 256, (10, 30), dtype=np.uint8)) for _ in range(2)]
    frames[0].save(tmp_path / "pages.tif", save_all=True, append_images=frames[1:])
    with Image.open(tmp_path / "pages.tif") as image:
        same(both.predict(image), list(both.predict(frames[0])))
    with pytest.raises(UsageError, match="prepared for one model"):
        both.predict_inputs([], top_k=1)


def test_what_is_no_image_is_refused_or_has_its_row(model, tmp_path):
    for wrong in (
        np.zeros((8, 8)), np.zeros((8, 8, 2), np.uint8), torch.zeros(3, 8, 8), torch.zeros(8, 8, 3, dtype=torch.uint8),
        [3], [None], 7.5,
    ):  # fmt: skip
        with pytest.raises(UsageError, match="a uint8 tensor"):
            list(model.predict(wrong))
    (row,) = model.predict(np.zeros((1, 300), np.uint8))
    assert row.status == "too_large" and row.path == "image 0" and "1 times" not in row.error
    picture = tmp_path / "cut.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(picture)
    picture.write_bytes(picture.read_bytes()[:300])
    with Image.open(picture) as damaged:
        (row,) = model.predict(damaged)
    assert row.status == "unreadable" and row.path == str(picture) and "damaged PNG" in row.error
