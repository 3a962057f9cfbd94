"""Hashes of images and weights: a replaced file has another hash, a moved file has the same."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from vit.data.contents import known_contents, read_contents
from vit.data.image_bytes import content_hash
from vit.data.sources import open_source
from vit.errors import CheckpointError
from vit.weights.hashing import weights_hash


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
    assert weights_hash(str(folder)) == before
    (folder / "model.safetensors").write_bytes(b"Weights")
    assert weights_hash(str(folder)) != before
    assert weights_hash("timm:vit_tiny_patch16_224") == "timm:vit_tiny_patch16_224"
    with pytest.raises(CheckpointError, match="cannot be read"):
        weights_hash(str(tmp_path / "nowhere.safetensors"))
