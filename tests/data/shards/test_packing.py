"""A source and its shards: the same images, labels, splits, groups and hashes, and the same bytes each time."""

import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vit.data.checks.contents import read_contents
from vit.data.core.groups import with_groups
from vit.data.core.samples import label_names
from vit.data.loading.dataset import ImageDataset
from vit.data.loading.sampler import Key
from vit.data.pixels.augment import Augment, ImageAugment
from vit.data.pixels.images import image_of
from vit.data.pixels.preprocess import Preprocess
from vit.data.sources.sources import open_source
from vit.extras.shards.packing import pack
from vit.tasks.task import MULTI_LABEL


def packed(source, folder, shard_bytes=6_000):
    folder.mkdir()
    left_out = pack(source, folder, shard_bytes, lambda done, total: None)
    return open_source(str(folder)), left_out


@pytest.fixture(scope="module")
def both(colors, tmp_path_factory):
    """A folder as a source, and the source of its shards."""
    source = with_groups(open_source(str(colors)), r"/0*(\d)")
    found, left_out = packed(source, tmp_path_factory.mktemp("packed") / "shards")
    assert left_out == [] and found.name == "shards"
    return source, found


def test_shards_hold_the_same_data_set(both):
    source, found = both
    train, indexed = source.splits["train"], found.splits["train"]
    assert found.class_names == source.class_names and list(found.splits) == ["train"]
    assert label_names(indexed, found.class_names) == label_names(train, source.class_names)
    assert indexed.groups == train.groups and indexed.root is None
    assert list(indexed.paths) == [path.removesuffix(".png") for path in train.paths]
    assert all(bytes(indexed.encoded(row)) == train.encoded(row) for row in range(len(train)))
    assert len(set(indexed.reader.shards(indexed.paths).tolist())) > 3


def test_content_hashes_are_those_of_the_files_without_reading_the_shards(both, monkeypatch):
    source, found = both
    monkeypatch.setattr(type(found.splits["train"].reader), "read", lambda *_: pytest.fail("a shard was read"))
    assert read_contents(found).hashes == read_contents(source).hashes
    assert read_contents(found).unreadable == {"train": {}}


@pytest.mark.parametrize("in_memory", [False, True])
def test_batches_are_those_of_the_files(both, in_memory):
    """Also with random crops, whose draws depend on the index alone."""
    preprocess = Preprocess(image_size=8)
    augment = ImageAugment(Augment(), preprocess)
    datasets = [ImageDataset(one.splits["train"], preprocess, augment, 3, in_memory) for one in both]
    keys = [Key(1, index) for index in (5, 0, 41, 17)]
    mine, other = (dataset.__getitems__(keys) for dataset in datasets)
    assert (mine.image == other.image).all() and (mine.label == other.label).all()
    assert (mine.draw_seed == other.draw_seed).all()


def test_the_same_images_give_the_same_bytes(colors, tmp_path):
    for name in ("one", "two"):
        packed(open_source(str(colors)), tmp_path / name)
    names = sorted(os.listdir(tmp_path / "one"))
    assert names == sorted(os.listdir(tmp_path / "two")) and len(names) > 4
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names)


def test_the_layout_is_that_of_webdataset(both):
    """KEY.png and KEY.cls stand side by side, and the images of each shard are of mixed classes."""
    _, found = both
    folder = Path(found.splits["train"].reader._where).parent
    names, classes = [], []
    for shard in sorted(folder.glob("*.tar")):
        with tarfile.open(shard) as tar:
            members = tar.getmembers()
            assert all((one.mtime, one.uid, one.uname) == (0, 0, "") for one in members)
            names += [one.name for one in members]
            classes.append({tar.extractfile(one).read() for one in members if one.name.endswith(".cls")})
    pairs = list(zip(names[::2], names[1::2], strict=True))
    assert all(image == f"{label.removesuffix('.cls')}.png" for image, label in pairs) and len(pairs) == 42
    assert len(set.union(*classes)) == 3 and max(map(len, classes)) > 1


def test_arrays_and_splits(tmp_path):
    """Images without files become PNG files; each split has its own shards."""
    source = open_source("digits")
    found, _ = packed(source, tmp_path / "shards", 400_000)
    train, indexed = source.splits["train"], found.splits["train"]
    assert all((image_of(indexed, row) == image_of(train, row)).all() for row in range(0, 1797, 50))
    assert indexed.labels.tolist() == train.labels.tolist() and found.class_names == source.class_names


def test_several_labels_and_unknown_ones(labels_csv, tmp_path):
    source = open_source(str(labels_csv))
    found, _ = packed(source, tmp_path / "shards")
    assert found.class_names == source.class_names and found.task is MULTI_LABEL
    assert (found.splits["train"].labels == source.splits["train"].labels).all()
    with tarfile.open(tmp_path / "shards" / "train-000000.tar") as tar:
        names = tar.getnames()
        content = json.loads(tar.extractfile(names[1]).read())
    assert names[1].endswith(".json") and set(content) == {"labels"}


@pytest.mark.faults("S1")
def test_odd_names_get_keys_of_their_own_and_broken_images_are_left_out(mixed, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.b").symlink_to(mixed)
    other = tmp_path / "photos" / "other"
    other.mkdir()
    for name in ("x.png", "x.bmp", "x.1.png", ".y.png"):
        Image.fromarray(np.full((9, 9, 3), len(name), dtype=np.uint8)).save(other / name)
    source = open_source(str(tmp_path / "photos"))
    found, left_out = packed(source, tmp_path / "shards")
    paths = list(found.splits["train"].paths)
    assert sorted(Path(one.path).name for one in left_out) == ["empty.jpg", "thin.png"]
    assert len(paths) == len(set(paths)) == len(source.splits["train"]) - 2
    assert {"other/x", "other/x-2", "other/x_1"} <= set(paths) and "a.b/caf\\xe9" in paths
    assert found.class_names == ("a.b", "other")
    for row in range(len(paths)):
        found.splits["train"].encoded(row)


def test_keys_differ_in_more_than_the_case_of_letters(tmp_path):
    """Two members of a tar would be one file where a file system ignores the case."""
    for number, name in enumerate(("Hat/one.png", "hat/one.png", "hat/One.png", "hat/two.png")):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((9, 9, 3), 50 * number, dtype=np.uint8)).save(tmp_path / "photos" / name)
    source = open_source(str(tmp_path / "photos"))
    found, _ = packed(source, tmp_path / "shards", 400_000)
    assert list(found.splits["train"].paths) == ["Hat/one", "hat/One-2", "hat/one-3", "hat/two"]
    with tarfile.open(tmp_path / "shards" / "train-000000.tar") as tar:
        names = tar.getnames()
    assert len({name.casefold() for name in names}) == len(names) == 8
    assert found.class_names == ("Hat", "hat")
    both = (found.splits["train"], source.splits["train"])
    assert all((image_of(both[0], row) == image_of(both[1], row)).all() for row in range(4))
