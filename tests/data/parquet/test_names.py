"""Splits of parquet files by their names, as Hugging Face names them."""

import pytest

from vit.errors import DataError
from vit.extras.parquet.open import files_of_splits


@pytest.mark.parametrize(
    ("names", "splits", "note"),
    [
        (["train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"], {"train": 2, "test": 1}, ""),
        (["data/train-00000-of-00001-0f1e2d3c4b", "data/valid-00000-of-00001"], {"train": 1, "validation": 1}, ""),
        (["train/0000", "train/0001", "val/0000"], {"train": 2, "validation": 1}, ""),
        (["photos_train_1", "photos_train_2", "photos_test"], {"train": 2, "test": 1}, ""),
        (["a", "b"], {"train": 2}, ""),
        (["photos-00000-of-00001"], {"train": 1}, ""),
        (["cifar-train-00000-of-00001", "cifar-dev-00000-of-00001"], {"train": 1, "validation": 1}, ""),
        (["train-00000-of-00001", "unlabeled-00000-of-00001"], {"train": 1}, "left out unlabeled (1 file)"),
        (["train-00000-of-00001", "train_extra-00000-of-00001"], {"train": 1}, "left out train_extra"),
        (["train", "notes", "more"], {"train": 1}, "left out more (1 file)"),
    ],
)
def test_files_of_splits(names, splits, note):
    found, notes = files_of_splits([f"{name}.parquet" for name in names], "photos")
    assert {split: len(files) for split, files in found.items()} == splits
    assert note in "; ".join(notes) and bool(note) == bool(notes)


@pytest.mark.faults("L20")
@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["train-00000-of-00003", "train-00002-of-00003"], "2 of 3 files of train; train-00001-of-00003 is missing"),
        (["train-00000-of-00001", "train-00001-of-00002", "train-00000-of-00002", "train-00001-of-00001"], "files of"),
        (["partial-train/0000", "test/0000"], "only the first part of train"),
        (["val-00000-of-00001", "validation-00000-of-00001", "train-00000-of-00001"], "both for validation"),
        (["test-00000-of-00001"], "has test but no training images"),
    ],
)
def test_files_that_are_not_a_whole_data_set(names, words):
    with pytest.raises(DataError) as caught:
        files_of_splits([f"{name}.parquet" for name in names], "photos")
    assert words in str(caught.value)


def test_titles_that_are_given_come_before_names():
    found, _ = files_of_splits(["a.parquet", "b.parquet"], "photos", {"a.parquet": "test", "b.parquet": "train"})
    assert found == {"train": ["b.parquet"], "test": ["a.parquet"]}
