"""DATA on the command line -> class names and images of each split: CSV files and torchvision's sets."""

import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from vit.data.samples import Source
from vit.data.sources import open_source
from vit.errors import DataError


def table(root: Path, content: str | bytes) -> Path:
    """A CSV beside four image files."""
    for name in ("1.jpg", "2.jpg", "3.jpg", "odd, name\n.jpg"):
        (root / name).touch()
    path = root / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def labels(source: Source, split: str) -> dict[str, str]:
    """Path -> class name."""
    samples = source.splits[split]
    return dict(zip(samples.paths, (source.class_names[number] for number in samples.labels), strict=True))


def test_a_table_without_splits_is_all_training(tmp_path: Path) -> None:
    source = open_source(str(table(tmp_path, "\ufefflabel,path,note\nb,1.jpg,\na,2.jpg,x\n")))
    assert source.class_names == ("a", "b") and source.name == "table" and list(source.splits) == ["train"]
    assert labels(source, "train") == {"1.jpg": "b", "2.jpg": "a"}
    assert source.splits["train"].file(0) == tmp_path / "1.jpg"


def test_a_table_with_splits(tmp_path: Path) -> None:
    rows = f'path,label,split\n1.jpg,a,\n{tmp_path}/2.jpg,b,Train\n3.jpg,b,val\n"odd, name\n.jpg",a,testing\n'
    source = open_source(str(table(tmp_path, rows)))
    assert labels(source, "train") == {"1.jpg": "a", f"{tmp_path}/2.jpg": "b"}
    assert labels(source, "validation") == {"3.jpg": "b"} and labels(source, "test") == {"odd, name\n.jpg": "a"}
    assert source.splits["train"].file(1) == tmp_path / "2.jpg"


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ("filename,class\n1.jpg,b\n2.jpg,a\n", "'filename' as path, 'class' as label"),
        ("path;label\n1.jpg;b\n2.jpg;a\n", "separated by semicolons"),
        ("\ufeffImage Path\tCategory\tx\n1.jpg\tb\ty\n2.jpg\ta\tz\n", "'Image Path' as path, 'Category' as label, sep"),
        ('class;note;path\nb;"c,d";1.jpg\na;"e;f";2.jpg\n', "'class' as label, separated by semicolons"),
        ("image,target,subset\n1.jpg,b,train\n2.jpg,a,\n", "'image' as path, 'target' as label, 'subset' as split"),
    ],
)  # fmt: skip
def test_other_separators_and_names_of_columns_are_taken_and_said(tmp_path: Path, content: str, note: str) -> None:
    source = open_source(str(table(tmp_path, content)))
    assert labels(source, "train") == {"1.jpg": "b", "2.jpg": "a"}
    assert len(source.notes) == 1 and note in source.notes[0]


@pytest.mark.faults("D24")
@pytest.mark.faults("N6")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["lacks the column path and label"]),
        ("path:label\n1.jpg:a\n", ["lacks the column path and label", "'path:label'"]),
        ("path,color\n1.jpg,a\n", ["lacks the column label", "'path', 'color'"]),
        ("path,label\n", ["no training images"]),
        ("path,label,split\n1.jpg,a,val\n", ["no training images"]),
        ("path,label\n1.jpg,a\n2.jpg,a\n", ["one class, 'a'"]),
        ("path,label\n1.jpg,a\n9.jpg,b\n", ["line 3", "9.jpg"]),
        ("path,label\n\n\n1.jpg,a\n9.jpg,b\n", ["line 5", "9.jpg"]),
        ('path,label\n"odd, name\n.jpg",a\n9.jpg,b\n', ["line 4", "9.jpg"]),
        ("path,label\n.,a\n2.jpg,b\n", ["line 2"]),
        ("path,label\n1.jpg,\n", ["line 2", "empty"]),
        ("path,label\n1.jpg\n", ["line 2", "empty"]),
        ("path,label\n1.jpg,a\n,b\n", ["line 3", "empty"]),
        ("path,label\n1.jpg,a\n2.jpg,b\n1.jpg,b\n", ["line 4", "'1.jpg'", "line 2"]),
        ("path,label,split\n1.jpg,a,trian\n", ["line 2", "'trian'", "'train'"]),
        ("path,label,split\n1.jpg,a,\n2.jpg,b,\n3.jpg,c,val\n", ["'c'", "'a', 'b'"]),
        ("path,label\n1.jpg,\u00e9\n".encode("latin-1"), ["line 2", "UTF-8"]),
        ("path,label\n1.jpg,a\n".encode("utf-16"), ["lacks the column"]),
        (b"path,label\n" + b"x" * 200_000, ["not a CSV"]),
        (bytes(range(256)), ["lacks the column"]),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_table_is_named(tmp_path: Path, content: str | bytes, words: list[str]) -> None:
    path = table(tmp_path, content)
    with pytest.raises(DataError) as caught:
        open_source(str(path))
    assert str(path) in str(caught.value) and caught.value.fix
    assert all(word in str(caught.value) for word in words), str(caught.value)


def idx(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.tobytes())


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    """Six training and three test images; the first pixel holds the label."""
    for part, numbers in (("train", [3, 1, 4, 1, 5, 9]), ("t10k", [2, 6, 5])):
        images = np.zeros((len(numbers), 28, 28), dtype=np.uint8)
        images[:, 0, 0] = numbers
        idx(tmp_path / "MNIST/raw" / f"{part}-images-idx3-ubyte", images)
        idx(tmp_path / "MNIST/raw" / f"{part}-labels-idx1-ubyte", np.array(numbers, dtype=np.uint8))
    return tmp_path


def test_mnist_is_read_from_its_folder(mnist: Path) -> None:
    source = open_source("mnist", root=str(mnist))
    assert source.name == "mnist" and source.class_names[3] == "3 - three"
    assert source.splits["train"].labels.tolist() == [3, 1, 4, 1, 5, 9]
    assert source.splits["test"].labels.tolist() == [2, 6, 5]
    for split, samples in source.splits.items():
        assert samples.arrays.shape == (len(samples), 28, 28) and samples.arrays.dtype == np.uint8
        assert samples.arrays[:, 0, 0].tolist() == samples.labels.tolist()
        assert samples.paths[0] == f"mnist/{split}/00000" and len(set(samples.paths)) == len(samples)


@pytest.mark.parametrize("damage", [b"", b"<html>", None, slice(0, -100)])
def test_a_damaged_or_missing_file_is_the_data_sets_error(mnist: Path, damage: bytes | slice | None) -> None:
    path = mnist / "MNIST/raw/train-images-idx3-ubyte"
    content = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage if isinstance(damage, bytes) else content[damage])
    with pytest.raises(DataError, match=r"mnist could not be read from .*: .+; check --data.root"):
        open_source("mnist", root=str(mnist))


def test_the_folder_must_be_named() -> None:
    with pytest.raises(DataError, match=r"--data\.root"):
        open_source("cifar10")


def test_channels_come_last_whatever_the_set_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchvision.datasets.svhn.check_integrity", lambda *_: True)
    images = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 2), dtype=np.uint8)
    for part in ("train", "test"):
        content = {"X": images, "y": np.array([[1], [10]], dtype=np.uint8)}  # SVHN writes 10 for 0
        scipy.io.savemat(tmp_path / f"{part}_32x32.mat", content)
    source = open_source("svhn", root=str(tmp_path))
    assert source.class_names == ("0", "1") and source.splits["train"].labels.tolist() == [1, 0]
    assert np.array_equal(source.splits["train"].arrays[1], images[:, :, :, 1])
