"""Batches: the same bits with any loader, and rows whose path, label and pixels belong together."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from vit.data.core.batch import Batch
from vit.data.core.samples import Samples, Source
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.module import ImageDataModule, LoaderOptions, auto_cache_bytes
from vit.data.loading.sampler import EVALUATION, EvaluationSampler, Key
from vit.data.pixels.augment import Augment, ImageAugment
from vit.data.pixels.preprocess import Preprocess
from vit.data.sources.sources import open_source
from vit.errors import DataError

SIDE = 16
SHADES = {  # the red value of each image
    f"{split}/{name}/{number}.png": 10 * number + shade
    for split, shades in (("train", (1, 2)), ("val", (3, 4)))
    for name, shade in zip("ab", shades, strict=True)
    for number in range(7)
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images of many sizes: noise, and in the red channel one value that identifies the image."""
    for seed, (name, shade) in enumerate(SHADES.items()):
        generator = np.random.default_rng(seed)
        pixels = generator.integers(0, 256, (*generator.integers(10, 40, 2), 3), dtype=np.uint8)
        pixels[:, :, 0] = shade
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / name)
    return tmp_path


def module(folder: Path, augment: Augment | None = None, **options: Any) -> ImageDataModule:
    options = {"batch_size": 4, "num_workers": 0, "cache": "none", "evaluation_batch_size": 5, **options}
    preprocess = Preprocess(SIDE, crop_fraction=0.875)
    return ImageDataModule(open_source(str(folder)), preprocess, augment or Augment(), LoaderOptions(**options), seed=5)


def trained_on(data: ImageDataModule, epochs: int) -> list[Batch]:
    loader, batches = data.train_dataloader(), []
    for _ in range(epochs):
        for batch in loader:
            batches.append(batch)
            data.finished_batch()
    return batches


def assert_same(batches: list[Batch], others: list[Batch]) -> None:
    assert len(batches) == len(others) > 0
    for one, other in zip(batches, others, strict=True):
        assert one.path == other.path and one.error == other.error
        for name in ("image", "label", "draw_seed", "valid"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name


def assert_rows_belong_together(batch: Batch) -> None:
    fields = (batch.path, batch.image, batch.error, batch.draw_seed, batch.valid)
    assert {len(field) for field in fields} == {len(batch)}
    for image, label, path in zip(batch.image, batch.label, batch.path, strict=True):
        assert image[0].unique().tolist() == [SHADES[path]]
        assert label == "ab".index(path.split("/")[1])


@pytest.mark.faults("I12")
@pytest.mark.parametrize("cache", ["none", "memory"])
@pytest.mark.parametrize("preprocess", [Preprocess(SIDE), Preprocess(SIDE, 0.8, interpolation="bilinear")])
def test_training_without_a_random_crop_sees_what_evaluation_sees(
    folder: Path, cache: Any, preprocess: Preprocess
) -> None:
    train = open_source(str(folder)).splits["train"]
    source = Source("made", ("a", "b"), {"train": train, "validation": train})
    data = ImageDataModule(source, preprocess, Augment(), LoaderOptions(14, 0, cache), seed=5)
    (trained,), (evaluated,) = trained_on(data, epochs=1), list(data.evaluation_loader("validation"))
    places = [evaluated.path.index(path) for path in trained.path]
    assert sorted(places) == list(range(14))
    assert torch.equal(data.augmented(trained).image, preprocess.normalize(evaluated.image[places]))


@pytest.mark.faults("I14")
def test_evaluation_does_not_depend_on_how_it_is_fetched(folder: Path) -> None:
    expected = list(module(folder).evaluation_loader("validation"))
    assert [path for batch in expected for path in batch.path] == [name for name in SHADES if name.startswith("val")]
    assert [len(batch) for batch in expected] == [5, 5, 4]
    for batch in expected:
        assert_rows_belong_together(batch)
        assert batch.image.dtype == torch.uint8 and batch.image.shape[1:] == (3, SIDE, SIDE)
        assert batch.valid.all() and not batch.draw_seed.any() and set(batch.error) == {""}
    for options in ({"num_workers": 1}, {"num_workers": 2}, {"cache": "memory"}, {"cache": "memory", "num_workers": 1}):
        assert_same(list(module(folder, **options).evaluation_loader("validation")), expected)


@pytest.mark.faults("I14")
def test_training_does_not_depend_on_the_workers(folder: Path) -> None:
    augment = Augment(crop=0.5, randaugment=2)
    expected = trained_on(module(folder, augment), epochs=2)
    assert len(expected) == 6 and len({path for batch in expected[:3] for path in batch.path}) == 12
    for workers in (1, 2):
        assert_same(trained_on(module(folder, augment, num_workers=workers), epochs=2), expected)
    data = module(folder, replace(augment, shift=0.1, rotate=9.0, mixup=0.5, cutmix=1.0, erasing=0.5))
    assert_same([data.augmented(batch) for batch in expected], [data.augmented(batch) for batch in expected])


@pytest.mark.parametrize("cache", ["none", "memory"])
def test_the_path_rides_with_its_image(folder: Path, cache: str) -> None:
    for batch in trained_on(module(folder, Augment(crop=0.5), cache=cache), epochs=2):
        assert_rows_belong_together(batch)
        assert (batch.draw_seed != 0).all()


@pytest.mark.parametrize("crop", [0.08, 0.35, 0.9, 1.0])
def test_pixels_do_not_depend_on_where_images_are_kept(folder: Path, crop: float) -> None:
    """For images larger than the smallest crop needs, images smaller than the network's input, and other shapes."""
    augment = Augment(crop=crop, randaugment=1)
    batches = [trained_on(module(folder, augment, cache=cache), epochs=2) for cache in ("none", "memory")]
    assert_same(*batches)


def test_auto_keeps_what_fits_at_the_size_that_crops_need(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 14 * 3 * 16 * 16 + 14 * 3 * 27 * 27 * 4 // 3  # validation images, and those that are cropped to a half
    for room, kept in ((needed + 14, True), (needed - 14, False)):
        assert module(folder, Augment(crop=0.5), cache="auto", cache_bytes=room).in_memory == kept


@pytest.mark.parametrize(
    ("has_gpu", "processes", "threads", "expected"),
    [(False, 1, 4, 2), (True, 1, 4, 25), (True, 2, 1, 12.5), (True, 1, 2, 12.5), (True, 100, 4, 2)],  # GiB
)
def test_the_automatic_cache_beside_a_gpu_is_a_share_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, has_gpu: bool, processes: int, threads: int, expected: float
) -> None:
    place = "vit.data.loading.module."
    monkeypatch.setattr(place + "memory_limit", lambda: 100 * 2**30)
    monkeypatch.setattr(place + "available_cores", lambda: 4)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert auto_cache_bytes(processes) == expected * 2**30


def test_images_in_memory_are_cropped_as_files_are(folder: Path) -> None:
    for name in SHADES:
        Image.open(folder / name).resize((SIDE, SIDE)).save(folder / name)  # of the final size already
    batches = [trained_on(module(folder, Augment(crop=0.3), cache=cache), epochs=1) for cache in ("none", "memory")]
    assert_same(*batches)
    uncropped = trained_on(module(folder, cache="memory"), epochs=1)
    assert not torch.equal(uncropped[0].image, batches[1][0].image)
    assert_same(uncropped, trained_on(module(folder, cache="none"), epochs=1))


@pytest.mark.faults("D13")
@pytest.mark.parametrize("options", [{"cache": "none"}, {"cache": "memory"}, {"cache": "none", "num_workers": 1}])
def test_a_bad_training_image_is_replaced_by_the_next(folder: Path, options: dict[str, Any]) -> None:
    bad = ["train/a/3.png", "train/a/6.png", "train/b/6.png"]  # the next of a/6 is b/0, another class; of b/6, a/0
    for name in bad:
        (folder / name).write_bytes(b"no image")
    batches = trained_on(module(folder, batch_size=14, **options), epochs=1)
    for batch in batches:
        assert_rows_belong_together(batch)
    counts = {name: sum(batch.path.count(name) for batch in batches) for name in SHADES if name.startswith("train")}
    twice = {"train/a/4.png", "train/b/0.png", "train/a/0.png"}
    assert counts == {name: 0 if name in bad else 2 if name in twice else 1 for name in counts}


@pytest.mark.faults("D21")
@pytest.mark.parametrize("options", [{"cache": "none"}, {"cache": "memory"}, {"num_workers": 1}, {"num_workers": 2}])
def test_a_bad_validation_image_has_no_valid_row_and_says_why(folder: Path, options: dict[str, Any]) -> None:
    bad = folder / "val/b/2.png"
    bad.write_bytes(bad.read_bytes()[:200])
    batches = list(module(folder, **options).evaluation_loader("validation"))
    rows = [row for b in batches for row in zip(b.path, b.error, b.valid.tolist(), b.image, strict=True)]
    assert [path for path, *_ in rows] == [name for name in SHADES if name.startswith("val")]
    for path, error, valid, image in rows:
        assert valid == (path != "val/b/2.png") and ("truncated" in error) == (not valid)
        if valid:
            assert image[0].unique().tolist() == [SHADES[path]]


def test_training_ends_where_no_image_is_left(folder: Path) -> None:
    for name in SHADES:
        (folder / name).unlink()
        (folder / name).touch()
    with pytest.raises(DataError, match=r"train/[ab]/\d.png: the file is empty"):
        trained_on(module(folder), epochs=1)


@pytest.mark.faults("D23")
def test_more_than_there_is_cannot_be_a_batch(folder: Path) -> None:
    with pytest.raises(DataError, match="batch_size 15 > 14 training images"):
        module(folder, batch_size=15).train_dataloader()


@pytest.mark.parametrize("consumed", [1, 3, 4])
def test_a_resumed_module_goes_on_with_the_next_batch(folder: Path, consumed: int) -> None:
    augment = Augment(crop=0.5, randaugment=1)
    expected = trained_on(module(folder, augment), epochs=2)
    data = module(folder, augment)
    data.load_state_dict({"consumed": consumed})
    resumed = trained_on(data, epochs=2)
    assert_same(resumed[: 6 - consumed], expected[consumed:])
    assert data.state_dict() == {"consumed": consumed + len(resumed)}


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("side", [SIDE, 20])
def test_arrays_are_color_images(color: bool, side: int) -> None:
    shape = (6, side, side, 3) if color else (6, side, side)
    arrays = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    samples = Samples([str(i) for i in range(6)], np.array([0, 1, 2, 0, 1, 2]), arrays=arrays)
    for augment in (None, ImageAugment(Augment(), Preprocess(SIDE))):
        dataset = ImageDataset(samples, Preprocess(SIDE), augment, seed=0, in_memory=False)
        batch = dataset.__getitems__([Key(EVALUATION, 4), Key(EVALUATION, 1, valid=False)])
        assert batch.image.shape == (2, 3, SIDE, SIDE) and batch.image.dtype == torch.uint8
        assert batch.label.tolist() == [1, 1] and batch.path == ("4", "1") and batch.valid.tolist() == [True, False]
        if side == SIDE:
            expected = arrays[[4, 1]].transpose(0, 3, 1, 2) if color else arrays[[4, 1], None].repeat(3, axis=1)
            assert np.array_equal(batch.image.numpy(), expected)
        if not color:
            assert torch.equal(batch.image[:, 0], batch.image[:, 2])


def test_arrays_of_many_sizes() -> None:
    arrays = [np.full((8 + i, 20 - i, 3), i, dtype=np.uint8) for i in range(5)] + [np.full((9, 9), 5, dtype=np.uint8)]
    source = Source(
        "made", ("x",), {"validation": Samples([str(i) for i in range(6)], np.zeros(6, int), arrays=arrays)}
    )
    data = ImageDataModule(source, Preprocess(SIDE), Augment(), LoaderOptions(2), seed=0)
    (batch,) = data.evaluation_loader("validation")
    assert [image.unique().tolist() for image in batch.image] == [[i] for i in range(6)]


def test_ranks_share_an_evaluation(folder: Path) -> None:
    dataset = module(folder).dataset("validation")
    seen = []
    for rank in range(3):
        for keys in EvaluationSampler(len(dataset), 4, rank, world_size=3):
            batch = dataset.__getitems__(keys)
            assert_rows_belong_together(batch)
            seen += [path for path, valid in zip(batch.path, batch.valid.tolist(), strict=True) if valid]
    assert sorted(seen) == sorted(name for name in SHADES if name.startswith("val"))


def test_a_batch_moves_as_one(folder: Path) -> None:
    (batch, *_) = module(folder).evaluation_loader("validation")
    moved = batch.to("meta")
    assert {moved.image.device.type, moved.label.device.type, moved.valid.device.type} == {"meta"}
    assert moved.draw_seed.device.type == "cpu" and moved.path == batch.path


def test_arrays_of_the_network_s_size_are_cut_in_training_as_in_evaluation() -> None:
    """A crop fraction below 1 also enlarges and crops arrays that already have the size of the input."""
    arrays = np.random.default_rng(0).integers(0, 256, (6, 16, 16, 3), dtype=np.uint8)
    samples = Samples([f"{place}" for place in range(6)], np.arange(6) % 2, arrays=arrays)
    source = Source("made", ("a", "b"), {"train": samples, "validation": samples})
    preprocess = Preprocess(16, 0.8)
    data = ImageDataModule(source, preprocess, Augment(), LoaderOptions(6, 0, "auto"), seed=5)
    (trained,), (evaluated,) = trained_on(data, epochs=1), list(data.evaluation_loader("validation"))
    places = [evaluated.path.index(path) for path in trained.path]
    assert torch.equal(data.augmented(trained).image, preprocess.normalize(evaluated.image[places]))
    assert not torch.equal(evaluated.image, torch.from_numpy(arrays).permute(0, 3, 1, 2))
