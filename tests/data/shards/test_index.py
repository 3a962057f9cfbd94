"""An index is untrusted: every row that cannot be right is refused with its place."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vit.data.sources.sources import open_source
from vit.errors import DataError
from vit.extras.shards.packing import pack
from vit.inference.files import list_images


@pytest.fixture
def shards(colors, tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    pack(open_source(str(colors)), folder, 6_000, lambda done, total: None)
    return folder


def changed(folder, column, value, row=1):
    """The index with another value in one row; None removes the column."""
    table = pq.read_table(folder / "index.parquet")
    place = table.column_names.index(column)
    if value is None:
        table = table.remove_column(place)
    else:
        values = table.column(column).to_pylist()
        values[row] = value
        table = table.set_column(place, column, pa.array(values))
    pq.write_table(table, folder / "index.parquet")
    return str(folder)


@pytest.mark.faults("S2")
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("sha256", None, "lacks the column sha256"),
        ("shard", "../../etc/passwd", "not a path below the index"),
        ("shard", "/etc/passwd", "not a path below the index"),
        ("shard", "https://example.org/x.tar", "not a path below the index"),
        ("shard", "train-009999.tar", "there is no"),
        ("offset", -1, "row 1: 'blue/01' has offset -1"),
        ("length", 0, "length 0"),
        ("length", 2**40, "length 1099511627776"),
        ("offset", 2**50, "which is cut"),
        ("sha256", "beef", "64 hexadecimal digits"),
        ("key", "blue/00", "'blue/00' stands twice"),
        ("key", "", "row 1 has no key"),
        ("label", "", "has no label"),
        ("label", "purple", "classes that the training images lack: 'purple'"),
        ("split", "Trian", "a split is 'Trian'; did you mean 'train'?"),
    ],
)
def test_wrong_rows_are_refused(shards, column, value, said):
    with pytest.raises(DataError) as error:
        open_source(changed(shards, column, value))
    assert said in str(error.value)


@pytest.mark.faults("S2")
def test_other_files_are_refused(shards, tmp_path):
    (shards / "index.parquet").write_bytes(b"path,label\n")
    with pytest.raises(DataError, match="not a parquet file"):
        open_source(str(shards))
    pq.write_table(pa.table({"image": [1], "label": [2]}), tmp_path / "other.parquet")
    with pytest.raises(DataError, match=r"has no column of images; its columns are 'image' .int64."):
        open_source(str(tmp_path / "other.parquet"))


def test_an_index_of_other_programs_needs_neither_groups_nor_our_columns(shards):
    table = pq.read_table(shards / "index.parquet").drop_columns(["group", "content_hash"])
    pq.write_table(table.replace_schema_metadata(None), shards / "index.parquet")
    source = open_source(str(shards))
    train = source.splits["train"]
    assert source.class_names == ("blue", "green", "red") and train.groups is None and train.known_hash(0) == ""
    assert np.bincount(train.labels).tolist() == [14, 14, 14]


@pytest.mark.faults("D29")
def test_groups_of_some_images_of_a_split_are_refused(shards):
    table = pq.read_table(shards / "index.parquet")
    place, groups = table.column_names.index("group"), [f"p{row // 3}" for row in range(len(table))]
    pq.write_table(table.set_column(place, "group", pa.array(groups)), shards / "index.parquet")
    assert open_source(str(shards)).splits["train"].groups == tuple(groups)
    pq.write_table(table.set_column(place, "group", pa.array([*groups[:-1], ""])), shards / "index.parquet")
    with pytest.raises(DataError, match="has no group, where other images of its split have one"):
        open_source(str(shards))


@pytest.mark.faults("D7")
def test_an_index_of_test_images_alone_is_measured(shards):
    table = pq.read_table(shards / "index.parquet")
    place = table.column_names.index("split")
    all_test = table.set_column(place, "split", pa.array(["test"] * table.num_rows))
    pq.write_table(all_test.replace_schema_metadata(None), shards / "index.parquet")
    with pytest.raises(DataError, match="has no training images"):
        open_source(str(shards))
    source = open_source(str(shards), to_measure=True)
    assert source.class_names == ("blue", "green", "red") and list(source.splits) == ["test"]
    assert len(source.splits["test"]) == 42 == len(list_images([str(shards)], recursive=False).paths)


@pytest.mark.faults("S3")
def test_cut_missing_and_changed_shards(shards):
    """Before the first image where the size tells, else at the first image that is not the listed one."""
    first = shards / "train-000000.tar"
    whole = first.read_bytes()
    first.write_bytes(whole[:1000])
    with pytest.raises(DataError, match="which is cut"):
        open_source(str(shards))
    first.write_bytes(whole)
    source = open_source(str(shards))
    train = source.splits["train"]
    inside = [row for row, shard in enumerate(train.reader.shards(train.paths)) if shard == 0]
    first.write_bytes(bytes(byte ^ 1 for byte in whole))
    with pytest.raises(DataError, match=r"is not the image that .*another sha256.*make the index again"):
        train.encoded(inside[0])
    first.write_bytes(whole[:1000])
    with pytest.raises(DataError, match=r"of [\d,]+ bytes"):
        train.encoded(max(inside, key=lambda row: train.reader.index.offsets[row]))
    first.unlink()
    with pytest.raises(DataError, match="cannot read the shard"):
        train.encoded(inside[0])


def test_classes_without_stated_names_are_in_the_order_of_folders(shards):
    """Class numbers are sorted as numbers, as in every other data set."""
    path = shards / "index.parquet"
    table = pq.read_table(path)
    labels = [str(2 + 8 * (label == "blue")) for label in table.column("label").to_pylist()]
    table = table.set_column(table.column_names.index("label"), "label", pa.array(labels))
    pq.write_table(table.replace_schema_metadata(None), path)
    assert open_source(str(shards)).class_names == ("2", "10")
