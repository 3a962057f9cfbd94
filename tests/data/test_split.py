"""Validation and test images cut from the training images, and splits.csv."""

import math
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vit.data.core.samples import Samples, Source
from vit.data.sources.sources import open_source
from vit.data.splits.split import fold_numbers, read_splits, with_all_splits, write_splits
from vit.data.splits.stratified import stratified
from vit.data.splits.subset import subset
from vit.errors import DataError


def source_of(*counts: int, order_seed: int | None = None) -> Source:
    """One class for each count, in order or shuffled."""
    paths = [f"{label}/{number:03d}.jpg" for label, count in enumerate(counts) for number in range(count)]
    labels = np.repeat(np.arange(len(counts)), counts)
    samples = Samples(paths, labels, Path("/data"))
    if order_seed is not None:
        samples = samples.select(np.random.default_rng(order_seed).permutation(len(paths)))
    return Source("made", tuple(map(str, range(len(counts)))), {"train": samples})


def members(source: Source) -> dict[str, set[tuple[str, str]]]:
    """Split -> (file, class name)."""
    return {
        split: {(str(samples.file(i).resolve()), source.class_names[samples.labels[i]]) for i in range(len(samples))}
        for split, samples in source.splits.items()
    }


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=120),
    st.lists(st.floats(0.01, 0.3), min_size=1, max_size=3),
    st.integers(0, 2**31),
)
def test_every_class_is_divided_alike(labels: list[int], shares: list[float], seed: int) -> None:
    parts = stratified(np.array(labels), shares, seed)
    assert len(parts) == len(shares) + 1
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))  # disjoint and complete
    outside = sum(max(1, math.floor(len(labels) * share)) for share in shares) / len(labels)
    for label, count in zip(*np.unique(labels, return_counts=True), strict=True):
        sizes = [sum(labels[row] == label for row in part) for part in parts]
        assert sizes[-1] >= min(count / 2, math.floor(count * (1 - outside))) and sizes[-1] >= 1
        for size, share in zip(sizes, shares, strict=False):
            assert size <= math.ceil(count * max(share, 1 / len(labels))) + 1


@pytest.mark.faults("D61")
@pytest.mark.parametrize("seed", range(3))
def test_the_test_images_of_a_long_tail_have_the_proportions_of_all_images(seed: int) -> None:
    counts = np.maximum(1, 2000 / np.arange(1, 1001) ** 1.2).astype(int)
    labels = np.repeat(np.arange(1000), counts)
    validation, test, train = stratified(labels, [0.1, 0.2], seed)
    kept, several = np.bincount(labels[train], minlength=1000), counts > 1
    assert (2 * kept[several] >= counts[several]).all() and (kept >= 1).all()
    for most in (2, 3, 5, 10, 20):  # of classes with more than one image, which alone can be tested
        rare = np.flatnonzero(several & (counts <= most))
        for part, share in ((validation, 0.1), (test, 0.2)):
            assert abs(np.isin(labels[part], rare).sum() - share * np.isin(labels, rare).sum()) < 12
    for count in (3, 4, 5):  # each class alone would be rounded alike
        alike = np.repeat(np.arange(200), count)
        parts = stratified(alike, [0.1, 0.2], seed)
        assert [abs(len(part) - share * len(alike)) <= 1 for part, share in zip(parts, (0.1, 0.2, 0.7), strict=True)]
        assert (2 * np.bincount(alike[parts[2]]) >= count).all()


@pytest.mark.parametrize("kind", ["cut", "balanced", pytest.param("natural", marks=pytest.mark.slow), "fold"])
def test_many_classes_cost_one_sort(kind: str) -> None:
    """A pass over all images for each of 20,000 classes would take a minute here."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(20_000), 10))
    samples = Samples([f"{number:06d}" for number in range(len(labels))], labels)
    began = time.process_time()
    if kind == "cut":
        stratified(labels, [0.1, 0.2], 0)
    elif kind == "fold":
        fold_numbers(samples, tuple(map(str, range(20_000))), 5, 0)
    else:
        subset(samples, 100_000, 0, kind)  # type: ignore[arg-type]
    assert time.process_time() - began < 5


def test_shares_are_of_all_images() -> None:
    source = with_all_splits(source_of(100, 60), validation=0.15, test=0.1, seed=0)
    counts = {split: np.bincount(samples.labels).tolist() for split, samples in source.splits.items()}
    assert counts == {"validation": [15, 9], "test": [10, 6], "train": [75, 45]}
    note = "cut 24 for validation and 16 for test from the 160 training images (stratified, seed 0)"
    assert source.notes == [note] and source.class_names == ("0", "1")


@pytest.mark.faults("D19", simulated="names are given in another order")
@pytest.mark.parametrize("order_seed", [1, 2])
def test_the_order_of_listing_does_not_matter(order_seed: int) -> None:
    listed = members(with_all_splits(source_of(30, 20, 7), 0.2, 0.1, seed=3))
    assert listed == members(with_all_splits(source_of(30, 20, 7, order_seed=order_seed), 0.2, 0.1, seed=3))


def test_the_seed_decides_and_nothing_else() -> None:
    splits = [members(with_all_splits(source_of(40, 40), 0.2, 0.1, seed)) for seed in (0, 0, 1)]
    assert splits[0] == splits[1]
    assert all(splits[0][split] != splits[2][split] for split in splits[0])


@pytest.mark.faults("D19", simulated="a cut is compared with one from before")
def test_a_cut_stays_the_same_for_ever() -> None:
    """Runs of other machines and earlier versions are compared on the same images."""
    source = with_all_splits(source_of(6, 6, order_seed=0), validation=0.2, test=0.2, seed=0)
    cut = {split: sorted(source.splits[split].paths) for split in ("validation", "test")}
    assert cut == {"validation": ["0/000.jpg", "1/005.jpg"], "test": ["0/003.jpg", "1/003.jpg"]}


def test_tiny_classes() -> None:
    source = with_all_splits(source_of(1, 2, 3, 40), validation=0.2, test=0.2, seed=0)
    counts = {split: np.bincount(source.splits[split].labels, minlength=4).tolist() for split in source.splits}
    assert counts == {"train": [1, 1, 2, 24], "validation": [0, 0, 1, 8], "test": [0, 1, 0, 8]}
    with pytest.raises(DataError, match="5 images of 5 classes are too few to cut a validation split"):
        with_all_splits(source_of(1, 1, 1, 1, 1), validation=0.2, test=0.0, seed=0)


def test_many_classes_of_two_images_are_cut() -> None:
    """A tenth of two images is less than one image. Over all classes together the cut still has the wanted size."""
    before = source_of(*[2] * 500)
    source = with_all_splits(before, validation=0.1, test=0.2, seed=3)
    assert {split: len(source.splits[split]) for split in source.splits} == {
        "train": 700,
        "validation": 100,
        "test": 200,
    }
    assert set(source.splits["train"].labels.tolist()) == set(range(500))
    whole = [path for split in source.splits for path in source.splits[split].paths]
    assert sorted(whole) == sorted(before.splits["train"].paths)
    assert not set(source.splits["validation"].labels) & set(source.splits["test"].labels)  # half of two images stays
    again, other = (with_all_splits(source_of(*[2] * 500, order_seed=1), 0.1, 0.2, seed) for seed in (3, 4))
    assert members(again) == members(source) != members(other)
    few = with_all_splits(source_of(*[1] * 60, *[2] * 40), validation=0.1, test=0.2, seed=0)
    assert set(few.splits["train"].labels.tolist()) == set(range(100))
    assert 7 <= len(few.splits["validation"]) <= 9 and 15 <= len(few.splits["test"]) <= 17  # of 80 images, not of 140


def test_splits_that_the_source_has_are_kept() -> None:
    given_source = source_of(20, 20)
    given_source.splits["test"] = Samples(["t.jpg"], np.array([1]), Path("/data"))
    source = with_all_splits(given_source, validation=0.1, test=0.5, seed=0)
    assert source.splits["test"] is given_source.splits["test"]
    assert len(source.splits["validation"]) == 4 and len(source.splits["train"]) == 36
    assert with_all_splits(source, validation=0.1, test=0.5, seed=1) is source
    assert set(with_all_splits(source_of(20, 20), validation=0.1, test=0.0, seed=0).splits) == {"train", "validation"}


@pytest.mark.faults("D15")
def test_written_splits_read_back_as_they_were(tmp_path: Path) -> None:
    folders = ["plain", "a b", "caf\u00e9", 'quo"te,', "new\nline", "=cmd", os.fsdecode(b"latin-\xe9")]
    for number, folder in enumerate(folders):
        for image in range(5):
            path = tmp_path / "data" / folder / f"{number},{image}\r\n\U0001f436.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    before = with_all_splits(open_source(str(tmp_path / "data")), 0.2, 0.2, seed=0)
    hashes = {split: [f"{place}" for place in range(len(samples))] for split, samples in before.splits.items()}
    write_splits(before, tmp_path / "splits.csv", hashes)
    after = open_source(str(tmp_path / "splits.csv"))
    assert after.class_names == before.class_names and members(after) == members(before)
    assert {split: len(samples) for split, samples in after.splits.items()} == {"train": 21, "validation": 7, "test": 7}
    write_splits(after, tmp_path / "again.csv", hashes)  # a run that starts from splits.csv writes another one
    assert members(open_source(str(tmp_path / "again.csv"))) == members(before)


def test_a_class_keeps_its_number_where_validation_lacks_it(tmp_path: Path) -> None:
    for name in ("a/1", "b/1", "b/2", "b/3", "c/1", "c/2", "c/3"):
        path = tmp_path / "data" / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    cut = with_all_splits(open_source(str(tmp_path / "data")), 0.3, 0.0, seed=0)
    hashes = {split: [""] * len(samples) for split, samples in cut.splits.items()}
    write_splits(cut, tmp_path / "splits.csv", hashes)
    after = open_source(str(tmp_path / "splits.csv"))
    assert after.class_names == ("a", "b", "c") and after.splits["validation"].labels.tolist() == [1, 2]
    assert after.notes == ["validation has no image of 1 class: a (2 of 3 classes have validation images)"]


def test_images_for_calibration_come_from_the_training_images_alone() -> None:
    before = members(with_all_splits(source_of(40, 40), 0.2, 0.1, 0))
    after = members(with_all_splits(source_of(40, 40), 0.2, 0.1, 0, calibration=0.1))
    assert {split: after[split] for split in ("validation", "test")} == {
        split: before[split] for split in ("validation", "test")
    }
    assert len(after["calibration"]) == 8
    assert set(after["train"]) | set(after["calibration"]) == set(before["train"])
    assert not set(after["train"]) & set(after["calibration"])


def test_a_split_for_calibration_is_refused_as_data(tmp_path: Path) -> None:
    for name in ("1.jpg", "2.jpg"):
        (tmp_path / name).touch()
    (tmp_path / "splits.csv").write_text("path,label,split\n1.jpg,a,train\n2.jpg,b,calibration\n")
    with pytest.raises(DataError, match="line 3: split is 'calibration', which DATA cannot have") as caught:
        open_source(str(tmp_path / "splits.csv"))
    assert "--data.calibration" in str(caught.value.fix)


def test_a_list_of_a_run_with_another_split_is_damaged(tmp_path: Path) -> None:
    """Its images would otherwise be of no split, without a word."""
    table = "path,label,split,content,name\n1.png,a,train,0,1.png\n2.png,a,tset,1,2.png\n"
    (tmp_path / "splits.csv").write_text(table)
    with pytest.raises(DataError, match="is damaged: it has the split 'tset'"):
        read_splits(tmp_path / "splits.csv")
