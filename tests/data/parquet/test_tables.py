"""Parquet tables as DATA: the same images, classes and hashes as in folders; rows that cannot be used."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.parquet.written import IMAGE, rows_of, write
from vit.data.checks.contents import read_contents
from vit.data.core.dataset_names import TableColumns
from vit.data.core.groups import with_groups
from vit.data.core.image_bytes import ImageError
from vit.data.sources.sources import open_source
from vit.data.splits.split import with_fold
from vit.errors import DataError
from vit.extras.parquet import rows as row_parts
from vit.extras.parquet.open import list_images
from vit.extras.pretrain.images import open_images
from vit.training.recipes.pretrain_recipe import PretrainDataConfig

NAMES = ("blue", "green", "red")


@pytest.fixture(scope="module")
def listed(colors):
    """(images, class numbers) of the colors."""
    return rows_of(colors, NAMES)


@pytest.fixture(scope="module")
def table(tmp_path_factory, listed):
    return write(tmp_path_factory.mktemp("table") / "colors.parquet", *listed, NAMES)


@pytest.fixture
def on_disk(monkeypatch, tmp_path):
    """Small limits, so that images go through the cache on the disk."""
    monkeypatch.setattr(row_parts, "MEMORY_BYTES", 2000)
    monkeypatch.setattr(row_parts, "PART_BYTES", 1500)
    monkeypatch.setenv("VIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_table_is_the_folder_of_its_images(table, colors):
    near, source = open_source(str(colors)), open_source(str(table))
    train = source.splits["train"]
    assert source.name == "colors" and source.class_names == near.class_names == NAMES
    assert np.array_equal(train.labels, near.splits["train"].labels)
    assert read_contents(source).hashes == read_contents(near).hashes
    assert train.paths[15] == "colors/000015/01.png" and len(set(train.paths)) == 42
    assert train.reader.shards(train.paths) is None  # small: drawn as files are


def test_the_order_of_a_class_label_is_kept(listed, tmp_path):
    images, labels = listed
    source = open_source(str(write(tmp_path / "t.parquet", images, labels, ("z", "y", "x", "unused"))))
    assert source.class_names == ("z", "y", "x", "unused")
    assert source.splits["train"].labels.tolist() == labels
    assert "train has no image of 1 class: unused (3 of 4 classes have training images)" in source.notes


@pytest.mark.parametrize(
    ("labels", "kind", "names"),
    [
        (["b", "a", "c"] * 14, pa.string(), ("a", "b", "c")),
        (["b", "a", "c"] * 14, pa.dictionary(pa.int8(), pa.large_string()), ("a", "b", "c")),
        ([10, 9, -1] * 14, pa.int32(), ("-1", "9", "10")),
        ([True, False] * 21, pa.bool_(), ("False", "True")),
    ],
)
def test_labels_without_class_names_are_sorted(listed, tmp_path, labels, kind, names):
    file = write(tmp_path / "t.parquet", listed[0], pa.array(labels, kind), None)
    source = open_source(str(file))
    assert source.class_names == names
    assert [source.class_names[label] for label in source.splits["train"].labels] == [str(one) for one in labels]


def test_bytes_without_a_struct(listed, table, tmp_path):
    plain = [one["bytes"] for one in listed[0]]
    for kind in (pa.binary(), pa.large_binary()):
        file = write(tmp_path / "t.parquet", plain, listed[1], NAMES, image_type=kind)
        assert read_contents(open_source(str(file))).hashes == read_contents(open_source(str(table))).hashes


def test_a_folder_of_splits(listed, tmp_path):
    images, labels = listed
    folder = tmp_path / "photos" / "data"
    for number in range(2):
        part = slice(number * 15, number * 15 + 15)
        write(folder / f"train-0000{number}-of-00002.parquet", images[part], labels[part], NAMES)
    write(folder / "test-00000-of-00001.parquet", images[30:], labels[30:], NAMES)
    write(folder / "unlabeled-00000-of-00001.parquet", images[:3], [-1] * 3, NAMES)
    for given in (folder, folder.parent):
        source = open_source(str(given))
        assert {split: len(part) for split, part in source.splits.items()} == {"train": 30, "test": 12}
        assert any(note.startswith("left out unlabeled") for note in source.notes)
        assert source.splits["test"].encoded(0) == images[30]["bytes"]
    alone = open_source(str(folder / "train-00000-of-00002.parquet"))
    assert len(alone.splits["train"]) == 15 and any("is one of 2 files" in note for note in alone.notes)


def test_parquet_files_beside_class_folders_are_not_the_data(colors, table, tmp_path):
    folder = tmp_path / "photos"
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        (folder / name / "1.png").write_bytes((colors / "red" / "00.png").read_bytes())
    (folder / "predictions.parquet").write_bytes(table.read_bytes())
    assert open_source(str(folder)).class_names == ("cat", "dog")


def test_a_split_and_a_group_column(listed, tmp_path):
    images, labels = listed
    columns = {"split": pa.array(["train", "Val", None] * 14), "patient": pa.array([7] * 42)}
    source = open_source(str(write(tmp_path / "t.parquet", images, labels, NAMES, columns=columns)))
    assert {split: len(part) for split, part in source.splits.items()} == {"train": 28, "validation": 14}
    assert set(source.splits["train"].groups) == {"7"}
    assert "groups are the column 'patient'" in source.notes
    columns = {"split": pa.array(["train", "night"] * 21)}
    with pytest.raises(DataError, match=r"t\.parquet, row 1: split is 'night'"):
        open_source(str(write(tmp_path / "t.parquet", images, labels, NAMES, columns=columns)))
    columns = {"patient": pa.array([7, None] * 21)}
    with pytest.raises(DataError, match=r"t\.parquet, row 1 has no group"):
        open_source(str(write(tmp_path / "t.parquet", images, labels, NAMES, columns=columns)))


@pytest.mark.faults("L23")
def test_a_row_without_an_image_is_an_unreadable_image(listed, tmp_path):
    images, labels = list(listed[0]), listed[1]
    secret = tmp_path / "secret.png"
    secret.write_bytes(images[0]["bytes"])
    images[3] = None
    images[4] = {"bytes": None, "path": str(secret)}  # the path of a file is never followed
    images[5] = {"bytes": b"", "path": "a.png"}
    images[6] = {"bytes": b"no image", "path": "../../b.png"}
    source = open_source(str(write(tmp_path / "t.parquet", images, labels, NAMES)))
    reasons = read_contents(source).unreadable["train"]
    assert set(reasons) == {3, 4, 5, 6}
    assert reasons[3] == reasons[4] == "the row has no bytes of an image" and reasons[5] == "the image is empty"
    assert source.splits["train"].paths[6] == "t/000006/b.png"


@pytest.mark.faults("L23")
def test_an_image_that_is_too_large(table, monkeypatch):
    train = open_source(str(table)).splits["train"]
    monkeypatch.setattr(row_parts, "MAX_BYTES", 100)
    with pytest.raises(ImageError, match="the limit is 100") as caught:
        train.encoded(0)
    assert caught.value.kind == "too_large"


@pytest.mark.faults("L24")
def test_rows_without_a_label(listed, tmp_path):
    images, labels = listed
    for missing in (-1, None):
        file = write(tmp_path / "t.parquet", images, [missing, *labels[1:]], NAMES)
        with pytest.raises(DataError, match=r"t.parquet, row 0 has no label \(1 of 42 train images have none\)"):
            open_source(str(file))
    with pytest.raises(DataError, match="row 41: the label is 3, and 'label' has 3 class names"):
        open_source(str(write(tmp_path / "t.parquet", images, [*labels[:-1], 3], NAMES)))


def test_a_test_split_without_labels_is_left_out(listed, tmp_path):
    images, labels = listed
    write(tmp_path / "set" / "train-00000-of-00001.parquet", images, labels, NAMES)
    write(tmp_path / "set" / "test-00000-of-00001.parquet", images[:5], [-1] * 5, NAMES)
    source = open_source(str(tmp_path / "set"))
    assert set(source.splits) == {"train"} and "left out test: none of its 5 images has a label" in source.notes
    assert {split: len(part) for split, part in list_images(str(tmp_path / "set"), TableColumns()).splits.items()} == {
        "train": 42,
        "test": 5,
    }
    assert len(open_images(PretrainDataConfig(str(tmp_path / "set"), labels="none")).splits["train"]) == 47


@pytest.mark.faults("D7")
def test_tables_to_measure_or_to_predict_need_no_training_images(listed, tmp_path):
    images, labels = listed
    write(tmp_path / "set" / "test-00000-of-00001.parquet", images[:5], labels[:5], NAMES)
    with pytest.raises(DataError, match="has test but no training images"):
        open_source(str(tmp_path / "set"))
    source = open_source(str(tmp_path / "set"), to_measure=True)
    assert {split: len(part) for split, part in source.splits.items()} == {"test": 5} and source.class_names == NAMES
    assert len(list_images(str(tmp_path / "set"), TableColumns()).splits["test"]) == 5


@pytest.mark.faults("L22")
def test_files_of_another_data_set(listed, tmp_path):
    images, labels = listed
    write(tmp_path / "set" / "train-00000-of-00001.parquet", images, labels, NAMES)
    write(tmp_path / "set" / "test-00000-of-00001.parquet", images, labels, ("green", "blue", "red"))
    with pytest.raises(DataError, match="have another class names"):
        open_source(str(tmp_path / "set"))


@pytest.mark.faults("L22")
def test_a_table_without_the_splits_of_another(listed, tmp_path):
    """Its rows would all become training images."""
    images, labels = listed
    for name in ("one", "two"):
        write(tmp_path / "set" / f"{name}.parquet", images, labels, NAMES)
    table = pq.read_table(tmp_path / "set" / "one.parquet")
    splits = pa.array(["train"] * 30 + ["test"] * (len(table) - 30))
    pq.write_table(table.append_column("split", splits), tmp_path / "set" / "one.parquet")
    with pytest.raises(DataError, match="have another column of splits"):
        open_source(str(tmp_path / "set"))


@pytest.mark.faults("L25")
@pytest.mark.parametrize("damage", ["cut", "empty", "footer", "pages", "folder"])
def test_a_damaged_file(table, tmp_path, damage):
    file, whole = tmp_path / "t.parquet", table.read_bytes()
    if damage == "folder":
        file.mkdir()
        (file / "x.parquet").write_bytes(whole[:-9])
    elif damage == "pages":
        file.write_bytes(whole[:200] + b"\xff" * 2000 + whole[2200:])
    else:
        file.write_bytes({"cut": whole[:-9], "empty": b"", "footer": whole[:-60] + b"\xff" * 52 + whole[-8:]}[damage])
    with pytest.raises(DataError, match="is not a whole parquet file"):
        [open_source(str(file)).splits["train"].encoded(row) for row in range(42)]


@pytest.mark.faults("L25")
def test_a_table_that_changes_under_a_training(table, tmp_path, monkeypatch):
    file = tmp_path / "t.parquet"
    file.write_bytes(table.read_bytes())
    train = open_source(str(file)).splits["train"]
    train.encoded(0)
    file.write_bytes(table.read_bytes()[:-1] + b"1")
    with pytest.raises(DataError, match=r"t\.parquet has changed since it was listed"):
        train.encoded(41)
    file.unlink()
    with pytest.raises(DataError, match=r"cannot read .*t\.parquet: No such file"):
        train.encoded(41)


def test_images_go_through_the_disk_and_stay_the_same(table, listed, on_disk):
    train = open_source(str(table)).splits["train"]
    expected = [one["bytes"] for one in listed[0]]
    order = np.random.default_rng(0).permutation(42)
    assert [train.encoded(row) for row in order] == [expected[row] for row in order]
    kept = set(on_disk.glob("*/*"))
    assert len(kept) > 6
    again = open_source(str(table)).splits["train"]
    again.prepare(range(42))
    assert [again.encoded(row) for row in range(42)] == expected and set(on_disk.glob("*/*")) == kept
    assert train.reader.shards(train.paths).tolist() == [row // 7 for row in range(42)]
    assert pickle.loads(pickle.dumps(train)).encoded(9) == expected[9]


@pytest.mark.faults("S7")
def test_a_damaged_part_of_the_cache_is_read_again(table, listed, on_disk):
    open_source(str(table)).splits["train"].encoded(20)
    for path in on_disk.glob("*/*"):
        path.write_bytes(b"\0" * 3 + path.read_bytes()[3:])
    assert open_source(str(table)).splits["train"].encoded(20) == listed[0][20]["bytes"]


def test_without_a_disk_memory_stays_bounded(table, listed, on_disk, monkeypatch):
    monkeypatch.setenv("VIT_CACHE_GB", "0")
    train = open_source(str(table)).splits["train"]
    for row in [*range(42), *reversed(range(42))]:
        assert train.encoded(row) == listed[0][row]["bytes"]
        held = sum(len(one) for rows in train.reader._kept.parts.values() for one in rows)
        assert held <= 2000
    assert not on_disk.exists()


def test_a_row_group_larger_than_memory_is_read_in_parts(listed, tmp_path, on_disk):
    file = write(tmp_path / "t.parquet", *listed, NAMES, group_size=1000)
    train = open_source(str(file)).splits["train"]
    assert [train.encoded(row) for row in range(42)] == [one["bytes"] for one in listed[0]]
    assert len(list(on_disk.glob("*/*"))) > 6
    assert max(path.stat().st_size for path in on_disk.glob("*/*")) < 3000


def test_a_cache_that_is_too_small_for_the_images_is_said(table, on_disk, monkeypatch):
    monkeypatch.setenv("VIT_CACHE_GB", "0.000001")
    assert any("set VIT_CACHE_GB" in note for note in open_source(str(table)).notes)


def test_columns_that_are_given_by_name(listed, tmp_path):
    columns = {"right": pa.array(list(reversed(listed[0])), pa.struct([("bytes", pa.binary())]))}
    columns |= {"coarse_label": pa.array(["x", "y"] * 21)}
    file = write(tmp_path / "t.parquet", *listed, NAMES, columns=columns)
    source = open_source(str(file), columns=TableColumns("right", "coarse_label"))
    assert source.class_names == ("x", "y") and source.splits["train"].encoded(0) == listed[0][-1]["bytes"]


def test_structs_with_other_types_of_text(listed, table, tmp_path):
    for bytes_type, text in ((pa.large_binary(), pa.large_string()), (pa.binary_view(), pa.string_view())):
        kind = pa.struct([("bytes", bytes_type), ("path", text)])
        source = open_source(str(write(tmp_path / "colors.parquet", *listed, NAMES, image_type=kind, group_size=42)))
        assert source.splits["train"].paths == open_source(str(table)).splits["train"].paths


@pytest.mark.faults("L21")
def test_several_labels_are_not_taken_for_classes_of_their_own(listed, tmp_path):
    labels = ["a|b", "a", "b|c"] * 14
    file = write(tmp_path / "t.parquet", listed[0], labels, None)
    (note,) = [note for note in open_source(str(file)).notes if "|" in note]
    assert "'a|b'" in note and "several labels need a CSV" in note
    table = pq.read_table(file).rename_columns(["image", "labels"])
    pq.write_table(table, file)
    with pytest.raises(DataError, match=r"column 'labels' .* has 'a\|b', and a table has one class for each image"):
        open_source(str(file))
    assert open_source(str(file), columns=TableColumns(label="labels")).class_names == ("a", "a|b", "b|c")


@pytest.mark.faults("D29", "D37")
def test_groups_in_tables_are_read_as_in_a_csv(listed, tmp_path):
    images, labels = listed
    names = [f"p{number // 4}{' ' * (number % 2)}" for number in range(len(labels))]
    spaced = open_source(str(write(tmp_path / "spaced.parquet", images, labels, NAMES, columns={"patient": names})))
    assert spaced.splits["train"].groups == tuple(name.strip() for name in names)
    numbers = [float(number // 4) for number in range(len(labels))]
    numbers[5] = float("nan")
    with pytest.raises(DataError, match="row 5 has no group, where other rows have one"):
        open_source(str(write(tmp_path / "nan.parquet", images, labels, NAMES, columns={"patient": numbers})))


@pytest.mark.faults("D29")
def test_no_fold_divides_groups_that_only_training_images_have(listed, tmp_path):
    images, labels = listed
    groups = [f"p{number // 4}" for number in range(len(labels))]
    write(tmp_path / "both" / "train.parquet", images, labels, NAMES, columns={"patient": groups})
    write(tmp_path / "both" / "test.parquet", images[::4], labels[::4], NAMES)
    source = open_source(str(tmp_path / "both"))
    with pytest.raises(DataError, match="has groups for train images and none for test images"):
        with_fold(source, "1/2", 0)


def test_groups_are_found_at_the_end_of_long_names(listed, tmp_path):
    images, labels = listed
    named = [{**one, "path": f"{'x' * 90}_patient{100 + place}.png"} for place, one in enumerate(images)]
    source = open_source(str(write(tmp_path / "long.parquet", named, labels, NAMES)))
    assert len(set(with_groups(source, "(patient[0-9]+)").splits["train"].groups)) == len(images)


def test_a_column_that_is_there_twice_is_refused(listed, tmp_path):
    images, labels = listed
    twice = pa.table([pa.array(images, IMAGE), pa.array(labels), pa.array(labels)], names=["image", "label", "label"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(DataError, match=r"twice\.parquet has the column 'label' twice"):
        open_source(str(tmp_path / "twice.parquet"))


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("subset", ["train", "test"] * 21),
        ("Usage", ["Training", "PublicTest", None] * 14),
        ("is_test", [0, 1] * 21),
        ("is_valid", [False, True] * 21),
    ],
)
def test_a_column_of_splits_under_another_name_is_refused(listed, tmp_path, name, cells):
    images, labels = listed
    columns = {name: pa.array(cells)}
    with pytest.raises(DataError, match=f"column '{name}' names splits"):
        open_source(str(write(tmp_path / "t.parquet", images, labels, NAMES, columns=columns)))


def test_columns_that_are_not_read_are_listed(listed, tmp_path):
    images, labels = listed
    columns = {"mask": pa.array(images, IMAGE), "subset": pa.array(["a", "b"] * 21), "id": pa.array(range(42))}
    source = open_source(str(write(tmp_path / "t.parquet", images, labels, NAMES, columns=columns)))
    assert "columns without image or label: 'mask', 'subset', 'id'" in source.notes


def test_lists_of_labels_are_no_classes(listed, tmp_path):
    images, _ = listed
    texts = ["['cat', 'dog']", "['dog']"] * 21
    with pytest.raises(DataError, match="which is a list"):
        open_source(str(write(tmp_path / "t.parquet", images, texts, None)))
