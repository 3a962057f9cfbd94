"""Shards of others: classes from .cls, .json or folders, splits from names, damaged files refused."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from vit.errors import DataError
from vit.extras.shards.index import read_index
from vit.extras.shards.tars import index_tars


def png(number):
    buffer = io.BytesIO()
    Image.fromarray(np.full((6, 6, 3), number, dtype=np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def tar(path, files):
    path.parent.mkdir(exist_ok=True, parents=True)
    with tarfile.open(path, "w") as file:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            file.addfile(entry, io.BytesIO(data))


def indexed(folder):
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.tar"))
    found = index_tars(folder, names, lambda done, total: None)
    found.write(folder / "index.parquet")
    return found, read_index((folder / "index.parquet").read_bytes(), "index")


def test_numbers_of_classes_are_sorted_as_numbers(tmp_path):
    tar(tmp_path / "a-000.tar", {"0.png": png(1), "0.cls": b"10\n", "1.png": png(2), "1.cls": b"9"})
    found, index = indexed(tmp_path)
    assert found.labels_from == ".cls" and index.labels == ["10", "9"] and index.class_names == ("9", "10")
    data = (tmp_path / "a-000.tar").read_bytes()
    parts = [data[start : start + length] for start, length in zip(index.offsets, index.lengths, strict=True)]
    assert parts == [png(1), png(2)]


def test_names_in_json_folders_and_splits_of_shard_names(tmp_path):
    tar(tmp_path / "by_json" / "flowers-train-0.tar", {"a.png": png(1), "a.json": b'{"label": "rose", "w": 6}'})
    tar(tmp_path / "by_json" / "flowers-val-0.tar", {"b.png": png(2), "b.json": b'{"label": "rose"}', "b.txt": b"?"})
    found, index = indexed(tmp_path / "by_json")
    assert (found.labels_from, index.labels, index.splits) == (".json", ["rose"] * 2, ["train", "validation"])
    assert found.num_others == 1
    tar(tmp_path / "by_folder" / "test" / "x.tar", {"./cat/1.png": png(1), "./dog/1.png": png(2)})
    found, index = indexed(tmp_path / "by_folder")
    assert (found.labels_from, index.labels, index.splits) == ("folders", ["cat", "dog"], ["test", "test"])
    assert index.keys == ["cat/1", "dog/1"]


def test_a_key_of_two_shards_gets_the_name_of_its_shard(tmp_path):
    for name in ("a", "b"):
        tar(tmp_path / f"{name}.tar", {"000.png": png(len(name)), "000.cls": b"0"})
    assert indexed(tmp_path)[1].keys == ["a/000", "b/000"]


@pytest.mark.faults("S4")
def test_damaged_and_unlabeled_shards_are_refused(tmp_path):
    tar(tmp_path / "no" / "a.tar", {"0.png": png(1), "0.cls": b"1", "1.png": png(2)})
    with pytest.raises(DataError, match=r"a.tar: '1' has no label \(1 of 2 images have one in .cls\)"):
        indexed(tmp_path / "no")
    tar(tmp_path / "two" / "a.tar", {"0.png": png(1), "0.jpg": png(2), "0.cls": b"1"})
    with pytest.raises(DataError, match="the key '0' has two images"):
        indexed(tmp_path / "two")
    tar(tmp_path / "none" / "a.tar", {"0.txt": b"x"})
    with pytest.raises(DataError, match="hold no images"):
        indexed(tmp_path / "none")
    whole = (tmp_path / "two" / "a.tar").read_bytes()
    for name, data in {"cut": whole[:600], "noise": b"\x01" * 2000, "zip": b"\x1f\x8b" + whole}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.tar").write_bytes(data)
        with pytest.raises(DataError, match="not a whole tar file"):
            indexed(tmp_path / name)
    tar(tmp_path / "bad" / "a.tar", {"0.png": png(1), "0.json": b"{"})
    with pytest.raises(DataError, match="not UTF-8 text or JSON"):
        indexed(tmp_path / "bad")


@pytest.mark.faults("S1")
def test_files_that_are_not_images_are_left_out(tmp_path):
    tar(tmp_path / "a.tar", {"x/0.png": png(1), "x/1.png": b"<html>", "x/2.jpg": b"", "y/3.png": png(2)})
    found, index = indexed(tmp_path)
    assert index.keys == ["x/0", "y/3"] and len(found.left_out) == 2 and "an HTML page" in found.left_out[0]


@pytest.mark.faults("S14")
def test_hidden_and_system_files_are_skipped_and_counted(vit, tmp_path):
    hidden = [".thumbnails/0.png", "photos/.ipynb_checkpoints/0.png", "__MACOSX/cat/0.png", "photos/cat/._0.png"]
    shown = {"./photos/cat/0.png": png(1), "photos/dog/0.png": png(2)}
    tar(tmp_path / "shards" / "a.tar", {**shown, **{name: png(3) for name in hidden}, "photos/Thumbs.db": b"?"})
    found, index = indexed(tmp_path / "shards")
    assert index.keys == ["photos/cat/0", "photos/dog/0"] and index.class_names == ("cat", "dog")
    assert (found.num_hidden, found.num_others, found.left_out) == (5, 0, [])
    answer = vit("data", "index", tmp_path / "shards", "--output", tmp_path / "shards" / "b.parquet")
    assert answer.code == 0 and "skipped: 5 hidden or system files of the shards" in answer.err
    tar(tmp_path / "none" / "a.tar", {name: png(3) for name in hidden})
    with pytest.raises(DataError, match=r"hold no images \(4 hidden or system files\)"):
        indexed(tmp_path / "none")


@pytest.mark.faults("S14")
def test_images_that_are_links_are_left_out_and_named(tmp_path):
    folder = tmp_path / "files" / "cat"
    folder.mkdir(parents=True)
    (folder / "0.png").write_bytes(png(0))
    (folder / "1.png").hardlink_to(folder / "0.png")
    (folder / "2.png").symlink_to("0.png")
    (tmp_path / "shards").mkdir()
    with tarfile.open(tmp_path / "shards" / "a.tar", "w") as file:
        for name in ("0.png", "1.png", "2.png"):
            file.add(folder / name, f"./cat/{name}")
    found, index = indexed(tmp_path / "shards")
    assert index.keys == ["cat/0"] and found.num_others == 0
    assert [text.partition("a.tar: ")[2] for text in found.left_out] == [
        "cat/1.png: a link inside the tar file, to ./cat/0.png",
        "cat/2.png: a link inside the tar file, to 0.png",
    ]
