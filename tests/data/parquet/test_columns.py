"""Columns of images and labels, found by type and by usual names."""

import json

import pyarrow as pa
import pytest

from tests.data.parquet.written import IMAGE, features
from vit.data.core.dataset_names import TableColumns
from vit.errors import DataError, UsageError
from vit.extras.parquet.columns import choose_columns

TEXTS = pa.dictionary(pa.int32(), pa.string())


def schema(columns, metadata=None):
    return pa.schema(list(columns.items()), metadata=metadata)


def of_classes(*columns, image=None):
    kinds = {name: {"_type": "ClassLabel", "names": ["a", "b"]} for name in columns}
    kinds |= {} if image is None else {image: {"_type": "Image"}}
    return {"huggingface": json.dumps({"info": {"features": kinds}})}


@pytest.mark.parametrize(
    ("columns", "metadata", "image", "label"),
    [
        ({"image": IMAGE, "label": pa.int64()}, features(["a", "b"]), "image", "label"),
        ({"img": IMAGE, "fine_label": pa.int64(), "coarse_label": pa.int64()},
         of_classes("fine_label", "coarse_label"), "img", "fine_label"),
        ({"pixels": pa.large_binary(), "species": TEXTS}, None, "pixels", "species"),
        ({"thumb": pa.binary(), "image": pa.binary(), "label": pa.bool_(), "labels": pa.list_(pa.int64())}, None,
         "image", "label"),
        ({"audio": IMAGE, "scan": IMAGE, "digit": pa.int8()},
         {"huggingface": json.dumps({"info": {"features": {
             "audio": {"_type": "Audio"}, "scan": {"_type": "Image"},
             "digit": {"_type": "ClassLabel", "names": ["0", "1"]}}}})}, "scan", "digit"),
        ({"hash": pa.binary(), "photo": IMAGE, "label": pa.string()}, {"huggingface": "{not json"}, "photo", "label"),
    ],
)  # fmt: skip
def test_columns_that_are_found(columns, metadata, image, label):
    found = choose_columns(schema(columns, metadata), TableColumns(), "t.parquet")
    assert (found.image, found.label) == (image, label)
    assert found.bytes_path == (image if columns[image] != IMAGE else f"{image}.bytes")


@pytest.mark.faults("L21")
@pytest.mark.parametrize(
    ("columns", "metadata", "words"),
    [
        ({"left": IMAGE, "right": IMAGE, "label": pa.int64()}, None, "columns of images: 'left', 'right'"),
        ({"image": IMAGE, "shape": pa.int64(), "color": pa.int64()}, of_classes("shape", "color"),
         "several columns of labels: 'shape', 'color'"),
        ({"image": IMAGE, "caption": pa.string()}, None, "no column of labels; its columns are 'image'"),
        ({"image": IMAGE, "label": pa.float64()}, None, "'label' (double)"),
        ({"image": pa.string(), "label": pa.int64()}, None, "no column of images; its columns are 'image' (string)"),
        ({"image": pa.list_(IMAGE), "label": pa.int64()}, None, "no column of images"),
    ],
)  # fmt: skip
def test_columns_that_are_not_clear_are_named(columns, metadata, words):
    with pytest.raises(DataError) as caught:
        choose_columns(schema(columns, metadata), TableColumns(), "t.parquet")
    assert words in str(caught.value) and "t.parquet" in str(caught.value)


@pytest.mark.faults("L21")
def test_columns_that_are_given():
    one = schema({"left": IMAGE, "right": IMAGE, "shape": pa.int64(), "size": pa.float32()})
    found = choose_columns(one, TableColumns("right", "shape"), "t.parquet")
    assert (found.image, found.label, found.class_names) == ("right", "shape", None)
    with pytest.raises(UsageError, match=r"image_column 'rigth' is not a column of t\.parquet; did you mean 'right'"):
        choose_columns(one, TableColumns("rigth", "shape"), "t.parquet")
    for wanted, words in (
        (TableColumns("shape"), "holds int64.*of images"),
        (TableColumns("left", "size"), "holds float"),
    ):
        with pytest.raises(DataError, match=words):
            choose_columns(one, wanted, "t.parquet")


@pytest.mark.faults("L22")
@pytest.mark.parametrize("names", [["a", "a"], [], [1, 2], "ab", ["a", ""]])
def test_class_names_that_are_damaged(names):
    said = {"huggingface": json.dumps({"info": {"features": {"label": {"_type": "ClassLabel", "names": names}}}})}
    with pytest.raises(DataError, match="class name"):
        choose_columns(schema({"image": IMAGE, "label": pa.int64()}, said), TableColumns(), "t.parquet")


@pytest.mark.parametrize("name", ["patient", "Patient", "patient id", "Subject", "GROUP"])
def test_groups_are_found_as_in_a_csv(name):
    found = choose_columns(schema({"image": IMAGE, "Label": pa.int64(), name: pa.int64()}), TableColumns(), "t.parquet")
    assert (found.label, found.group) == ("Label", name)


@pytest.mark.parametrize(
    ("columns", "split", "unread", "may_split"),
    [
        ({"Split": pa.string()}, "Split", (), ()),
        ({"subset": pa.string(), "mask": IMAGE, "": pa.int64()}, None, ("subset", "mask"), ("subset",)),
        ({"subset": pa.string(), "split": pa.string()}, "split", ("subset",), ("subset",)),
    ],
)
def test_splits_are_found_and_other_columns_are_kept_in_mind(columns, split, unread, may_split):
    found = choose_columns(schema({"image": IMAGE, "label": pa.int64(), **columns}), TableColumns(), "t.parquet")
    assert (found.split, found.unread, found.may_split) == (split, unread, may_split)
