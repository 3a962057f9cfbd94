"""DATA as a folder or a name: class names and images of each split."""

import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vit import registry
from vit.checkpoints.run import has_no_classes
from vit.data.core.dataset_names import check_data
from vit.data.core.groups import group_notes, with_groups
from vit.data.core.image_files import image_files
from vit.data.core.samples import Source
from vit.data.sources.sources import open_source
from vit.errors import DataError, UsageError, install
from vit.tasks.label_text import clean_label
from vit.training.planning.images import kept_together
from vit.training.recipes.image_options import DataConfig

ABOVE = "their images count as images of the folders above"


def touch(root: Path, *names: str | bytes) -> Path:
    """Empty files below `root`; sources are read without opening an image."""
    for name in names:
        path = Path(os.fsdecode(os.path.join(os.fsencode(root), os.fsencode(name))))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def labels(source: Source, split: str = "train") -> dict[str, str]:
    """Path -> class name."""
    samples = source.splits[split]
    return dict(zip(samples.paths, (source.class_names[number] for number in samples.labels), strict=True))


def refused(root: Path | str, **options: bool) -> str:
    with pytest.raises(DataError) as caught:
        open_source(str(root), **options)
    assert caught.value.fix
    return str(caught.value)


def test_digits_come_with_the_installation() -> None:
    source = open_source("digits")
    samples = source.splits["train"]
    assert source.class_names == tuple("0123456789") and len(samples) == 1797 == len(set(samples.paths))
    assert samples.arrays.shape == (1797, 8, 8) and samples.arrays.dtype == np.uint8
    assert samples.arrays.min() == 0 and samples.arrays.max() == 255
    assert np.bincount(samples.labels).min() > 170


def test_class_folders(tmp_path: Path) -> None:
    source = open_source(str(touch(tmp_path, "dog/2.jpg", "dog/1.PNG", "cat/x.webp", "cat/deep/er/y.jpeg")))
    assert source.class_names == ("cat", "dog") and source.name == tmp_path.name
    assert source.notes == [f"folders inside class folders, such as cat/deep/er/, hold 1 image; {ABOVE}"]
    expected = {"cat/deep/er/y.jpeg": "cat", "cat/x.webp": "cat", "dog/1.PNG": "dog", "dog/2.jpg": "dog"}
    assert labels(source) == expected and list(source.splits) == ["train"]
    assert source.splits["train"].file(3) == tmp_path / "dog/2.jpg"


@pytest.mark.parametrize("train", ["train", "Training"])
@pytest.mark.parametrize("validation", ["val", "valid", "validation"])
@pytest.mark.parametrize("test", ["test", "Testing"])
def test_split_folders_and_their_synonyms(tmp_path: Path, train: str, validation: str, test: str) -> None:
    for folder in (train, validation, test):
        touch(tmp_path, f"{folder}/a/1.jpg", f"{folder}/b/2.jpg")
    source = open_source(str(touch(tmp_path, "notes/x.jpg")))
    assert source.class_names == ("a", "b")
    for split, folder in (("train", train), ("validation", validation), ("test", test)):
        assert labels(source, split) == {f"{folder}/a/1.jpg": "a", f"{folder}/b/2.jpg": "b"}
    assert source.notes == ["skipped notes/, which lies beside train/"]


@pytest.mark.faults("D1", "D2", "D10")
def test_what_cannot_be_a_data_set_is_named(tmp_path: Path) -> None:
    assert "there is no" in refused(tmp_path / "missing")
    flat = touch(tmp_path / "flat", "1.jpg", "2.png", "readme.txt")
    assert "no class folders (2 images" in refused(flat) and "<class>/<image>" in refused(flat)
    assert "one class, 'a'" in refused(touch(tmp_path / "one", "a/1.jpg"))
    for name in ("one", "split"):  # a table beside the folder of images
        root = touch(tmp_path / name, "labels.csv", *["train/1.jpg"] * (name == "split"))
        assert f"give {root / 'labels.csv'} as DATA" in refused(root)
    assert "test/ but no train/" in refused(touch(tmp_path / "no_train", "test/a/1.jpg"))
    assert "val and valid" in refused(touch(tmp_path / "twice", "train/a/1.jpg", "val/a/1.jpg", "valid/a/1.jpg"))
    os.mkfifo(tmp_path / "fifo.csv")
    assert "fifo.csv" in refused(tmp_path / "fifo.csv")


@pytest.mark.faults("D7")
def test_images_to_measure_need_no_training_images_and_no_second_class(tmp_path: Path) -> None:
    one = open_source(str(touch(tmp_path / "one", "a/1.jpg")), to_measure=True)
    assert one.class_names == ("a",) and list(one.splits) == ["train"]
    for folder, split in (("test", "test"), ("val", "validation")):
        found = open_source(str(touch(tmp_path / f"of_{folder}", f"{folder}/a/1.jpg")), to_measure=True)
        assert labels(found, split) == {f"{folder}/a/1.jpg": "a"} and list(found.splits) == [split]
    both = touch(tmp_path / "both", "train/b/1.jpg", "test/a/1.jpg", "test/b/1.jpg")
    assert "lack: 'a'" in refused(both)
    assert labels(open_source(str(both), to_measure=True), "test") == {"test/a/1.jpg": "a", "test/b/1.jpg": "b"}
    for wrong, words in (
        (touch(tmp_path / "flat", "1.jpg"), "no class folders (1 images"),
        (touch(tmp_path / "loose", "test/1.jpg"), "test is taken for the test split and has no class folders"),
        (touch(tmp_path / "raw", "test/a/1.dng"), "raw has no images (1 file ending in .dng)"),
        (touch(tmp_path / "beside", "test/1.jpg", "b/1.jpg"), "no class folders; beside it: b/"),
        (touch(tmp_path / "tiny", "val/images/1.jpg", "val/of_val.txt"), "tiny/val/of_val.txt lists them"),
        (touch(tmp_path / "hub", "test/1.jpg", "test/metadata.jsonl"), "write_csv(json.read_json("),
    ):
        assert words in refused(wrong, allow_empty=True, to_measure=True)
    (tmp_path / "empty" / "a").mkdir(parents=True)
    assert "empty has no images" in refused(tmp_path / "empty", allow_empty=True, to_measure=True)


def test_typo_in_a_data_set_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'fashion_mnist'"):
        open_source("fashion_mnst")


@pytest.mark.faults("D4")
def test_empty_class(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.jpg", "b/readme.txt", "c/1.jpg")
    assert str(tmp_path / "b") in refused(tmp_path)
    source = open_source(str(tmp_path), allow_empty=True)
    assert source.class_names == ("a", "b", "c") and source.splits["train"].labels.tolist() == [0, 2]
    assert "train has no image of 1 class: b (2 of 3 classes have training images)" in source.notes
    assert "no training images" in refused(touch(tmp_path / "empty", "a/x", "b/x"), allow_empty=True)


@pytest.mark.faults("D6", "N6")
def test_classes_of_the_other_splits(tmp_path: Path) -> None:
    touch(tmp_path, "train/a/1.jpg", "train/b/1.jpg", "train/c/1.jpg", "val/b/1.jpg", "test/a/1.jpg", "test/c/1.jpg")
    source = open_source(str(tmp_path))
    assert source.splits["validation"].labels.tolist() == [1] and source.splits["test"].labels.tolist() == [0, 2]
    assert "validation has no image of 2 classes: a, c (1 of 3 classes have validation images)" in source.notes
    assert "test has no image of 1 class: b (2 of 3 classes have test images)" in source.notes
    assert not any("has no image" in note for note in kept_together(source, DataConfig(fold="1/2")).notes)
    touch(tmp_path, "val/B/1.jpg", "val/zebra/1.jpg")
    message = refused(tmp_path)
    assert "'B', 'zebra'" in message and "'a', 'b', 'c'" in message and str(tmp_path / "val") in message


@pytest.mark.faults("D5", "D11", "D13", "D14")
def test_what_is_passed_over_is_counted(tmp_path: Path) -> None:
    touch(tmp_path, "a/1.jpg", "a/._1.jpg", "a/Thumbs.db", "a/.cache/2.jpg", "a/x.DNG", "a/README", "b/1.jpg")
    touch(tmp_path, ".ipynb_checkpoints/x.jpg", "__MACOSX/a/._1.jpg", "__pycache__/a.pyc", "loose.jpg")
    (tmp_path / "a" / "broken.jpg").symlink_to("missing.jpg")
    (tmp_path / "a" / "self.jpg").symlink_to("self.jpg")
    os.mkfifo(tmp_path / "a" / "fifo.jpg")
    os.mknod(tmp_path / "b" / "socket.jpg", 0o140644)
    (tmp_path / "b" / "folder.jpg").mkdir()
    (tmp_path / "self").symlink_to("self")
    source = open_source(str(tmp_path))
    assert source.class_names == ("a", "b") and list(source.splits["train"].paths) == ["a/1.jpg", "b/1.jpg"]
    assert source.notes == [
        "skipped: 2 FIFOs, sockets or devices, 2 broken links, 2 files beside the class folders, "
        "1 file ending in .DNG, 1 file ending in nothing, 6 hidden or system files",
        "convert the raw files to JPEG, for example with ImageMagick: "
        f"find {tmp_path} -iname '*.dng' -exec magick mogrify -format jpg {{}} +",
    ]


@pytest.mark.parametrize(("files", "groups"), [
    (("cat/p1/a/1.jpg", "cat/p1/b/1.jpg", "dog/p2/1.jpg"), ("p1", "p1", "p2")),
    (("train/a/p1/1.jpg", "train/a/p2/1.jpg", "train/b/p3/1.jpg"), ("p1", "p2", "p3")),
])  # fmt: skip
def test_the_expression_for_folders_of_patients_fits_all_depths(tmp_path: Path, files: Any, groups: Any) -> None:
    source = open_source(str(touch(tmp_path, *files)))
    expression = source.notes[-1].partition("--data.groups '")[2].partition("'")[0]
    assert with_groups(source, expression).splits["train"].groups == groups


@pytest.mark.faults("D12")
def test_every_real_folder_is_read_once(tmp_path: Path) -> None:
    touch(tmp_path, "data/a/1.jpg", "data/a/deep/2.jpg", "data/b/1.jpg", "elsewhere/3.jpg")
    (tmp_path / "data/a/deep/loop").symlink_to("..")
    (tmp_path / "data/a/up").symlink_to("..")  # would make the images of b images of a
    (tmp_path / "data/a/far_up").symlink_to("../..")
    (tmp_path / "data/a/beside").symlink_to("../b")
    (tmp_path / "data/b/linked").symlink_to("../../elsewhere")
    source = open_source(str(tmp_path / "data"))
    assert labels(source) == {"a/1.jpg": "a", "a/deep/2.jpg": "a", "b/1.jpg": "b", "b/linked/3.jpg": "b"}
    deeper = f"folders inside class folders, such as a/deep/, hold 2 images; {ABOVE}"
    assert source.notes == [deeper, "skipped: 4 links back to a folder already read"]


def test_a_linked_class_folder_is_a_class(tmp_path: Path) -> None:
    touch(tmp_path, "data/a/1.jpg", "elsewhere/2.jpg")
    (tmp_path / "data/b").symlink_to("../elsewhere")
    assert labels(open_source(str(tmp_path / "data"))) == {"a/1.jpg": "a", "b/2.jpg": "b"}


@pytest.mark.faults("D15")
def test_odd_names_keep_every_byte(tmp_path: Path) -> None:
    odd = [b"a b/ c .jpg", "caf\u00e9/\U0001f436.jpg".encode(), b"new\nline/x\ny.jpg", b"-rf/--help.jpg"]
    odd += [b"<script>/\"><img src=x>.jpg", b"latin-\xe9/\xff\xfe.jpg", b"long/" + b"x" * 251 + b".jpg"]  # fmt: skip
    source = open_source(str(touch(tmp_path, *odd)))
    assert {os.fsencode(path) for path in source.splits["train"].paths} == set(odd)
    assert {os.fsencode(name) for name in source.class_names} == {name.split(b"/")[0] for name in odd}
    assert all(source.splits["train"].file(index).is_file() for index in range(len(odd)))
    assert len(source.splits["train"].fingerprint()) == 16


@pytest.mark.faults("D8")
def test_nearly_equal_class_names_are_noted(tmp_path: Path) -> None:
    ids = [f"{2**53}/1.jpg", f"{2**53 + 1}/1.jpg"]  # which are one as floats
    touch(tmp_path, "Cat/1.jpg", "cat/1.jpg", "cat/2.jpg", "1/1.jpg", "1.0/1.jpg", "nan/1.jpg", "fox/1.jpg", *ids)
    source = open_source(str(tmp_path))
    assert source.class_names == ("1", "1.0", "9007199254740992", "9007199254740993", "Cat", "cat", "fox", "nan")
    alike = "differ only in case, spaces, Unicode form or number format"
    assert source.notes[:2] == [
        f"classes '1' (1 image) and '1.0' (1 image) {alike}",
        f"classes 'Cat' (1 image) and 'cat' (2 images) {alike}",
    ]
    assert "class 'nan' (1 image) is a usual word for a missing label" in source.notes[2]
    assert "leave these images out, or with several labels the cell empty" in source.notes[2]


def test_masks_and_changed_copies_are_told_by_their_names(tmp_path: Path) -> None:
    paths = ("1.jpg", "1_mask.png", "1_maskless.png", "b-aug2.jpg", "lone_mask.png", "flip.jpg")
    touch(tmp_path, "a/1.jpg", "a_augmented/2.jpg", "b/b.png", *(f"b/{path}" for path in paths))
    source = open_source(str(tmp_path))
    assert "'a_augmented' (1 image) is called as masks or changed copies of 'a' (1 image)" in source.notes[0]
    (note,) = group_notes(source)
    assert note.startswith("WARNING: 2 images are named as masks or changed copies of others, such as b/1_mask: leave")
    option = re.search("--data.groups '(.*)' keeps them together", note)
    assert option is not None
    grouped = with_groups(source, option[1])
    groups = dict(zip(grouped.splits["train"].paths, grouped.splits["train"].groups or (), strict=True))
    assert groups["b/1_mask.png"] == groups["b/1.jpg"] and groups["b/b-aug2.jpg"] == groups["b/b.png"]
    assert len(set(groups.values())) == 7 and not group_notes(grouped)


def test_folders_of_systems_and_parts_of_data_sets_are_no_classes(tmp_path: Path) -> None:
    touch(tmp_path / "nas", "a/1.jpg", "a/@eaDir/1.jpg", "b/1.jpg", "@eaDir/1.jpg", "lost+found/x.jpg")
    source = open_source(str(tmp_path / "nas"))
    assert source.class_names == ("a", "b") and len(source.splits["train"]) == 2
    pets = touch(tmp_path / "pets", "images/1.jpg", "Masks/1.png")
    assert "Masks/ and images/, which are parts of a data set and no classes" in refused(pets)
    assert open_source(str(touch(tmp_path / "faces", "mask/1.jpg", "no mask/1.jpg"))).class_names == ("mask", "no mask")


def test_measured_values_are_no_classes(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{i}.jpg" for i in range(12)))
    table = tmp_path / "values.csv"
    table.write_text("path,label\n" + "".join(f"{i}.jpg,{i + 0.25}\n" for i in range(12)))
    assert "12 different values such as 0.25 as classes; vit predicts no measured values" in refused(table)
    table.write_text("path,label\n" + "".join(f"{i}.jpg,{i % 4 / 2}\n" for i in range(12)))
    assert open_source(str(table)).class_names == ("0.0", "0.5", "1.0", "1.5")


@pytest.mark.faults("D8")
def test_class_folders_that_look_the_same_are_one_class(tmp_path: Path) -> None:
    """A Mac writes NFD, and tables of other programs NFC."""
    touch(tmp_path, "train/dog /1.jpg", "train/dog/2.jpg", "train/e\u0301/1.jpg", "val/\u00e9/1.jpg", "val/dog/1.jpg")
    source = open_source(str(tmp_path))
    assert source.class_names == ("dog", "\u00e9")
    assert labels(source) == {
        "train/dog/2.jpg": "dog", "train/dog /1.jpg": "dog", "train/e\u0301/1.jpg": "\u00e9",
    }  # fmt: skip
    assert labels(source, "validation") == {"val/dog/1.jpg": "dog", "val/\u00e9/1.jpg": "\u00e9"}
    assert f"'dog' and 'dog ' in {tmp_path / 'train'} are one class" in source.notes[0]


@pytest.mark.faults("D3")
@pytest.mark.parametrize("names", [
    ("train_set", "test_set"), ("train_images", "test_images"), ("train_1", "val_1"), ("Trainset", "Testset"),
    ("seg_train/seg_train", "seg_test/seg_test"), ("images_train", "images_dev"), ("TRAIN", "test-data"),
    ("train/train", "test/test"), ("train2017", "val2017"),
])  # fmt: skip
def test_splits_of_other_names_are_no_classes(tmp_path: Path, names: tuple[str, str]) -> None:
    train, other = names
    touch(tmp_path, *(f"{name}/{label}/{i}.jpg" for name in names for label in ("cat", "dog") for i in (1, 2)))
    source = open_source(str(touch(tmp_path, "seg_pred/1.jpg")))
    assert source.class_names == ("cat", "dog") and len(source.splits) == 2
    assert labels(source) == {f"{train}/{label}/{i}.jpg": label for label in ("cat", "dog") for i in (1, 2)}
    assert f"{train}/ is read as train" in source.notes or train.casefold() == "train"
    assert "skipped seg_pred/, which lies beside" in " ".join(source.notes)
    second = next(split for split in source.splits if split != "train")
    assert f"{other}/ is read as {second}" in source.notes


@pytest.mark.faults("D3")
def test_what_may_be_splits_or_classes_is_refused(tmp_path: Path) -> None:
    """Variants, folds, sources: images of one class would get as many labels."""
    for names in (("fold1", "fold2", "fold3"), ("original", "augmented"), ("train_1", "train_2"), ("a/x", "b/y"),
                  ("train_set", "test_set", "extra")):  # fmt: skip
        root = tmp_path / "_".join(names).replace("/", "")
        touch(root, *(f"{name}/{label}/1.jpg" for name in names for label in ("cat", "dog", "eel")))
        message = refused(root)
        assert "hold the same folders, such as cat/ and dog/" in message and f"such as {root}/" in message
        touch(root, f"{names[0]}/cat/2.jpg", f"{names[1]}/eel/2.jpg")
        assert "hold the same folders" in refused(root, to_measure=True)
    inside = touch(tmp_path / "in", *(f"{split}/{part}/{label}/1.jpg" for split in ("train", "test")
                                      for part in ("v1", "v2") for label in ("cat", "dog")))  # fmt: skip
    assert f"all folders of {inside / 'train'}" in refused(inside)
    reverse = touch(tmp_path / "reverse", *(f"{label}/{split}/1.jpg" for split in ("train", "test") for label in "ab"))
    assert "splits in classes" in refused(reverse) and "DATA/test/a/IMAGE" in refused(reverse)
    deeper = touch(tmp_path / "deep", *(f"x/{split}/{label}/1.jpg" for split in ("train", "test") for label in "ab"),
                   *(f"y/{split}/{label}/1.jpg" for split in ("train", "test") for label in "ab"))  # fmt: skip
    assert f"give {deeper / 'x'} as DATA" in refused(deeper)


@pytest.mark.faults("D3")
@pytest.mark.parametrize(
    ("folders", "words"),
    [
        (("train_images", "test_images"), "which are called as splits and have no class folders; give "),
        (("HAM10000_images_part_1", "HAM10000_images_part_2"), "which are called as parts of one data set"),
        (("images_001", "images_012"), "which are called as parts of one data set"),
    ],
)
def test_folders_of_splits_and_parts_beside_a_table_are_no_classes(tmp_path: Path, folders, words) -> None:
    """APTOS and other competitions, HAM10000, NIH: a network would learn the folder of an image."""
    touch(tmp_path, *(f"{folder}/{number}.png" for folder in folders for number in range(3)), "test.csv", "train.csv")
    for to_measure in (False, True):
        message = refused(tmp_path, to_measure=to_measure)
        assert words in message and f"give {tmp_path / 'train.csv'} as DATA" in message
    grades = touch(tmp_path / "grades", *(f"grade_{grade}/{number}.png" for grade in "123" for number in range(3)))
    touch(grades, "train.csv")
    source = open_source(str(grades))
    assert len(source.class_names) == 3
    assert "classes are the names of the folders; tables beside them are not read: train.csv" in source.notes


def test_a_folder_of_images_to_predict_lies_beside_splits(tmp_path: Path) -> None:
    """Kaggle's Intel images: seg_train/seg_train/CLASS, seg_test/seg_test/CLASS and seg_pred/seg_pred/IMAGE."""
    touch(tmp_path, *(f"seg_{split}/seg_{split}/{label}/1.jpg" for split in ("train", "test") for label in "ab"))
    touch(tmp_path, "seg_pred/seg_pred/1.jpg")
    source = open_source(str(tmp_path))
    assert list(source.splits) == ["train", "test"] and source.class_names == ("a", "b")
    assert "skipped seg_pred/, which lies beside train/" in source.notes
    mixed = touch(
        tmp_path / "mixed", *(f"{part}/{label}/1.jpg" for part in ("v1", "v2") for label in "ab"), "a/x/1.jpg"
    )
    assert f"give one folder, such as {mixed / 'v1'}, or" in refused(mixed)


def test_a_class_that_is_a_link_to_another_one_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "cat/1.jpg", "dog/1.jpg", "elsewhere/eel/1.jpg")
    (tmp_path / "cat" / "kitten").symlink_to(tmp_path / "cat")
    (tmp_path / "elsewhere").rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    (tmp_path / "eel").symlink_to(tmp_path.parent / f"{tmp_path.name}-elsewhere" / "eel")
    assert open_source(str(tmp_path)).class_names == ("cat", "dog", "eel")
    (tmp_path / "puppy").symlink_to("dog")
    assert f"{tmp_path / 'dog'} and {tmp_path / 'puppy'} are one folder" in refused(tmp_path)


@pytest.mark.faults("D10")
def test_the_folder_that_holds_the_classes_is_advised(tmp_path: Path) -> None:
    """Food-101, CUB-200, DTD and Stanford Dogs: images/CLASS beside folders of lists. Else there is one class alone."""
    touch(tmp_path, "images/cat/1.jpg", "images/dog/1.jpg", "annotation/cat/1.xml", "annotation/dog/1.xml")
    assert f"elsewhere; or give {tmp_path / 'images'} as DATA, if it holds the classes" in refused(tmp_path)
    with pytest.raises(DataError, match="has one class with training images, 'images'") as refusal:
        open_source(str(tmp_path), allow_empty=True)
    assert f"give {tmp_path / 'images'} as DATA" in refusal.value.fix


def test_folders_in_classes_stay_images_of_their_class(tmp_path: Path) -> None:
    """One folder in each class, other folders in each, or images beside them: the class folders are the classes."""
    one = touch(tmp_path / "one", "cat/images/1.jpg", "dog/images/1.jpg")
    other = touch(tmp_path / "other", "cat/a/1.jpg", "cat/b/1.jpg", "dog/c/1.jpg", "dog/d/1.jpg")
    for root, count in ((one, 2), (other, 4)):
        source = open_source(str(root))
        assert source.class_names == ("cat", "dog") and len(source.splits["train"]) == count
        assert [ABOVE in note for note in source.notes] == [True]
    some = touch(tmp_path / "some", *(f"{c}/{v}/1.jpg" for c in ("cat", "dog") for v in "ab"), "eel/1.jpg")
    source = open_source(str(some))
    assert (
        len(source.splits["train"]) == 5 and "cat/ and dog/ hold the same folders, such as a/ and b/" in source.notes[0]
    )


@pytest.mark.faults("D11")
def test_images_without_an_ending_are_known_by_their_first_bytes(tmp_path: Path) -> None:
    """ImageNet-like sets and DICOM series have such names; a text without an ending is skipped."""
    touch(tmp_path, "cat/README", "dog/README")
    picture = Image.new("RGB", (8, 8))
    for kind in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "AVIF", "PPM"):
        for number, name in enumerate(("cat", "dog")):
            picture.save(tmp_path / name / f"{kind}{'.12' * number}", kind)
    source = open_source(str(tmp_path))
    assert len(source.splits["train"]) == 16 and source.notes == ["skipped: 2 files ending in nothing"]
    touch(tmp_path / "text", "a/1", "b/2")
    assert "convert its files to JPEG or PNG, or move the folder" in refused(tmp_path / "text")


def test_a_table_among_images_is_named(tmp_path: Path) -> None:
    touch(tmp_path, "train/1.png", "train/2.png", "train/metadata.csv")
    assert f"give {tmp_path / 'train' / 'metadata.csv'} as DATA" in refused(tmp_path / "train")
    touch(tmp_path, "test/1.png")
    assert f"give {tmp_path / 'train' / 'metadata.csv'} as DATA" in refused(tmp_path)


def test_image_files_of_any_folder(tmp_path: Path) -> None:
    skipped: Counter[str] = Counter()
    touch(tmp_path, "b.jpg", "a/2.png", "a/10.png", "x.txt", ".hidden.jpg")
    assert image_files(tmp_path, skipped) == ["a/10.png", "a/2.png", "b.jpg"]
    assert skipped == {"files ending in .txt": 1, "hidden or system files": 1}


class_names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20).filter(
    lambda name: not name.startswith(".") and name not in ("Thumbs.db", "desktop.ini", "__MACOSX")
)


@pytest.mark.faults("D6", "N6")
@settings(max_examples=15)
@given(st.sets(class_names, min_size=2, max_size=6), st.data())
def test_class_numbers_are_those_of_train_in_every_split(train: set[str], data: st.DataObject) -> None:
    known = st.sampled_from(sorted(train))
    others = st.sets(known, min_size=1) | st.sets(known, min_size=1) | st.sets(known | class_names, min_size=1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        given_classes = {"train": train, "val": data.draw(others), "test": data.draw(others)}
        for split, names in given_classes.items():
            touch(root, *(f"{split}/{name}/{number}.jpg" for name in names for number in range(2)))
        known_names = set(map(clean_label, train))
        unknown = {clean_label(name) for name in given_classes["val"] | given_classes["test"]} - known_names
        if unknown:
            assert any(repr(name) in refused(root) for name in unknown)
            return
        source = open_source(folder)
        assert source.class_names == tuple(dict.fromkeys(map(clean_label, sorted(train))))
        for samples in source.splits.values():
            assert len(samples) >= 2
            for path, number in zip(samples.paths, samples.labels, strict=True):
                assert clean_label(path.split("/")[1]) == source.class_names[number]


@pytest.mark.faults("D11")
def test_photographs_of_a_telephone_need_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "some", "a/1.jpg", "a/2.HEIC", "b/1.jpg", "b/3.dng")
    assert list(open_source(str(tmp_path / "some")).splits["train"].paths) == ["a/1.jpg", "a/2.HEIC", "b/1.jpg"]
    monkeypatch.setitem(registry.LIBRARIES, "HEIF", "not_installed")
    notes = open_source(str(tmp_path / "some"), allow_empty=True).notes  # which 'vit data check' lists
    assert notes[1].startswith(f"to read the HEIC files: {install('heif')}; convert the raw files to JPEG")
    touch(tmp_path / "all", "a/1.HEIC", "b/1.heic")
    with pytest.raises(
        DataError, match=r"1 file ending in .HEIC, 1 file ending in .heic.*; to read the HEIC files: .*pip install"
    ) as caught:
        open_source(str(tmp_path / "all"), allow_empty=True)
    assert "remove" not in str(caught.value)


def test_a_class_that_is_called_as_a_split_is_told(tmp_path: Path) -> None:
    for name in ("bus", "car", "train"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    with pytest.raises(DataError, match=r"train is taken for the training split .*bus/, car/") as told:
        open_source(str(tmp_path))
    assert "rename it" in told.value.fix


@pytest.mark.parametrize(
    ("files", "note"),
    [
        (("cat/a/1.png", "cat/b/2.png", "dog/3.png"), "if these are the classes, give {}/cat as DATA"),
        (("train/animals/cat/1.png", "train/animals/dog/2.png", "train/plants/rose/3.png"), "hold 3 images"),
        (("cat/1.png", "cat/small/1.png", "dog/2.png"), "such as cat/small/, hold 1 image;"),
    ],
)
def test_images_in_folders_of_class_folders_are_counted(tmp_path: Path, files: tuple[str, ...], note: str) -> None:
    (found,) = [one for one in open_source(str(touch(tmp_path, *files))).notes if ABOVE in one]
    assert note.format(tmp_path) in found


def test_commands_that_errors_name_quote_their_paths(tmp_path):
    """A copied command fell apart at a space."""
    run = tmp_path / "my runs"
    run.mkdir()
    for name in ("config.yaml", "splits.csv"):
        (run / name).touch()
    with pytest.raises(UsageError, match="not images") as error:
        check_data(str(run))
    assert f"vit train '{run}' --epochs" in str(error.value.fix)
    assert str(has_no_classes(run).fix).endswith(f"--init_from '{run}'")
