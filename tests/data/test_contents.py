"""Hashes of images and weights: a replaced file has another hash, a moved file has the same."""

import os
import shutil
import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from vit.data.checks import contents
from vit.data.checks.contents import known_contents, read_contents
from vit.data.core.image_bytes import content_hash
from vit.data.core.samples import Samples, Source
from vit.data.sources.sources import open_source
from vit.errors import CheckpointError
from vit.weights.open import weights_hash


def train_hash(source):
    return read_contents(source).split_hashes(source)["train"]


def of_folder(folder):
    return train_hash(open_source(str(folder)))


def test_a_replaced_image_is_another_one(colors, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        shutil.copytree(colors, folder)
    assert of_folder(here) == of_folder(there)
    file = here / "red" / "03.png"
    before = file.stat()
    pixels = np.asarray(Image.open(file)).copy()
    pixels[0, 0, 0] ^= 1
    Image.fromarray(pixels).save(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a copy does that keeps modification times
    assert of_folder(here) != of_folder(there)
    file.write_bytes(b"")  # an unreadable image is not an error here: training takes another one
    assert of_folder(here) != of_folder(there)


def test_groups_count_where_there_are_some(colors):
    source = open_source(str(colors))
    train = source.splits["train"]
    of_two, of_three = (replace(train, groups=tuple(f"{n % k}" for n in range(len(train)))) for k in (2, 3))
    found = [train_hash(replace(source, splits={"train": one})) for one in (train, of_two, of_three)]
    assert len(set(found)) == 3
    assert found[0] == content_hash(
        train.fingerprint().encode(), *map(str.encode, read_contents(source).hashes["train"])
    )


def test_pixels_in_memory_count_too():
    digits = open_source("digits")
    train = digits.splits["train"]
    changed = train.arrays.copy()
    changed[0, 0, 0] += 1
    others = [replace(digits, splits={"train": replace(train, arrays=some)}) for some in (changed, list(train.arrays))]
    assert [train_hash(other) == train_hash(digits) for other in others] == [False, True]


def test_what_was_read_once_is_known_of_a_part(colors):
    source = open_source(str(colors))
    whole = read_contents(source)
    part = replace(source, splits={"train": source.splits["train"].select([3, 1, 7])})
    assert known_contents(part, whole.by_path(source)) == read_contents(part)
    more = replace(part, splits={"train": replace(part.splits["train"], paths=["a", "b", "c"])})
    assert known_contents(more, whole.by_path(source)) is None


def test_weights_of_a_run_a_file_and_a_folder(digits_run, tmp_path):
    assert weights_hash(str(digits_run.path)) == weights_hash(str(digits_run.best))
    assert weights_hash(str(shutil.copy(digits_run.best, tmp_path / "moved.ckpt"))) == weights_hash(
        str(digits_run.path)
    )
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    before = weights_hash(str(folder))
    (folder / "README.md").write_text("words")
    assert before == weights_hash(str(folder)) == weights_hash(str(folder / "model.safetensors"))  # with its configs
    (folder / "model.safetensors").write_bytes(b"Weights")
    assert weights_hash(str(folder)) != before
    assert weights_hash("timm:vit_tiny_patch16_224") == "timm:vit_tiny_patch16_224"
    with pytest.raises(CheckpointError, match="cannot be read"):
        weights_hash(str(tmp_path / "nowhere.safetensors"))


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder of hashes, and the names of the files that are read."""
    folder, names = tmp_path / "hashes", []
    monkeypatch.setenv("VIT_HASHES", str(folder))
    real = Samples.encoded

    def encoded(samples, index):
        names.append(samples.paths[index])
        return real(samples, index)

    monkeypatch.setattr(Samples, "encoded", encoded)
    return folder, names


def draw(path, gray):
    Image.new("L", (8, 8), gray).save(path)
    return path


def settle(monkeypatch, seconds):
    """The clock stands so many seconds later."""
    real = time.time
    monkeypatch.setattr(contents.time, "time", lambda: real() + seconds)


def three(tmp_path):
    (tmp_path / "images").mkdir()
    for number in range(3):
        draw(tmp_path / "images" / f"{number}.png", 50 * number)
    return of(tmp_path / "images", 3)


def of(folder, number):
    samples = Samples([f"{n}.png" for n in range(number)], np.zeros(number, dtype=np.int64), folder)
    return Source("three", ("one",), {"train": samples})


def test_the_second_reading_reads_only_what_has_changed(tmp_path, kept, monkeypatch):
    source, (folder, names) = three(tmp_path), kept
    settle(monkeypatch, 60)
    first = read_contents(source)
    assert sorted(names) == ["0.png", "1.png", "2.png"]
    names.clear()
    assert read_contents(source) == first
    assert names == []

    image = tmp_path / "images" / "1.png"
    before, size = image.stat(), image.stat().st_size
    draw(tmp_path / "other.png", 51)
    assert (tmp_path / "other.png").stat().st_size == size
    os.utime(tmp_path / "other.png", ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "other.png").rename(image)  # equal path, size and time of modification
    again = read_contents(source)
    assert names == ["1.png"]
    assert [a == b for a, b in zip(again.hashes["train"], first.hashes["train"], strict=True)] == [True, False, True]

    names.clear()
    for path in folder.iterdir():
        path.write_bytes(b"not a table of hashes")
    assert read_contents(source) == again
    assert len(names) == 3


def test_a_known_file_is_found_beside_nearly_equal_keys(tmp_path, kept, monkeypatch):
    """As floats, neighbors would be equal, and the whole table would be converted for each file."""
    folder, names = kept
    for number in range(12):
        draw(tmp_path / f"{number}.png", 20 * number)
    source = of(tmp_path, 12)
    settle(monkeypatch, 60)
    first = read_contents(source)
    (table,) = folder.iterdir()
    rows = np.fromfile(table, dtype="<u8").reshape(-1, 4)
    rows = np.concatenate([rows, rows - np.array([1, 0, 0, 0], dtype="<u8")])
    rows[np.argsort(rows[:, 0])].tofile(table)
    names.clear()
    assert read_contents(source) == first
    assert names == []


def test_a_file_that_has_just_changed_is_read_again(tmp_path, kept, monkeypatch):
    """A second change at once would have the same times on a file system with coarse ones."""
    source, (_, names) = three(tmp_path), kept
    read_contents(source)
    names.clear()
    read_contents(source)
    assert len(names) == 3


def test_what_is_not_an_image_is_read_again_and_named(tmp_path, kept, monkeypatch):
    source, (_, names) = three(tmp_path), kept
    (tmp_path / "images" / "2.png").write_bytes(b"text")
    settle(monkeypatch, 60)
    first = read_contents(source)
    names.clear()
    assert read_contents(source) == first
    assert list(first.unreadable["train"]) == [2]
    assert names == ["2.png"]


def test_hashes_are_bounded(tmp_path, kept, monkeypatch):
    source, (folder, _) = three(tmp_path), kept
    settle(monkeypatch, 60)
    monkeypatch.setattr(contents, "_MAX_FOLDER", 100)
    folder.mkdir()
    (folder / "older-0").write_bytes(b"\0" * 96)
    os.utime(folder / "older-0", (0, 0))
    read_contents(source)
    assert [path.stat().st_size for path in folder.iterdir()] == [96]
    assert not (folder / "older-0").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_cache_that_cannot_be_written_is_not_an_error(tmp_path, kept, monkeypatch):
    source, (folder, _) = three(tmp_path), kept
    settle(monkeypatch, 60)
    folder.mkdir(mode=0o500)
    assert read_contents(source).unreadable == {"train": {}}
