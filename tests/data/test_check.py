"""A data set with planted problems: the check finds all of them, and nothing else."""

import csv
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vit.data.checks import check as checking
from vit.data.checks.check import KINDS, Sizes, check
from vit.data.core.samples import Samples, Source
from vit.data.sources.sources import open_source


def checked(data):
    calls = []
    result = check(open_source(str(data), allow_empty=True), lambda done, total: calls.append((done, total)))
    images = sum(int(counts.sum()) for counts in result.counts.values())
    assert calls[-1] == (images, images) and calls == sorted(calls)
    return result


def told(result, root):
    """The findings as (severity, kind, split, label, path, other path), paths relative to `root`."""

    def short(path):
        return path and os.path.relpath(path, root)

    return {
        (one.severity, one.kind, one.split, one.label, short(one.path), short(one.other_path))
        for one in result.findings
    }


def saved_again(picture, path):
    """The same picture, a tenth smaller and strongly compressed."""
    picture.resize((picture.width * 9 // 10, picture.height * 9 // 10)).save(path, "JPEG", quality=60)


@pytest.fixture(scope="module")
def good(tmp_path_factory, scene):
    """Two classes in two splits, all pictures different, some with hostile names."""
    root = tmp_path_factory.mktemp("good") / "photos"
    seed = 0
    for split, each in (("train", 9), ("test", 6)):
        for label in ("cat", "dog"):
            folder = root / split / label
            folder.mkdir(parents=True)
            for place in range(each):
                seed += 1
                scene(seed).save(folder / f"{place}.png")
    for place, name in enumerate(("new\nline.png", "=cmd|'calc'!A0.png", "<script>alert(1)<.png")):
        (root / "train" / "cat" / f"{6 + place}.png").rename(root / "train" / "cat" / name)
    (root / "train" / "dog" / "8.png").rename(root / "train" / "dog" / os.fsdecode(b"caf\xe9.png"))
    return root


@pytest.fixture(scope="module")
def bad(tmp_path_factory, good, scene):
    """A copy of `good` with planted problems: the folder and the expected findings."""
    root = tmp_path_factory.mktemp("bad") / "photos"
    shutil.copytree(good, root)
    train, test = root / "train", root / "test"

    shutil.copy(train / "cat" / "0.png", test / "cat" / "copy.png")
    frames = {"save_all": True, "append_images": [scene(100)]}
    Image.open(train / "cat" / "1.png").save(test / "cat" / "copy.webp", lossless=True, **frames)  # the same pixels
    shutil.copy(train / "cat" / "2.png", train / "dog" / "was a cat.png")
    shutil.copy(train / "dog" / "2.png", train / "dog" / "again.png")
    saved_again(Image.open(train / "dog" / "3.png"), test / "dog" / "again.jpg")
    saved_again(Image.open(train / "cat" / "3.png"), train / "dog" / "again.jpg")
    saved_again(Image.open(train / "dog" / "4.png"), train / "dog" / "old.jpg")
    whole = (train / "cat" / "4.png").read_bytes()
    (train / "cat" / "=cut\n<script>.png").write_bytes(whole[: len(whole) // 2])
    (train / "cat" / "page.jpg").write_text("<!DOCTYPE html><html>404</html>")
    (train / "cat" / "nothing.jpg").write_bytes(b"")
    scene(101, 1, 300).save(train / "cat" / "line.png")
    scene(102).save(train / "cat" / "really a png.jpg", "PNG")
    scene(103, 300, 20).save(train / "cat" / "strip.png")
    scene(104, 15, 40).save(test / "dog" / "stamp.png")
    Image.new("RGB", (64, 48), (9, 99, 199)).save(train / "dog" / "blue.jpg")
    for place in range(3):
        (train / "rare").mkdir(exist_ok=True)
        scene(110 + place).save(train / "rare" / f"{place}.png")
    (train / "empty").mkdir()
    (train / "cat" / "notes.txt").write_text("no image")
    expected = {
        ("error", "same_image_across_splits", "test", "cat", "test/cat/copy.png", "train/cat/0.png"),
        ("error", "same_image_across_splits", "test", "cat", "test/cat/copy.webp", "train/cat/1.png"),
        ("error", "label_conflict", "train", "dog", "train/dog/was a cat.png", "train/cat/2.png"),
        ("warning", "duplicate", "train", "dog", "train/dog/again.png", "train/dog/2.png"),
        ("warning", "near_duplicate_across_splits", "test", "dog", "test/dog/again.jpg", "train/dog/3.png"),
        ("warning", "near_label_conflict", "train", "dog", "train/dog/again.jpg", "train/cat/3.png"),
        ("warning", "near_duplicate", "train", "dog", "train/dog/old.jpg", "train/dog/4.png"),
        ("error", "unreadable", "train", "cat", "train/cat/=cut\n<script>.png", ""),
        ("error", "unreadable", "train", "cat", "train/cat/page.jpg", ""),
        ("error", "unreadable", "train", "cat", "train/cat/nothing.jpg", ""),
        ("error", "unreadable", "train", "cat", "train/cat/line.png", ""),
        ("warning", "wrong_extension", "train", "cat", "train/cat/really a png.jpg", ""),
        ("warning", "odd_shape", "train", "cat", "train/cat/strip.png", ""),
        ("warning", "tiny", "test", "dog", "test/dog/stamp.png", ""),
        ("warning", "one_color", "train", "dog", "train/dog/blue.jpg", ""),
        ("warning", "several_frames", "test", "cat", "test/cat/copy.webp", ""),
        ("warning", "rare_class", "train", "rare", "", ""),
        ("warning", "empty_class", "train", "empty", "", ""),
        ("warning", "empty_class", "test", "empty", "", ""),
        ("warning", "empty_class", "test", "rare", "", ""),
        ("warning", "note", "", "", "", ""),
    }
    return root, expected


def test_good_images_give_no_finding(good):
    result = checked(good)
    assert result.findings == [] and result.errors == 0
    assert {split: counts.tolist() for split, counts in result.counts.items()} == {"train": [9, 9], "test": [6, 6]}
    sizes = result.sizes["train"]
    assert sizes == Sizes(readable=18, median_height=60, median_width=80, smallest=60, largest=80)


@pytest.mark.faults("D16")
def test_every_planted_problem_is_found_and_nothing_else(bad):
    root, expected = bad
    result = checked(root)
    assert told(result, root) == expected and len(result.findings) == len(expected)
    assert result.errors == sum(line[0] == "error" for line in expected)
    order = [(one.severity, KINDS.index(one.kind)) for one in result.findings]
    assert order == sorted(order) and all(one.detail and one.suggestion for one in result.findings)
    assert result.sizes["train"].readable == result.counts["train"].sum() - 4


def test_a_csv_of_the_same_images_says_the_same(bad, tmp_path):
    root, expected = bad
    source = open_source(str(root), allow_empty=True)
    listed = root.parent / "list.csv"
    with open(listed, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label", "split"))
        for split, samples in source.splits.items():
            for path, label in zip(samples.paths, samples.labels, strict=True):
                writer.writerow((os.path.join("photos", path), source.class_names[label], split))
    of_folders_alone = {line for line in expected if line[3] == "empty" or line[1] == "note"}
    assert told(checked(listed), root) == expected - of_folders_alone


def test_many_long_images_are_named_with_what_the_crop_hides(draw_classes, scene, tmp_path):
    root = draw_classes(tmp_path / "photos", ("cat", "dog"), 10)
    scene(1, 200, 50).save(root / "cat" / "receipt.png")
    scene(2, 300, 100).save(root / "dog" / "fish.png")
    long = [one for one in checked(root).findings if one.kind == "long_images"]
    assert [(one.severity, one.path) for one in long] == [("warning", "")]
    assert "2 of 22 images are longer than 2:1, such as" in long[0].detail and "receipt.png (200x50" in long[0].detail
    assert "hides 71 % of the area in the median, and up to 75 %" in long[0].suggestion
    (root / "cat" / "receipt.png").unlink()
    assert not [one for one in checked(root).findings if one.kind == "long_images"]  # one of 21 is no reason


def test_the_reasons_are_the_decoder_s(bad):
    details = {Path(one.path).name: one.detail for one in checked(bad[0]).findings if one.kind == "unreadable"}
    assert details["page.jpg"] == "an HTML page, not an image" and details["nothing.jpg"] == "the file is empty"
    assert "damaged PNG" in details["=cut\n<script>.png"] and "1x300 pixels" in details["line.png"]


def test_without_splits_a_duplicate_would_be_split_at_random(good, tmp_path):
    root = tmp_path / "flat"
    shutil.copytree(good / "train", root)
    shutil.copy(root / "cat" / "0.png", root / "cat" / "z.png")
    shutil.copy(root / "cat" / "1.png", root / "dog" / "z.png")
    result = checked(root)
    assert told(result, root) == {
        ("warning", "duplicate", "train", "cat", "cat/z.png", "cat/0.png"),
        ("error", "label_conflict", "train", "dog", "dog/z.png", "cat/1.png"),
    }
    (duplicate,) = (one for one in result.findings if one.kind == "duplicate")
    assert "random split" in duplicate.suggestion


def arrays(counts, images=None, class_names=None, **splits):
    """A source of arrays, with `counts` training images per class."""

    def samples(split, counts, images):
        labels = np.repeat(np.arange(len(counts)), counts)
        if images is None:
            images = np.random.default_rng([len(split), *counts]).integers(0, 256, (len(labels), 20, 20, 3), np.uint8)
        return Samples([f"x/{split}/{i}" for i in range(len(labels))], labels, arrays=images)

    names = class_names or tuple(f"c{number}" for number in range(len(counts)))
    parts = {"train": samples("train", counts, images)}
    return Source("x", names, parts | {split: samples(split, given, None) for split, given in splits.items()})


def kinds(source):
    return [(one.kind, one.split, one.label) for one in check(source, lambda done, total: None).findings]


def test_classes_that_are_empty_rare_or_uneven():
    assert kinds(arrays([5, 49])) == []
    assert kinds(arrays([5, 50])) == [("imbalance", "train", "")]
    assert kinds(arrays([5, 0, 4], test=[1, 5, 5])) == [
        ("empty_class", "train", "c1"), ("rare_class", "train", "c2"), ("rare_class", "test", "c0")
    ]  # fmt: skip


def test_notes_of_the_source_are_passed_on():
    source = arrays([5, 5])
    source.notes.append("classes 'a' and 'A' differ only in case")
    assert kinds(source) == [("note", "", "")]


def test_very_large_images(monkeypatch):
    monkeypatch.setattr(checking, "LARGE_PIXELS", 399)
    found = check(arrays([5, 5]), lambda done, total: None).findings
    assert {one.kind for one in found} == {"very_large"} and len(found) == 10 and found[0].detail == "20x20 pixels"


def test_where_all_images_are_tiny_none_is_odd():
    images = np.random.default_rng(0).integers(0, 256, (12, 8, 8), dtype=np.uint8)
    assert kinds(arrays([6, 6], images)) == []


def test_nearly_empty_pictures_are_not_called_alike():
    images = np.random.default_rng(0).integers(100, 110, (12, 24, 24, 3), dtype=np.uint8)
    assert kinds(arrays([6, 6], images)) == []
    images[:] = 100
    found = kinds(arrays([6, 6], images))
    assert found.count(("one_color", "train", "c0")) == 6 and "near_duplicate" not in {kind for kind, _, _ in found}
    assert ("label_conflict", "train", "c1") in found


def test_nothing_readable_at_all(tmp_path):
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for place in range(5):
            (tmp_path / label / f"{place}.jpg").write_bytes(b"")
    result = checked(tmp_path)
    assert {one.kind for one in result.findings} == {"unreadable"} and result.errors == 10
    assert result.sizes["train"].readable == 0


def test_every_finding_kind_has_a_place_in_the_report(bad):
    assert {one.kind for one in checked(bad[0]).findings} == set(KINDS) - {
        "long_images",
        "very_large",
        "imbalance",
        "group_across_splits",
        "channels",
        "more_than_8_bits",
    }


def test_equal_pictures_with_other_labels_are_errors_and_labels_are_counted(tmp_path, scene):
    rows = ["path,labels"]
    for place in range(12):
        scene(500 + place).save(tmp_path / f"{place}.png")
        rows.append(f"{place}.png,{'a|b' if place % 3 else 'a' if place % 2 else ''}")
    for place, labels in ((1, "?b"), (2, "a|b"), (3, "b")):  # of pictures with a|b, a|b and a
        shutil.copy(tmp_path / f"{place}.png", tmp_path / f"again{place}.png")
        rows.append(f"again{place}.png,{labels}")
    (tmp_path / "t.csv").write_text("\n".join(rows))
    result = check(open_source(str(tmp_path / "t.csv")), lambda *_: None)
    pairs = {(one.kind, one.label, one.other_label) for one in result.findings if one.path and one.other_path}
    assert pairs == {("label_conflict", "?b", "a|b"), ("label_conflict", "b", "a"), ("duplicate", "a|b", "a|b")}
    assert result.counts["train"].tolist() == [11, 10] and result.num_images == {"train": 15} and result.errors == 2


def test_the_advice_for_an_image_in_two_splits_names_what_is_wrong(tmp_path, scene):
    for split, seeds in (("train", (0, 1, 2)), ("val", (3, 4)), ("test", (5, 4, 1))):
        for label in ("cat", "dog"):
            (tmp_path / split / label).mkdir(parents=True)
            for seed in seeds if label == "cat" else (seeds[0] + 20,):
                scene(seed).save(tmp_path / split / label / f"{seed}.png")
    advice = {
        os.path.relpath(one.other_path, tmp_path): one.suggestion
        for one in checked(tmp_path).findings
        if one.kind == "same_image_across_splits"
    }
    assert set(advice) == {"train/cat/1.png", "val/cat/4.png"}
    assert "must not be a training image" in advice["train/cat/1.png"]
    assert "the validation images choose the checkpoint" in advice["val/cat/4.png"]


def test_a_label_that_is_not_known_conflicts_with_none(tmp_path, scene):
    scene(600).save(tmp_path / "0.png")
    rows = ["path,a,b,c", "0.png,0,0,1"]
    for place, labels in enumerate((",0,1", "0,,0"), start=1):
        shutil.copy(tmp_path / "0.png", tmp_path / f"{place}.png")
        rows.append(f"{place}.png,{labels}")
    for place in range(3, 14):
        scene(600 + place).save(tmp_path / f"{place}.png")
        rows.append(f"{place}.png,{place % 2},{place % 3 % 2},1")
    (tmp_path / "t.csv").write_text("\n".join(rows))
    found = check(open_source(str(tmp_path / "t.csv")), lambda *_: None).findings
    pairs = {(one.kind, Path(one.path).name, Path(one.other_path).name) for one in found if one.other_path}
    assert pairs == {("duplicate", "1.png", "0.png"), ("label_conflict", "2.png", "0.png")}
