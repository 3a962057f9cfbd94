"""Splits and labels of the shards of others: what the names of shards, folders and other files say, or an error."""

import json

import pytest

from tests.data.shards.test_tars import indexed, png, tar
from vit.data.sources.sources import open_source
from vit.errors import DataError


def of_splits(*folders, labels=False):
    """Files of two classes in each folder."""
    files = {}
    for place, folder in enumerate(folders):
        for number, name in enumerate(("cat", "dog")):
            key = f"{folder}/{name}/{place}"
            files[f"{key}.png"] = png(2 * place + number)
            files |= {f"{key}.cls": f"{number}".encode()} if labels else {}
    return files


def counts(folder):
    return {split: len(images) for split, images in open_source(str(folder)).splits.items()}


@pytest.mark.parametrize(
    ("word", "split"), [("dev", "validation"), ("valid", "validation"), ("eval", "test"), ("evaluation", "test")]
)
def test_shards_are_named_like_parquet_files(tmp_path, word, split):
    for name in ("train", word):
        tar(tmp_path / f"{name}-000.tar", {"cat/0.png": png(1), "dog/1.png": png(2)})
    assert sorted(indexed(tmp_path)[1].splits) == sorted([split, "train"] * 2)
    assert counts(tmp_path) == {"train": 2, split: 2}


@pytest.mark.parametrize(("above", "name"), [("", "photos"), ("photos/2024/", "photos"), ("", "train")])
def test_folders_of_splits_inside_a_shard(tmp_path, above, name):
    tar(tmp_path / f"{name}.tar", of_splits(f"{above}Train", f"{above}val", f"{above}test"))
    found, index = indexed(tmp_path)
    assert index.splits == ["train"] * 2 + ["validation"] * 2 + ["test"] * 2 and found.has_split_folders
    assert found.labels_from == "folders" and index.labels == ["cat", "dog"] * 3
    assert counts(tmp_path) == {"train": 2, "validation": 2, "test": 2}


def test_folders_of_splits_are_not_classes(tmp_path):
    tar(tmp_path / "labeled" / "a.tar", of_splits("train", "dev", labels=True))
    found, index = indexed(tmp_path / "labeled")
    assert (found.labels_from, index.labels) == (".cls", ["0", "1"] * 2)
    assert index.splits == ["train"] * 2 + ["validation"] * 2
    tar(tmp_path / "loose" / "a.tar", {"train/0.png": png(1), "test/1.png": png(2)})
    with pytest.raises(DataError, match=r"a.tar: 'train/0', a.tar: 'test/1' have no label"):
        indexed(tmp_path / "loose")
    tar(tmp_path / "vehicles" / "a.tar", {"train/0.png": png(1), "car/1.png": png(2)})
    found, index = indexed(tmp_path / "vehicles")
    assert index.labels == ["train", "car"] and index.splits == ["train"] * 2 and not found.has_split_folders


@pytest.mark.parametrize("way", ["folders", ".cls", ".json"])
def test_labels_are_read_as_those_of_folders(tmp_path, way):
    """One class in two Unicode forms, and with spaces around it, is one class."""
    files = {}
    for number, name in enumerate(("caf\u00e9", "cafe\u0301", " caf\u00e9 ", "dog")):
        key = f"{name}/{number}" if way == "folders" else f"{number}"
        files[f"{key}.png"] = png(number)
        if way != "folders":
            text = json.dumps({"label": name}) if way == ".json" else f"{name}\n"
            files[key + way] = text.encode()
    tar(tmp_path / "a.tar", files)
    found, index = indexed(tmp_path)
    assert found.labels_from == way and index.labels == ["caf\u00e9"] * 3 + ["dog"]


def test_a_folder_of_spaces_is_no_class(tmp_path):
    tar(tmp_path / "a.tar", {" /0.png": png(0), "dog/1.png": png(1)})
    with pytest.raises(DataError, match="has no label"):
        indexed(tmp_path)


@pytest.mark.faults("S13")
def test_images_of_an_unknown_split_are_refused(tmp_path):
    for name in ("train-000", "more/000", "more/001"):
        tar(tmp_path / "names" / f"{name}.tar", {"cat/0.png": png(1), "dog/1.png": png(2)})
    with pytest.raises(DataError, match=r"2 of 3 shards name no split, .*: more/000.tar, more/001.tar\b") as caught:
        indexed(tmp_path / "names")
    assert "such as train-000.tar" in str(caught.value)
    tar(tmp_path / "folders" / "a.tar", of_splits("train", "val", "extra"))
    with pytest.raises(DataError, match=r"a.tar: 'extra/cat/2', .* beside the folders train/, val/ \(2 of 6 images\)"):
        indexed(tmp_path / "folders")


def test_the_command_says_that_folders_name_the_splits(vit, tmp_path):
    tar(tmp_path / "photos.tar", of_splits("train", "test"))
    vit("data", "index", tmp_path).ok("(2 train, 2 test by their folders), 2 classes from folders")


@pytest.mark.faults("S4")
@pytest.mark.parametrize(
    ("way", "label"), [("cls", b"%d"), ("json", b'{"label": "%d"}'), ("json", b'{"class": %d, "width": 6}')]
)
def test_folders_are_the_labels_only_where_no_image_has_another(tmp_path, way, label):
    files = {}
    for number in range(8):
        key = f"part{number // 4}/{number}"
        files |= {f"{key}.png": png(number), f"{key}.{way.upper() if number < 4 else way}": label % (number % 2)}
    tar(tmp_path / "whole" / "a.tar", files)
    assert indexed(tmp_path / "whole")[0].labels_from == f".{way}"
    del files[f"part1/5.{way}"]
    tar(tmp_path / "one" / "a.tar", files)
    with pytest.raises(DataError, match=rf"a.tar: 'part1/5' has no label \(7 of 8 images have one in .{way}\)"):
        indexed(tmp_path / "one")
    files[f"part0/2.{way.upper()}"] = b"" if way == "cls" else b"{}"
    tar(tmp_path / "two" / "a.tar", files)
    with pytest.raises(DataError, match=r"a.tar: 'part0/2', a.tar: 'part1/5' have no label \(6 of 8") as caught:
        indexed(tmp_path / "two")
    assert f"remove all .{way} files" in str(caught.value)


def test_labels_of_a_few_images_are_not_passed_over_for_another_file(tmp_path):
    files = {f"{number}.{way}": b'{"label": "x"}' for number in range(3) for way in ("json", "cls")}
    tar(tmp_path / "a.tar", {name: data for name, data in files.items() if name != "1.cls"} | {"1.png": png(1)})
    assert indexed(tmp_path)[0].labels_from == ".json"  # a .cls without an image is nothing
    tar(tmp_path / "a.tar", {"0.png": png(0), "0.cls": b"7", "1.png": png(1), **files, "1.cls": b""})
    with pytest.raises(DataError, match=r"'1' has no label \(1 of 2 images have one in .cls\)"):
        indexed(tmp_path)


def test_a_label_file_that_is_too_large_is_named(tmp_path):
    tar(tmp_path / "a.tar", {"0.png": png(1), "0.json": b" " * 2**21})
    with pytest.raises(DataError, match=r"a.tar: 0.json has 2,097,152 bytes; the limit is 1,048,576; make the file sm"):
        indexed(tmp_path)
